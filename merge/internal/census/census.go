// Package census finds references in data. It asks each server how many values of each integer column are
// keys of which table, and judges the answers, because the databases of most games declare no foreign keys.
//
// A table of few rows is read once, and then the program answers all questions about its whole numbers, which
// are many: one for each two columns. All other questions about a server are answered by its own database.
// Both are bounded, so the memory that a census takes does not grow with the rows.
package census

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Take asks the servers and returns the findings about the integer columns of the tables for which looks is
// true, in the order of tables and columns. A key is only looked for if some server has counted it: the other
// ones are never renumbered.
func Take(ctx context.Context, servers []*sqldb.DB, minGenerated int64,
	looks func(table string) bool) ([]Finding, error) {
	return take(newCensus(ctx, servers, minGenerated, usual()), looks)
}

func newCensus(ctx context.Context, servers []*sqldb.DB, minGenerated int64, most limits) *Census {
	return &Census{Asker: sqldb.NewAsker(ctx), servers: servers, minGenerated: minGenerated,
		spans: map[Column][]span{}, above: map[Column][]Column{}, taken: map[Column][]Column{},
		selectors: map[string][]teller{}, bares: map[Column]string{}, parents: map[string][]Column{},
		installed: map[string]bool{}, within: map[stretch]int64{}, limits: most,
		sets: map[serverKey]*keySet{}, room: most.sets, rows: map[serverKey]int64{},
		held: map[serverKey]holdings{}, words: map[serverKey]*words{}, cells: most.tables}
}

func take(c *Census, looks func(table string) bool) ([]Finding, error) {
	look(c)
	matches := map[Column][]match{}
	for _, col := range c.columns {
		if looks(col.Table) || slices.Contains(c.keys, col) {
			matches[col] = c.match(col)
		}
	}
	for _, key := range c.keys {
		derive(c, key, matches)
	}
	c.aboveByName(matches)
	var all []Finding
	for _, col := range c.columns {
		if looks(col.Table) {
			all = append(all, c.judge(col, c.made(col, c.roots(col, matches[col])))...)
		}
	}
	c.byName(all, matches)
	c.bySiblings(all)
	for i, f := range all {
		all[i].Hits = hitsOf(f.Hits, matches[f.Column])
	}
	all = unpack(c, all, looks)
	asked := (&caller{c: c}).find(all, looks)
	all = slices.DeleteFunc(all, func(f Finding) bool { // columns that are called alike say more
		return f.weak() && slices.ContainsFunc(asked, func(a Finding) bool { return a.Column == f.Column })
	})
	all = append(all, asked...)
	for i, f := range all {
		all[i].Installed = c.installed[f.Parent.Table]
	}
	if c.Err != nil {
		return nil, c.Err
	}
	return all, nil
}

// look asks which tables and columns there are, how far their values go, and which of them are keys.
func look(c *Census) {
	tables := map[string]*sqldb.Table{}
	for _, d := range c.servers {
		maps.Copy(tables, d.Tables)
	}
	c.tables = slices.Sorted(maps.Keys(tables))
	c.prefix = prefixOf(c.tables)
	for _, name := range c.tables {
		for _, d := range c.servers {
			c.list(d.Tables[name])
		}
	}
	c.countRows(c.tables...)
	for _, unique := range []bool{true, false} {
		for _, name := range c.tables {
			for i, d := range c.servers {
				c.measure(i, d.Tables[name], unique)
			}
		}
		if unique {
			c.findKeys()
		}
	}
	for i := range c.servers {
		for _, name := range c.tables {
			c.tell(i, name)
		}
	}
	for _, name := range c.tables {
		c.installed[name] = c.alike(name)
	}
}

// derive finds out from which tables the keys of a table are taken, and leaves those of its matches that are
// no chance.
func derive(c *Census, key Column, matches map[Column][]match) {
	if c.counts(key) {
		// A cluster of servers counts the keys of all tables in the same steps.
		byChance := func(m match) bool {
			more := m.full() && -m.chance() >= 3 || m.excess() >= 6
			return !more || m.named == 0 || m.fills() && !m.follows()
		}
		matches[key] = slices.DeleteFunc(matches[key], byChance)
	}
	// A table that has these keys in a column of their name, beside its own key, belongs to this one.
	matches[key] = slices.DeleteFunc(matches[key], func(m match) bool {
		called := Column{m.key.Table, key.Name}
		belongs := func(back match) bool { return back.key == key && back.possible() }
		return m.key != called && slices.ContainsFunc(matches[called], belongs)
	})
	for _, m := range matches[key] {
		// Two keys with one name, such as guid, say nothing if each number is one, unless they end alike.
		names := m.called || m.named > 1 && len(wordsIn(key.Name)) > 1
		proves := names || -m.chance() >= 3 || m.meets()
		if proves && m.full() && m.possible() && c.isAbove(m.key, key) {
			c.above[key] = append(c.above[key], m.key)
		} else if c.takesKeys(key, m) {
			c.taken[key] = append(c.taken[key], m.key)
		}
	}
}

