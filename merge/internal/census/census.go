// Package census finds references in data. It asks each server how many values of each integer column are
// keys of which table, and judges the answers, because the databases of most games declare no foreign keys.
//
// A table of few rows is read by the program, which then answers all questions about its whole numbers. They
// are many: one for each two columns. All other questions about a server are answered by its own database.
// Both are bounded, so the memory that a census takes does not grow with the rows.
package census

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Edition is a hash of the code of this package, since the verdicts of other code may be other ones. After a
// change, a test says what it is.
const Edition = "c732054f1075"

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
		held: map[serverKey]holdings{}, words: map[serverKey]*words{},
		measured: map[serverKey][]string{}, titles: map[string]map[string]bool{},
		passing: map[int]serverKey{}, space: most.tables}
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
		m := match{servers: []against{compared(a, d, key, outside)}}
		counted := m.servers[0]
		if counted.hits == 0 {
			continue
		}
		beside := Beside{Key: key, Values: all, Hits: counted.hits}
		// Values beyond the range of the keys say nothing, for these rows may refer to something else.
		switch {
		case counted.within < minValues:
		case counted.within == counted.hits && -m.chance() >= minChance:
			beside.Proof = fmt.Sprintf("%d of %d values are keys; %s", counted.hits, counted.within,
				odds(m.chance()))
		case counted.hits*2 >= counted.within && m.excess() >= 6:
			beside.Proof = fmt.Sprintf("%d of %d values are keys, many more than by chance", counted.hits,
				counted.within)
		}
		found = append(found, beside)
	}
	return found, a.Err
}

// compared compares values, as a table v with a column x, with the keys of a table of a server. Only those in
// the range of the keys count.
func compared(a *sqldb.Asker, d *sqldb.DB, key Column, from string) (found against) {
	if !whole(columnOf(d, key)) {
		return found
	}
	name := d.Kind.Quote(key.Name)
	value := "NULLIF(" + name + ", 0)"
	row := a.Row(d, 3, d.SQL("SELECT COUNT(", value,
		"), MIN(", value, "), MAX(", value, ") FROM ", d.Kind.Quote(key.Table))) // a key is unique
	known := spanOf(row[0], row[1], row[2])
	if known.distinct == 0 {
		return found
	}
	counts := a.Numbers(d, 4, d.SQL("SELECT COUNT(*), COUNT(CASE WHEN ",
		holds(d, key), " THEN 1 END), MIN(v.x), MAX(v.x) FROM ", from, " WHERE ", known.covers("v.x")))
	found = against{server: d.Name, within: counts[0], hits: counts[1], greatest: float64(known.max),
		width: width(known.min, known.max)}
	if found.density = float64(known.distinct) / found.width; found.hits > 0 {
		found.near = a.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(key.Table),
			" WHERE ", span{min: counts[2], max: counts[3]}.covers(name)))
		found.density = max(found.density, float64(found.near)/width(counts[2], counts[3]))
		found.chance = float64(found.within) * math.Log10(found.density)
	}
	return found
}

// ByChance says how many values of a column are keys, in the rows that meet a condition, if as many would be
// by chance. It is "" if they are more, or go as far as the keys do on each server, and if all of them are
// keys, or there are just a few, and the column is called like the key, or half of them and it is called like
// the table, from which rows were deleted.
func ByChance(ctx context.Context, servers []*sqldb.DB, col, key Column, when string) (string, error) {
	const proven = 3
	a, m, counted := sqldb.NewAsker(ctx), match{key: key}, false
	for _, d := range servers {
		own := columnOf(d, col)
		if own == nil || !whole(own) && !usable(own) {
			continue
		}
		from := values(d, col, span{}, "CASE WHEN "+when+" THEN 1 ELSE 0 END = 1")
		if a.Refuses(d, d.SQL("SELECT 1 FROM ", from, " LIMIT 0")) { // check says so of a condition
			return "", a.Err
		}
		row := a.Row(d, 2, d.SQL("SELECT COUNT(*), MAX(v.x) FROM ", from))
		count, _ := numberIn(row[0])
		last, _ := numberIn(row[1]) // it may be too large for a key, and no number on SQLite
		if count == 0 {
			continue
		}
		one := compared(a, d, key, from)
		one.values, one.reach = count, float64(last)/max(one.greatest, 1)
		m.servers, counted = append(m.servers, one), counted || identifies(d.Tables[col.Table], col.Name)
	}
	all, hits := m.counts()
	called := isCalled(col, key) || len(key.Name) > 2 && strings.HasSuffix(strings.ToLower(col.Name),
		strings.ToLower(key.Name))
	switch {
	case a.Err != nil, hits == 0, called && (m.full() || all < minValues),
		isCalled(col, key) && hits*2 >= all, m.full() && -m.chance() >= proven,
		!m.full() && m.excess() >= proven, m.follows() && (!counted || !m.fills()), hits*2 >= all && m.apart(1):
		return "", a.Err
	}
	return fmt.Sprintf("%d of %d values are keys of %s", hits, all, key.Table), nil
}
