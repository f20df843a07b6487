package merge

import (
	"context"
	"fmt"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// moved is a row that stays in the place of another one.
type moved struct {
	server int64
	key    string
}

// movesOf looks up which of some rows of a table became one with another row, by their keys.
func (a *applier) movesOf(ctx context.Context, of tableServer, keys []string) (map[string]moved, error) {
	all := map[string]moved{}
	if a.moves[of] == 0 {
		return all, nil
	}
	columns := []string{"keeper_server", "keeper_key"}
	err := a.lookup(ctx, tableDrops, columns, of, keys, func(key string, v []string) error {
		var m moved
		_, err := fmt.Sscan(v[0], &m.server)
		m.key = v[1]
		all[key] = m
		return err
	})
	return all, err
}

// newValue returns the key that a row of a table has in the target.
func (a *applier) newValue(of tableServer, key any, moves map[string]moved) (any, error) {
	parent := a.ws.jobs[of.table]
	c := parent.key()
	if m, ok := moves[sqldb.RowKey([]any{key})]; ok {
		keeper, err := sqldb.KeyValue(m.key, c)
		if err != nil {
			return nil, err
		}
		return a.offsets.newKey(tableServer{of.table, m.server}, keeper), nil
	}
	return a.offsets.newKey(of, key), nil
}

// references changes the references of rows to rows that have other keys in the target, and their own keys.
func (a *applier) references(ctx context.Context, src *sourceTable, rows []row) error {
	number := a.ws.servers[src.server].Number
	type change struct {
		row, at int
		value   any
	}
	// All are made from the values that rows have on their server, and done at the end.
	var changes []change
	// By row and column, what references inside of it have made of it so far. No two of them change one key.
	inside := map[[2]int]any{}
	for n, l := range src.links {
		of := tableServer{l.of, number}
		if a.moves[of] == 0 && a.offsets.added[of] == 0 {
			continue
		}
		parent := a.ws.jobs[l.of].key()
		keysIn := func(values []any) ([]any, error) { return values, nil }
		if l.inside() {
			keysIn = l.keys
		}
		var keys []string
		if a.moves[of] > 0 && !l.own {
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
		moves, err := a.movesOf(ctx, of, keys)
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
			to := src.pairs[l.at].to
			if l.inside() {
				for n, at := range l.all {
					if changed, ok := inside[[2]int{i, at}]; ok {
						whole[n] = changed
					}
				}
				now, err := l.replace(whole, func(v any) (any, error) {
					now, err := a.newValue(of, identity(v, parent, src.raw), moves)
					return numberKey(now, parent), err
				})
				if err != nil {
					return a.unreadable(src, r, l, err)
				}
				for n, at := range l.all {
					inside[[2]int{i, at}] = now[n]
					changes = append(changes, change{i, at, now[n]})
				}
				continue
			}
			old := identity(r.values[l.at], parent, src.raw)
			v, err := a.newValue(of, old, moves)
			if err != nil {
				return err
			}
			if sqldb.KeyText([]any{v}) == sqldb.KeyText([]any{old}) {
				continue
			}
			if _, text := r.values[l.at].(string); src.raw && text {
				v = sqldb.Text(v)
			} else if v, err = sqldb.Canonical(v, to, src.raw); err != nil {
				return fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, a.ws.servers[src.server].Name, src.job.name,
					sqldb.KeyText(r.key), err)
			}
			changes = append(changes, change{i, l.at, v})
		}
	}
	// A reference of several columns to a row that became one with another leads to that row as a whole.
	for _, w := range src.whole {
		of := tableServer{w.of, number}
		if a.moves[of] == 0 {
			continue
		}
		parent := a.ws.jobs[w.of]
		columns := make([]*sqldb.Column, len(parent.to.Primary))
		for i, name := range parent.to.Primary {
			columns[i] = parent.to.Column(name)
		}
		at := map[string][]int{}
		for i, r := range rows {
			if key := w.keyOf(r, columns, src.raw); key != nil && r.holds(w.when) {
				text := sqldb.RowKey(key)
				at[text] = append(at[text], i)
			}
		}
		keys := make([]string, 0, len(at))
		for key := range at {
			keys = append(keys, key)
		}
		moves, err := a.movesOf(ctx, of, keys)
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
			for _, i := range at[key] {
				for n, v := range values {
					if v, err = sqldb.Canonical(v, src.pairs[w.at[n]].to, src.raw); err != nil {
						return err
					}
					changes = append(changes, change{i, w.at[n], v})
				}
			}
		}
	}
	for _, c := range changes {
		rows[c.row].values[c.at] = c.value
	}
	return nil
}

func (a *applier) unreadable(src *sourceTable, r row, l sourceLink, err error) error {
	return fmt.Errorf("%w: %s: table %s, row %s: the references in %s cannot be followed: %w", ErrRow,
		a.ws.servers[src.server].Name, src.job.name, sqldb.KeyText(r.key), l.column, err)
}

// finalKey returns the primary key that a row of a table, which is named by its key on its server, has in the
// target.
func (a *applier) finalKey(ctx context.Context, j *tableJob, server int64, key []any) ([]any, error) {
	final := slices.Clone(key)
	for _, l := range j.follows.links {
		at := slices.Index(j.to.Primary, l.column)
		if at < 0 || l.when != "" || l.inside() || key[at] == nil {
			continue
		}
		of := tableServer{l.of, server}
		c := a.ws.jobs[l.of].key()
		old := identity(key[at], c, false)
		moves, err := a.movesOf(ctx, of, []string{sqldb.RowKey([]any{old})})
		if err != nil {
			return nil, err
		}
		if l.of == j.name { // the row stays
			moves = nil
		}
		if final[at], err = a.newValue(of, old, moves); err != nil {
			return nil, err
		}
	}
	return final, nil
}

// keyOf returns the key that a row refers to, or nil.
func (w sourceWhole) keyOf(r row, columns []*sqldb.Column, raw bool) []any {
	key := make([]any, len(columns))
	for i, c := range columns {
		if r.values[w.at[i]] == nil {
			return nil
		}
		key[i] = identity(r.values[w.at[i]], c, raw)
	}
	return key
}
