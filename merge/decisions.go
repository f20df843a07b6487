package merge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// decisions say what becomes of single rows, and change rows on their way to the target. A check keeps them
// in temporary tables, which disappear with the connection. A run stores them in permanent tables before it
// copies anything.
type decisions struct {
	ws        *workspace
	permanent bool
	// How many decisions there are, by table and server number. Tables without any need no look-ups.
	// differing counts the dropped rows that have other values than those that stay.
	renames, drops, moves, values, differing map[tableServer]int64
}

// name returns the quoted name of a decision table.
func (d *decisions) name(table string) string {
	if !d.permanent {
		table = "tmp_" + table
	}
	return d.ws.target.Kind.Quote(table)
}

// writer writes temporary decisions.
func (d *decisions) writer(table string) *sqldb.Writer {
	return sqldb.NewWriter(d.ws.target, "tmp_"+table, ownColumns(table), false)
}

// decisionTables are the tables of the decisions.
func decisionTables() []string { return []string{tableRenames, tableDrops, tableValues} }

// begin makes the temporary tables.
func (d *decisions) begin(ctx context.Context) error {
	*d = decisions{ws: d.ws}
	t := d.ws.target
	for _, table := range decisionTables() {
		err := cmp.Or(t.DropTemporary(ctx, d.name(table)), t.Exec(ctx, ddl(t.Kind, table, true)))
		if err != nil {
			return err
		}
	}
	return nil
}

