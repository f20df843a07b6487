package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// decisions say what becomes of single rows. A check keeps them in temporary tables, which disappear with the
// connection. A run stores them in permanent tables before it copies anything.
type decisions struct {
	ws        *workspace
	offsets   *keyOffsets
	permanent bool
	// How many decisions there are, by table and server number. Tables without any need no look-ups.
	// differing counts the dropped rows that have other values than those that stay.
	renames, drops, moves, values, differing map[tableServer]int64
}

func newDecisions(ws *workspace, offsets *keyOffsets, permanent bool) *decisions {
	return &decisions{ws: ws, offsets: offsets, permanent: permanent}
}

// name returns the quoted name of a decision table.
func (d *decisions) name(table string) string {
	if !d.permanent {
		table = "tmp_" + table
	}
	return d.ws.target.Kind.Quote(table)
}

// begin makes the temporary tables.
func (d *decisions) begin(ctx context.Context) error {
	*d = *newDecisions(d.ws, d.offsets, false)
	for name, columns := range map[string]string{
		tableRenames: renamesColumns, tableDrops: dropsColumns, tableValues: valuesColumns,
	} {
		t := d.ws.target
		if err := t.Exec(ctx, "DROP "+temporaryWord(t.Kind)+"TABLE IF EXISTS "+d.name(name)); err != nil {
			return err
		}
		if err := t.Exec(ctx, ddl(t.Kind, "tmp_"+name, columns, true)); err != nil {
			return err
		}
	}
	return nil
}

