package census

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Counts returns the findings about all tables and whatever a census can count, as text. The answers come from the
// databases, or from the program as far as it may: from values that it reads ("values"), in part with sets of
// keys ("sets"), or from tables that it holds ("tables").
func Counts(ctx context.Context, servers []*sqldb.DB, minGenerated int64, how string) (map[string]string, error) {
	most := map[string]limits{"values": {values: 1 << 40}, "sets": {values: 1 << 40, set: 1 << 13, sets: 1 << 20},
		"tables": usual(), "databases": {}}[how]
	if how == "passing" { // tables go when the next one comes
		most = usual()
		most.tables = 1 << 12
	}
	c, told := newCensus(ctx, servers, minGenerated, most), map[string]string{}
	found, err := take(c, func(string) bool { return true })
	for _, f := range found {
		told[fmt.Sprint("finding ", f.Column, f.Parent, f.As, f.With, f.When)] = fmt.Sprint(f)
	}
	for _, col := range c.columns {
		var all []match
		for _, key := range c.keys {
			all = append(all, match{key: key})
		}
		for i, d := range c.filled(col) {
			s := c.spans[col][i]
			for _, condition := range slices.Compact([]string{"", s.sample(d.Kind.Quote(col.Name))}) {
				counted := slices.Clone(all)
				c.count(col, i, counted, condition)
				for _, m := range counted {
					told[fmt.Sprint("count ", d.Name, col, m.key, condition)] = fmt.Sprintf("%+v", m.servers)
				}
			}
			few := []int64{-2, 0, 1, 3, 7, 60, 500, 1 << 33, 1<<53 + 1}
			for _, key := range c.keys {
				told[fmt.Sprint("among ", d.Name, key)] = fmt.Sprint(c.keysAmong(d, key, few))
				if keys := c.spans[key][i]; keys.distinct > 0 && keys.max >= 0 {
					s, hits, near, next := c.sectionOf(col, i, keys, key)
					told[fmt.Sprint("section ", d.Name, col, key)] = fmt.Sprint(s, hits, near, next)
				}
				for _, x := range few {
					in := span{distinct: 2, min: min(x, 5), max: max(x, 5)}
					told[fmt.Sprint("within ", d.Name, key, x)] = fmt.Sprint(c.keysWithin(i, key, in))
				}
			}
			least := func(x int64) bool { return x > -5 }
			told[fmt.Sprint("some ", d.Name, col)] = fmt.Sprint(c.some(i, col, d.Kind.Quote(col.Name)+" > -5", least))
		}
		for _, by := range append(slices.Clone(c.selectorsOf(col, maxKinds)), col) {
			if by == col && c.ordinary(col, "x") == "" {
				continue
			}
			for _, sample := range []bool{true, false} {
				for n, kinds := range c.selections(col, by, all, sample) {
					for kind, m := range kinds {
						told[fmt.Sprint("kind ", col, by, all[n].key, sample, kind)] = fmt.Sprintf("%+v", m.servers)
					}
				}
			}
		}
		told[fmt.Sprint("selectors ", col.Table)] = fmt.Sprint(c.selectorsOf(col, maxKinds))
	}
	for table, all := range c.selectors {
		_, kinds := c.kinds(table, func(int, *sqldb.Column) bool { return true })
		for _, by := range all {
			told[fmt.Sprint("kinds ", by)] = fmt.Sprint(slices.Sorted(maps.Keys(kinds[by.Column])))
		}
	}
	if err == nil {
		err = c.Err
	}
	return told, err
}