// keep copies the decisions to the permanent tables, in the transaction of the caller.
func (d *decisions) keep(ctx context.Context) error {
	t := d.ws.target
	for _, name := range decisionTables() {
		q := t.SQL("INSERT INTO ", t.Kind.Quote(name), " SELECT * FROM ", d.name(name))
		if _, err := t.Run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// count counts the decisions of every table and server.
func (d *decisions) count(ctx context.Context) error {
	if err := d.ws.offsets.find(ctx); err != nil {
		return err
	}
	for _, table := range decisionTables() {
		if err := d.ws.target.Analyze(ctx, d.name(table)+" (tbl, server, row_key)"); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		list string
		into *map[tableServer]int64
	}{
		{d.name(tableRenames), &d.renames}, {d.name(tableDrops), &d.drops}, {d.name(tableValues), &d.values},
		{d.name(tableDrops) + " WHERE row_key <> keeper_key", &d.moves},
		{d.name(tableDrops) + " WHERE differs = 1", &d.differing},
	} {
		var err error
		if *c.into, err = d.counts(ctx, c.list); err != nil {
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
func (d *decisions) counts(ctx context.Context, list string) (map[tableServer]int64, error) {
	all := map[tableServer]int64{}
	q := d.ws.target.SQL("SELECT tbl, server, COUNT(*) FROM ", list, " GROUP BY tbl, server")
	return all, d.ws.target.Each(ctx, q, func(values []any) error {
		n, err := numbers(values[1:]...)
		if err == nil {
			all[tableServer{sqldb.Text(values[0]), n[0]}] = n[1]
		}
		return err
	})
}

// summed adds up counts over all tables and servers.
func summed(counts map[tableServer]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// rowKey is the column of the tables of decisions that names the row.
const rowKey = "row_key"

// lookup reads the decisions about some rows of a table, which are named by what they have in a column. For
// each it returns what stands in the columns that are asked for.
func (d *decisions) lookup(ctx context.Context, table string, share tableServer, by string, keys []string,
	columns ...string) (map[string][][]string, error) {
	found := map[string][][]string{}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for part := range slices.Chunk(keys, d.ws.target.Kind.Batch()) {
		q := d.ws.target.SQL("SELECT ", by, ", ", strings.Join(columns, ", "), " FROM ", d.name(table),
			" WHERE tbl = ").Bind(share.table).Add(" AND server = ").Bind(share.server).Add(" AND ", by).In(part)
		err := d.ws.target.EachSteady(ctx, q, func(values []any) error {
			texts := make([]string, len(columns))
			for i := range texts {
				texts[i] = sqldb.Text(values[i+1])
			}
			key := sqldb.Text(values[0])
			found[key] = append(found[key], texts)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// givenUp has what each server gives up of each table.
type givenUp map[tableServer]GivenUp

func (g givenUp) add(share tableServer, more GivenUp) {
	sum := g[share]
	sum.add(more)
	g[share] = sum
}

// apply changes rows as it was decided and returns those that are copied.
func (d *decisions) apply(ctx context.Context, src *sourceTable, rows []row) ([]row, error) {
	share := src.share()
	if d.drops[share] > 0 {
		gone, err := d.lookup(ctx, tableDrops, share, rowKey, keysOf(rows), "server")
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r row) bool { return gone[sqldb.RowKey(r.key)] != nil })
	}
	// Names are found by the keys that rows have on their server, so these change last.
	if err := d.copyNames(ctx, src, rows); err != nil {
		return nil, err
	}
	if d.renames[share]+d.values[share] > 0 {
		if err := d.decided(ctx, src, share, rows); err != nil {
			return nil, err
		}
	}
	return rows, d.references(ctx, src, rows)
}

// keysOf returns the keys by which decisions name rows.
func keysOf(rows []row) []string {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = sqldb.RowKey(r.key)
	}
	return keys
}

// decided gives rows their new names, and the values that were computed for them.
func (d *decisions) decided(ctx context.Context, src *sourceTable, share tableServer, rows []row) error {
	keys := keysOf(rows)
	if index := src.renamed(); index >= 0 && d.renames[share] > 0 {
		names, err := d.lookup(ctx, tableRenames, share, rowKey, keys, "new_name")
		if err != nil {
			return err
		}
		for i, r := range rows {
			for _, name := range names[keys[i]] {
				r.values[index] = name[0]
				if err := src.nameBeside(r, name[0]); err != nil {
					return err
				}
			}
		}
	}
	if d.values[share] == 0 {
		return nil
	}
	values, err := d.lookup(ctx, tableValues, share, rowKey, keys, "col", "value")
	for i, r := range rows {
		for _, v := range values[keys[i]] {
			if index := src.index(v[0]); index >= 0 && err == nil {
				r.values[index], err = sqldb.Native(v[1], src.pairs[index].target)
			}
		}
	}
	return err
}

// copyNames gives the new names of rows to the columns that repeat them. A copy that has another text, such
// as none, is no copy and stays; a foreign key to the name is the name in whatever way the database compares
// it.
func (d *decisions) copyNames(ctx context.Context, src *sourceTable, rows []row) error {
	for _, n := range src.repeats {
		share := src.shareOf(n.parent)
		if d.renames[share] == 0 {
			continue
		}
		parent, by := d.ws.jobs[n.parent].target, rowKey
		keys := make([]string, len(rows)) // "" for a row without such a name
		if n.alone() {
			by = "old_name"
		}
		for i, r := range rows {
			key := make([]any, len(n.key))
			for k, index := range n.key {
				if key[k] = r.extra[index]; key[k] == nil {
					key = nil
					break
				}
				key[k] = identity(key[k], parent.Column(parent.Primary[k]), src.raw)
			}
			switch {
			case r.values[n.index] == nil:
			case n.alone():
				keys[i] = sqldb.Text(r.values[n.index])
			case key != nil:
				keys[i] = sqldb.RowKey(key)
			}
		}
		foreign := slices.Contains(n.ref.Target, d.ws.jobs[n.parent].plan.Rename.Column)
		names, err := d.lookup(ctx, tableRenames, share, by, keys, "old_name", "new_name")
		if err != nil {
			return err
		}
		for i, r := range rows {
			for _, name := range names[keys[i]] {
				if foreign || sameName(sqldb.Text(r.values[n.index]), name[0]) {
					r.values[n.index] = name[1]
				}
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
func (d *decisions) touches(src *sourceTable) bool {
	return d.moved(src) || len(src.job.plan.Set) > 0 || d.drops[src.share()] > 0 || d.decides(src)
}

// moved reports whether rows of a source table have keys that are renumbered.
func (d *decisions) moved(src *sourceTable) bool {
	link := func(l sourceLink) bool { return d.ws.offsets.added[src.shareOf(l.parent)] != 0 }
	return slices.ContainsFunc(src.links, link)
}

// decides reports whether a decision about rows may give another value to a row of a source table.
func (d *decisions) decides(src *sourceTable) bool {
	return d.renames[src.share()]+d.values[src.share()] > 0 || d.follows(src)
}

// onlyRenames reports whether the decisions about rows of a source table are nothing but new names for them.
func (d *decisions) onlyRenames(src *sourceTable) bool {
	own := src.share()
	return d.renames[own] > 0 && d.values[own]+d.drops[own] == 0 && !d.follows(src)
}

// follows reports whether rows of a source table may have to follow decisions about rows of other tables.
func (d *decisions) follows(src *sourceTable) bool {
	link := func(l sourceLink) bool { return d.moves[src.shareOf(l.parent)] > 0 && !l.own }
	return slices.ContainsFunc(src.links, link) || slices.ContainsFunc(src.whole, link) ||
		slices.ContainsFunc(src.repeats, func(n sourceName) bool { return d.renames[src.shareOf(n.parent)] > 0 })
}

// moved is a row that stays in the place of another one.
type moved struct {
	server int64
	key    string
}

// movesOf looks up which of some rows of a table became one with another row, by their keys.
func (d *decisions) movesOf(ctx context.Context, share tableServer, keys []string) (map[string]moved, error) {
	all := map[string]moved{}
	if d.moves[share] == 0 {
		return all, nil
	}
	found, err := d.lookup(ctx, tableDrops, share, rowKey, keys, "keeper_server", "keeper_key")
	for key, keeper := range found {
		server, err := numbers(keeper[0][0])
		if err != nil {
			return nil, err
		}
		all[key] = moved{server[0], keeper[0][1]}
	}
	return all, err
}

// newValue returns the key that a row of a table has in the target.
func (d *decisions) newValue(share tableServer, key any, moves map[string]moved) (any, error) {
	parent := d.ws.jobs[share.table]
	c := parent.key()
	if m, ok := moves[sqldb.RowKey([]any{key})]; ok {
		keeper, err := sqldb.KeyValues(m.key, []*sqldb.Column{c})
		if err != nil {
			return nil, err
		}
		return d.ws.offsets.newKey(tableServer{share.table, m.server}, keeper[0]), nil
	}
	return d.ws.offsets.newKey(share, key), nil
}

// references changes the references of rows to rows that have other keys in the target, and their own keys.
func (d *decisions) references(ctx context.Context, src *sourceTable, rows []row) error {
	var changes []func() // made from the keys that rows have on their server, and done at the end
	for _, w := range src.whole {
		more, err := d.followWhole(ctx, src, w, rows)
		if err != nil {
			return err
		}
		changes = append(changes, more...)
	}
	for n := range src.links {
		if err := d.follow(ctx, src, n, rows); err != nil {
			return err
		}
	}
	for _, change := range changes {
		change()
	}
	return nil
}

// follow changes the keys in the n-th link of a source table. No two links change one key of a row.
func (d *decisions) follow(ctx context.Context, src *sourceTable, n int, rows []row) error {
	l := src.links[n]
	share, parent := src.shareOf(l.parent), d.ws.jobs[l.parent].key()
	if d.moves[share] == 0 && d.ws.offsets.added[share] == 0 {
		return nil
	}
	unreadable := func(r row, err error) error {
		return src.refused(r.key, fmt.Errorf("the references in %s cannot be followed: %w", l.column, err))
	}
	var keys []string
	if d.moves[share] > 0 && !l.own {
		for _, r := range rows {
			found, err := l.keys(l.parts(r))
			if err != nil {
				return unreadable(r, err)
			}
			for _, v := range found {
				keys = append(keys, sqldb.RowKey([]any{identity(v, parent, src.raw)}))
			}
		}
	}
	moves, err := d.movesOf(ctx, share, keys)
	if err != nil {
		return err
	}
	for _, r := range rows {
		values := l.parts(r)
		if values == nil {
			continue
		}
		done, err := src.settled(n, r)
		switch {
		case err != nil:
			return unreadable(r, err)
		case done:
		case l.inside():
			values, err = l.replace(values, func(v any) (any, error) {
				now, err := d.newValue(share, identity(v, parent, src.raw), moves)
				return numberKey(now, parent), err
			})
			if err != nil {
				return unreadable(r, err)
			}
			for i, index := range l.all {
				r.values[index] = values[i]
			}
		default:
			old := identity(values[0], parent, src.raw)
			v, err := d.newValue(share, old, moves)
			if err != nil {
				return err
			}
			if sqldb.KeyText([]any{v}) == sqldb.KeyText([]any{old}) {
				continue
			}
			if _, text := values[0].(string); src.raw && text {
				v = sqldb.Text(v)
			} else if v, err = sqldb.Canonical(v, src.pairs[l.index].target, src.raw); err != nil {
				return src.refused(r.key, err)
			}
			r.values[l.index] = v
		}
	}
	return nil
}

// followWhole returns the changes of a reference of several columns to rows that became one with others. It
// leads to such a row as a whole.
func (d *decisions) followWhole(ctx context.Context, src *sourceTable, w sourceLink,
	rows []row) (changes []func(), err error) {
	share, parent := src.shareOf(w.parent), d.ws.jobs[w.parent]
	if d.moves[share] == 0 {
		return nil, nil
	}
	columns := make([]*sqldb.Column, len(parent.target.Primary))
	for i, name := range parent.target.Primary {
		columns[i] = parent.target.Column(name)
	}
	indexes := map[string][]int{}
	for i, r := range rows {
		key := w.parts(r)
		for k, v := range key {
			key[k] = identity(v, columns[k], src.raw)
		}
		if key != nil {
			text := sqldb.RowKey(key)
			indexes[text] = append(indexes[text], i)
		}
	}
	moves, err := d.movesOf(ctx, share, slices.Collect(maps.Keys(indexes)))
	if err != nil {
		return nil, err
	}
	for key, m := range moves {
		values, err := sqldb.KeyValues(m.key, columns)
		if err == nil {
			values, err = d.finalKey(ctx, parent, m.server, values)
		}
		for n, index := range w.all {
			var v any
			if err == nil {
				v, err = sqldb.Canonical(values[n], src.pairs[index].target, src.raw)
			}
			for _, i := range indexes[key] {
				changes = append(changes, func() { rows[i].values[index] = v })
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// finalKey returns the primary key that a row of a table, which is named by its key on its server, has in the
// target.
func (d *decisions) finalKey(ctx context.Context, j *tableJob, server int64, key []any) ([]any, error) {
	final := slices.Clone(key)
	for _, l := range j.follows.links {
		index := slices.Index(j.target.Primary, l.column)
		if index < 0 || l.when != "" || l.inside() || key[index] == nil {
			continue
		}
		share := tableServer{l.parent, server}
		c := d.ws.jobs[l.parent].key()
		old := identity(key[index], c, false)
		moves, err := d.movesOf(ctx, share, []string{sqldb.RowKey([]any{old})})
		if err != nil {
			return nil, err
		}
		if l.parent == j.name { // the row stays
			moves = nil
		}
		if final[index], err = d.newValue(share, old, moves); err != nil {
			return nil, err
		}
	}
	return final, nil
}