// unpack adds the findings about parts of the columns that do not refer as a whole.
func unpack(c *Census, all []Finding, looks func(table string) bool) []Finding {
	closed := map[Column]bool{} // they refer as a whole
	for _, f := range all {
		closed[f.Column] = closed[f.Column] || f.Verdict >= Possible && !f.partly
	}
	for _, name := range c.tables {
		if !looks(name) || len(c.keys) == 0 {
			continue
		}
		open := func(column string) bool { return !closed[Column{name, column}] }
		found := (&packer{c: c}).find(name, open)
		for _, half := range found { // the lower half of small keys is the key, and the game may read both
			for i := range all {
				if half.With != "" && all[i].Column == half.Column && all[i].Parent == half.Parent &&
					all[i].Verdict == Reference {
					all[i].Verdict = Possible
				}
			}
		}
		all = append(all, found...)
	}
	return all
}

// Beside is what the rows that no condition holds for have in a column: how many different values, 0 aside,
// and how many of these are keys of a table. Proof is the evidence that it is no chance, or "" if it may be
// one.
type Beside struct {
	Key          Column
	Values, Hits int64
	Proof        string
}

// Outside compares a column with keys in the rows of a server that do not meet a condition. It returns one
// answer for each key that some of the values are, and none if there are no such rows.
func Outside(ctx context.Context, d *sqldb.DB, col Column, keys []Column, when string) ([]Beside, error) {
	if own := columnOf(d, col); own == nil || !whole(own) && !usable(own) {
		return nil, nil
	}
	a := sqldb.NewAsker(ctx)
	outside := values(d, col, span{}, "CASE WHEN "+when+" THEN 0 ELSE 1 END = 1")
	all := a.Number(d, d.SQL("SELECT COUNT(*) FROM ", outside))
	if all == 0 {
		return nil, a.Err
	}
	var found []Beside
	for _, key := range keys {
		if !whole(columnOf(d, key)) {
			continue
		}
		name := d.Kind.Quote(key.Name)
		value := "NULLIF(" + name + ", 0)"
		row := a.Row(d, 3, d.SQL("SELECT COUNT(", value,
			"), MIN(", value, "), MAX(", value, ") FROM ", d.Kind.Quote(key.Table))) // a key is unique
		known := spanOf(row[0], row[1], row[2])
		if known.distinct == 0 {
			continue
		}
		counts := a.Numbers(d, 4, d.SQL("SELECT COUNT(*), COUNT(CASE WHEN ",
			holds(d, key), " THEN 1 END), MIN(v.x), MAX(v.x) FROM ", outside, " WHERE ", known.covers("v.x")))
		if counts[1] == 0 {
			continue
		}
		values := span{min: counts[2], max: counts[3]}
		near := a.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(key.Table),
			" WHERE ", values.covers(name)))
		beside := Beside{Key: key, Values: all, Hits: counts[1]}
		// Values beyond the range of the keys say nothing, for these rows may refer to something else.
		density := max(float64(known.distinct)/width(known.min, known.max),
			float64(near)/width(counts[2], counts[3]))
		chance := float64(counts[0]) * math.Log10(density)
		m := match{servers: []against{{within: counts[0], hits: counts[1], density: density}}}
		switch {
		case counts[0] < minValues:
		case counts[0] == counts[1] && -chance >= minChance:
			beside.Proof = fmt.Sprintf("%d of %d values are keys; %s", counts[1], counts[0], odds(chance))
		case counts[1]*2 >= counts[0] && m.excess() >= 6:
			beside.Proof = fmt.Sprintf("%d of %d values are keys, many more than by chance", counts[1], counts[0])
		}
		found = append(found, beside)
	}
	return found, a.Err
}
