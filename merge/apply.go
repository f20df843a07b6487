package merge

import (
	"context"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// applier carries out decisions: it changes rows on their way to the target.
type applier struct{ *decisions }

// apply changes rows as it was decided and returns those that are copied.
func (a *applier) apply(ctx context.Context, src *sourceTable, rows []row) ([]row, error) {
	of := tableServer{src.job.name, a.ws.servers[src.server].Number}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = sqldb.RowKey(r.key)
	}
	if a.drops[of] > 0 {
		gone := map[string]bool{}
		note := func(key string, _ []string) error {
			gone[key] = true
			return nil
		}
		err := a.lookup(ctx, tableDrops, []string{"server"}, of, slices.Clone(keys), note)
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
	if at := src.renamed(); at >= 0 && a.renames[of] > 0 {
		names, err := a.newNames(ctx, of, slices.Clone(keys))
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			if name, ok := names[key]; ok {
				rows[i].values[at] = name
				if err := src.nameBeside(rows[i], name); err != nil {
					return nil, err
				}
			}
		}
	}
	if a.values[of] > 0 {
		if err := a.setValues(ctx, src, of, rows, keys); err != nil {
			return nil, err
		}
	}
	if err := a.references(ctx, src, rows); err != nil {
		return nil, err
	}
	return rows, nil
}

func (a *applier) setValues(ctx context.Context, src *sourceTable, of tableServer, rows []row,
	keys []string) error {
	at := map[string][]int{}
	for i, key := range keys {
		at[key] = append(at[key], i)
	}
	columns := []string{"col", "value"}
	return a.lookup(ctx, tableValues, columns, of, slices.Clone(keys), func(key string, v []string) error {
		position := src.at(v[0])
		if position < 0 {
			return nil
		}
		value, err := sqldb.Native(v[1], src.pairs[position].to)
		for _, i := range at[key] {
			rows[i].values[position] = value
		}
		return err
	})
}

// derive computes a column from a name.
func derive(as, name string) string {
	switch as {
	case "lower":
		return strings.ToLower(name)
	case "upper":
		return strings.ToUpper(name)
	}
	return name
}

// copyNames gives the new names of rows to the columns that repeat them.
func (a *applier) copyNames(ctx context.Context, src *sourceTable, rows []row) error {
	for _, n := range src.repeats {
		of := tableServer{n.of, a.ws.servers[src.server].Number}
		if a.renames[of] == 0 {
			continue
		}
		parent := a.ws.jobs[n.of].to
		keys := make([]string, len(rows))
		var asked []string
		for i, r := range rows {
			key := make([]any, len(n.key))
			for k, at := range n.key {
				if key[k] = r.extra[at]; key[k] == nil {
					key = nil
					break
				}
				key[k] = identity(key[k], parent.Column(parent.Primary[k]), src.raw)
			}
			if key != nil && r.values[n.at] != nil {
				keys[i] = sqldb.RowKey(key)
				asked = append(asked, keys[i])
			}
		}
		names, err := a.newNames(ctx, of, asked)
		if err != nil {
			return err
		}
		for i, r := range rows {
			if name, ok := names[keys[i]]; ok && keys[i] != "" {
				r.values[n.at] = derive(n.as, name)
			}
		}
	}
	return nil
}

// touches reports whether rows of a source table may change on their way.
func (a *applier) touches(src *sourceTable) bool {
	number := a.ws.servers[src.server].Number
	return a.moved(src) || len(src.job.plan.Set) > 0 ||
		a.drops[tableServer{src.job.name, number}] > 0 || a.decides(src)
}

// moved reports whether rows of a source table have keys that are renumbered.
func (a *applier) moved(src *sourceTable) bool {
	return slices.ContainsFunc(src.links, func(l sourceLink) bool {
		return a.offsets.added[tableServer{l.of, a.ws.servers[src.server].Number}] != 0
	})
}

// decides reports whether a decision about rows may give another value to a row of a source table.
func (a *applier) decides(src *sourceTable) bool {
	own := tableServer{src.job.name, a.ws.servers[src.server].Number}
	return a.renames[own]+a.values[own] > 0 || a.follows(src)
}

// onlyRenames reports whether the decisions about rows of a source table are nothing but new names for them.
func (a *applier) onlyRenames(src *sourceTable) bool {
	own := tableServer{src.job.name, a.ws.servers[src.server].Number}
	return a.renames[own] > 0 && a.values[own]+a.drops[own] == 0 && !a.follows(src)
}

// follows reports whether rows of a source table may have to follow decisions about rows of other tables.
func (a *applier) follows(src *sourceTable) bool {
	number := a.ws.servers[src.server].Number
	for _, l := range src.links {
		if a.moves[tableServer{l.of, number}] > 0 && !l.own {
			return true
		}
	}
	for _, w := range src.whole {
		if a.moves[tableServer{w.of, number}] > 0 {
			return true
		}
	}
	for _, n := range src.repeats {
		if a.renames[tableServer{n.of, number}] > 0 {
			return true
		}
	}
	return false
}