// keep copies the decisions to the permanent tables, in the transaction of the caller.
func (d *decisions) keep(ctx context.Context) error {
	t := d.ws.target
	for _, name := range []string{tableRenames, tableDrops, tableValues} {
		q := sqldb.NewStatement(t.Kind, "INSERT INTO ", t.Kind.Quote(name), " SELECT * FROM ", d.name(name))
		if _, err := t.Run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// count counts the decisions of every table and server.
func (d *decisions) count(ctx context.Context) error {
	if err := d.offsets.find(ctx); err != nil {
		return err
	}
	if err := d.analyze(ctx); err != nil {
		return err
	}
	d.renames, d.drops = map[tableServer]int64{}, map[tableServer]int64{}
	d.moves, d.values = map[tableServer]int64{}, map[tableServer]int64{}
	d.differing = map[tableServer]int64{}
	for _, c := range []struct {
		table, where string
		into         map[tableServer]int64
	}{
		{tableRenames, "", d.renames}, {tableDrops, "", d.drops}, {tableValues, "", d.values},
		{tableDrops, " WHERE row_key <> keeper_key", d.moves}, {tableDrops, " WHERE differs = 1", d.differing},
	} {
		if err := d.counts(ctx, d.name(c.table)+c.where, c.into); err != nil {
			return err
		}
	}
	for share, n := range d.drops {
		if j := d.ws.jobs[share.table]; j != nil && j.plan.Renumber != "" {
			d.moves[share] = n // keys that were equal on two servers are not equal any more
		}
	}
	return nil
}

// counts counts the rows of a list by table and server.
func (d *decisions) counts(ctx context.Context, list string, into map[tableServer]int64) error {
	q := sqldb.NewStatement(d.ws.target.Kind, "SELECT tbl, server, COUNT(*) FROM ",
		list, " GROUP BY tbl, server")
	return d.ws.target.Each(ctx, q, func(values []any) error {
		server, err := strconv.ParseInt(sqldb.Text(values[1]), 10, 64)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(sqldb.Text(values[2]), 10, 64)
		into[tableServer{sqldb.Text(values[0]), server}] = n
		return err
	})
}

// analyze lets PostgreSQL know how many decisions there are. It takes tables that it knows nothing of for
// small ones, and would read a whole table for every batch of a look-up.
func (d *decisions) analyze(ctx context.Context) error {
	if d.ws.target.Kind != sqldb.PostgreSQL {
		return nil
	}
	for _, name := range []string{tableRenames, tableDrops, tableValues} {
		if err := d.ws.target.Exec(ctx, "ANALYZE "+d.name(name)+" (tbl, server, row_key)"); err != nil {
			return err
		}
	}
	return nil
}

// summed adds up counts over all tables and servers.
func summed(counts map[tableServer]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// newNames looks up the new names of some rows of a table, by their keys.
func (d *decisions) newNames(ctx context.Context, share tableServer, keys []string) (map[string]string,
	error) {
	names := map[string]string{}
	err := d.lookup(ctx, tableRenames, []string{"new_name"}, share, keys, func(key string, v []string) error {
		names[key] = v[0]
		return nil
	})
	return names, err
}

// lookup reads the decisions about some rows of a table, which are named by their keys. It calls fn with the
// columns that were asked for.
func (d *decisions) lookup(ctx context.Context, table string, columns []string, share tableServer,
	keys []string,
	fn func(key string, values []string) error) error {
	batch := 1000
	if d.ws.target.Kind == sqldb.PostgreSQL {
		batch = 10_000 // which are bound as one array
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for part := range slices.Chunk(keys, batch) {
		q := sqldb.NewStatement(d.ws.target.Kind, "SELECT row_key, ", strings.Join(columns, ", "), " FROM ",
			d.name(table), " WHERE tbl = ").Bind(share.table).Add(" AND server = ").Bind(share.server).
			Add(" AND row_key")
		q.In(part)
		err := d.ws.target.EachSteady(ctx, q, func(values []any) error {
			texts := make([]string, len(columns))
			for i := range texts {
				texts[i] = sqldb.Text(values[i+1])
			}
			return fn(sqldb.Text(values[0]), texts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// givenUp has what each server gives up of each table.
type givenUp map[tableServer]GivenUp

func (g givenUp) add(share tableServer, more GivenUp) {
	sum := g[share]
	sum.add(more)
	g[share] = sum
}

// applier carries out decisions: it changes rows on their way to the target.
type applier struct{ *decisions }

// apply changes rows as it was decided and returns those that are copied.
func (a *applier) apply(ctx context.Context, src *sourceTable, rows []row) ([]row, error) {
	share := tableServer{src.job.name, src.owner().Number}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = sqldb.RowKey(r.key)
	}
	if a.drops[share] > 0 {
		gone := map[string]bool{}
		note := func(key string, _ []string) error {
			gone[key] = true
			return nil
		}
		err := a.lookup(ctx, tableDrops, []string{"server"}, share, slices.Clone(keys), note)
		if err != nil {
			return nil, err
		}
		kept := rows[:0]
		keptKeys := keys[:0]
		for i, r := range rows {
			if !gone[keys[i]] {
				kept, keptKeys = append(kept, r), append(keptKeys, keys[i])
			}
		}
		rows, keys = kept, keptKeys
	}
	// Names are found by the keys that rows have on their server, so these change last.
	if err := a.copyNames(ctx, src, rows); err != nil {
		return nil, err
	}
	if index := src.renamed(); index >= 0 && a.renames[share] > 0 {
		names, err := a.newNames(ctx, share, slices.Clone(keys))
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			if name, ok := names[key]; ok {
				rows[i].values[index] = name
				if err := src.nameBeside(rows[i], name); err != nil {
					return nil, err
				}
			}
		}
	}
	if a.values[share] > 0 {
		if err := a.setValues(ctx, src, share, rows, keys); err != nil {
			return nil, err
		}
	}
	if err := a.references(ctx, src, rows); err != nil {
		return nil, err
	}
	return rows, nil
}

func (a *applier) setValues(ctx context.Context, src *sourceTable, share tableServer, rows []row,
	keys []string) error {
	indexes := map[string][]int{}
	for i, key := range keys {
		indexes[key] = append(indexes[key], i)
	}
	columns := []string{"col", "value"}
	return a.lookup(ctx, tableValues, columns, share, slices.Clone(keys), func(key string, v []string) error {
		position := src.index(v[0])
		if position < 0 {
			return nil
		}
		value, err := sqldb.Native(v[1], src.pairs[position].target)
		for _, i := range indexes[key] {
			rows[i].values[position] = value
		}
		return err
	})
}

// copyNames gives the new names of rows to the columns that repeat them. A copy that has another text, such as
// none, is no copy and stays; a foreign key to the name is the name in whatever way the database compares it.
func (a *applier) copyNames(ctx context.Context, src *sourceTable, rows []row) error {
	for _, n := range src.repeats {
		share := tableServer{n.parent, src.owner().Number}
		if a.renames[share] == 0 {
			continue
		}
		parent := a.ws.jobs[n.parent].target
		keys := make([]string, len(rows))
		var asked []string
		for i, r := range rows {
			key := make([]any, len(n.key))
			for k, index := range n.key {
				if key[k] = r.extra[index]; key[k] == nil {
					key = nil
					break
				}
				key[k] = identity(key[k], parent.Column(parent.Primary[k]), src.raw)
			}
			if key != nil && r.values[n.index] != nil {
				keys[i] = sqldb.RowKey(key)
				asked = append(asked, keys[i])
			}
		}
		foreign := slices.Contains(n.ref.Target, a.ws.jobs[n.parent].plan.Rename.Column)
		names := map[string][]string{} // the old and the new one, by key
		err := a.lookup(ctx, tableRenames, []string{"old_name", "new_name"}, share, asked,
			func(key string, v []string) error {
				names[key] = v
				return nil
			})
		if err != nil {
			return err
		}
		for i, r := range rows {
			name, ok := names[keys[i]]
			if ok && keys[i] != "" && (foreign || sameName(sqldb.Text(r.values[n.index]), name[0])) {
				r.values[n.index] = name[1]
			}
		}
	}
	return nil
}

// sameName reports whether a text repeats a name.
func sameName(text, name string) bool {
	return strings.EqualFold(strings.TrimSpace(text), strings.TrimSpace(name))
}

// touches reports whether rows of a source table may change on their way.
func (a *applier) touches(src *sourceTable) bool {
	number := src.owner().Number
	return a.moved(src) || len(src.job.plan.Set) > 0 ||
		a.drops[tableServer{src.job.name, number}] > 0 || a.decides(src)
}

// moved reports whether rows of a source table have keys that are renumbered.
func (a *applier) moved(src *sourceTable) bool {
	return slices.ContainsFunc(src.links, func(l sourceLink) bool {
		return a.offsets.added[tableServer{l.parent, src.owner().Number}] != 0
	})
}

// decides reports whether a decision about rows may give another value to a row of a source table.
func (a *applier) decides(src *sourceTable) bool {
	own := tableServer{src.job.name, src.owner().Number}
	return a.renames[own]+a.values[own] > 0 || a.follows(src)
}

// onlyRenames reports whether the decisions about rows of a source table are nothing but new names for them.
func (a *applier) onlyRenames(src *sourceTable) bool {
	own := tableServer{src.job.name, src.owner().Number}
	return a.renames[own] > 0 && a.values[own]+a.drops[own] == 0 && !a.follows(src)
}

// follows reports whether rows of a source table may have to follow decisions about rows of other tables.
func (a *applier) follows(src *sourceTable) bool {
	number := src.owner().Number
	for _, l := range src.links {
		if a.moves[tableServer{l.parent, number}] > 0 && !l.own {
			return true
		}
	}
	for _, w := range src.whole {
		if a.moves[tableServer{w.parent, number}] > 0 {
			return true
		}
	}
	for _, n := range src.repeats {
		if a.renames[tableServer{n.parent, number}] > 0 {
			return true
		}
	}
	return false
}

// moved is a row that stays in the place of another one.
type moved struct {
	server int64
	key    string
}

// movesOf looks up which of some rows of a table became one with another row, by their keys.
func (a *applier) movesOf(ctx context.Context, share tableServer, keys []string) (map[string]moved, error) {
	all := map[string]moved{}
	if a.moves[share] == 0 {
		return all, nil
	}
	columns := []string{"keeper_server", "keeper_key"}
	err := a.lookup(ctx, tableDrops, columns, share, keys, func(key string, v []string) error {
		var m moved
		_, err := fmt.Sscan(v[0], &m.server)
		m.key = v[1]
		all[key] = m
		return err
	})
	return all, err
}

// newValue returns the key that a row of a table has in the target.
func (a *applier) newValue(share tableServer, key any, moves map[string]moved) (any, error) {
	parent := a.ws.jobs[share.table]
	c := parent.key()
	if m, ok := moves[sqldb.RowKey([]any{key})]; ok {
		keeper, err := sqldb.KeyValue(m.key, c)
		if err != nil {
			return nil, err
		}
		return a.offsets.newKey(tableServer{share.table, m.server}, keeper), nil
	}
	return a.offsets.newKey(share, key), nil
}

// references changes the references of rows to rows that have other keys in the target, and their own keys.
func (a *applier) references(ctx context.Context, src *sourceTable, rows []row) error {
	number := src.owner().Number
	type change struct {
		row, index int
		value      any
	}
	// All are made from the values that rows have on their server, and done at the end.
	var changes []change
	// By row and column, what references inside of it have made of it so far. No two of them change one key.
	inside := map[[2]int]any{}
	for n, l := range src.links {
		share := tableServer{l.parent, number}
		if a.moves[share] == 0 && a.offsets.added[share] == 0 {
			continue
		}
		parent := a.ws.jobs[l.parent].key()
		keysIn := func(values []any) ([]any, error) { return values, nil }
		if l.inside() {
			keysIn = l.keys
		}
		var keys []string
		if a.moves[share] > 0 && !l.own {
			for _, r := range rows {
				values := l.parts(r)
				if values == nil {
					continue
				}
				found, err := keysIn(values)
				if err != nil {
					return a.unreadable(src, r, l, err)
				}
				for _, v := range found {
					keys = append(keys, sqldb.RowKey([]any{identity(v, parent, src.raw)}))
				}
			}
		}
		moves, err := a.movesOf(ctx, share, keys)
		if err != nil {
			return err
		}
		for i, r := range rows {
			whole := l.parts(r)
			if whole == nil {
				continue
			}
			done, err := src.settled(n, r)
			if err != nil {
				return a.unreadable(src, r, l, err)
			}
			if done {
				continue
			}
			target := src.pairs[l.index].target
			if l.inside() {
				for n, index := range l.all {
					if changed, ok := inside[[2]int{i, index}]; ok {
						whole[n] = changed
					}
				}
				now, err := l.replace(whole, func(v any) (any, error) {
					now, err := a.newValue(share, identity(v, parent, src.raw), moves)
					return numberKey(now, parent), err
				})
				if err != nil {
					return a.unreadable(src, r, l, err)
				}
				for n, index := range l.all {
					inside[[2]int{i, index}] = now[n]
					changes = append(changes, change{i, index, now[n]})
				}
				continue
			}
			old := identity(r.values[l.index], parent, src.raw)
			v, err := a.newValue(share, old, moves)
			if err != nil {
				return err
			}
			if sqldb.KeyText([]any{v}) == sqldb.KeyText([]any{old}) {
				continue
			}
			if _, text := r.values[l.index].(string); src.raw && text {
				v = sqldb.Text(v)
			} else if v, err = sqldb.Canonical(v, target, src.raw); err != nil {
				return fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, src.owner().Name, src.job.name,
					sqldb.KeyText(r.key), err)
			}
			changes = append(changes, change{i, l.index, v})
		}
	}
	// A reference of several columns to a row that became one with another leads to that row as a whole.
	for _, w := range src.whole {
		share := tableServer{w.parent, number}
		if a.moves[share] == 0 {
			continue
		}
		parent := a.ws.jobs[w.parent]
		columns := make([]*sqldb.Column, len(parent.target.Primary))
		for i, name := range parent.target.Primary {
			columns[i] = parent.target.Column(name)
		}
		indexes := map[string][]int{}
		for i, r := range rows {
			if key := w.keyOf(r, columns, src.raw); key != nil && r.holds(w.when) {
				text := sqldb.RowKey(key)
				indexes[text] = append(indexes[text], i)
			}
		}
		keys := make([]string, 0, len(indexes))
		for key := range indexes {
			keys = append(keys, key)
		}
		moves, err := a.movesOf(ctx, share, keys)
		if err != nil {
			return err
		}
		for key, m := range moves {
			values, err := sqldb.KeyValues(m.key, columns)
			if err != nil {
				return err
			}
			values, err = a.finalKey(ctx, parent, m.server, values)
			if err != nil {
				return err
			}
			for _, i := range indexes[key] {
				for n, v := range values {
					if v, err = sqldb.Canonical(v, src.pairs[w.indexes[n]].target, src.raw); err != nil {
						return err
					}
					changes = append(changes, change{i, w.indexes[n], v})
				}
			}
		}
	}
	for _, c := range changes {
		rows[c.row].values[c.index] = c.value
	}
	return nil
}

func (a *applier) unreadable(src *sourceTable, r row, l sourceLink, err error) error {
	return fmt.Errorf("%w: %s: table %s, row %s: the references in %s cannot be followed: %w", ErrRow,
		src.owner().Name, src.job.name, sqldb.KeyText(r.key), l.column, err)
}

// finalKey returns the primary key that a row of a table, which is named by its key on its server, has in the
// target.
func (a *applier) finalKey(ctx context.Context, j *tableJob, server int64, key []any) ([]any, error) {
	final := slices.Clone(key)
	for _, l := range j.follows.links {
		index := slices.Index(j.target.Primary, l.column)
		if index < 0 || l.when != "" || l.inside() || key[index] == nil {
			continue
		}
		share := tableServer{l.parent, server}
		c := a.ws.jobs[l.parent].key()
		old := identity(key[index], c, false)
		moves, err := a.movesOf(ctx, share, []string{sqldb.RowKey([]any{old})})
		if err != nil {
			return nil, err
		}
		if l.parent == j.name { // the row stays
			moves = nil
		}
		if final[index], err = a.newValue(share, old, moves); err != nil {
			return nil, err
		}
	}
	return final, nil
}

// keyOf returns the key that a row refers to, or nil.
func (w sourceWhole) keyOf(r row, columns []*sqldb.Column, raw bool) []any {
	key := make([]any, len(columns))
	for i, c := range columns {
		if r.values[w.indexes[i]] == nil {
			return nil
		}
		key[i] = identity(r.values[w.indexes[i]], c, raw)
	}
	return key
}
