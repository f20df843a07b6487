package census

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Column is a column of a table.
type Column struct{ Table, Name string }

func (c Column) String() string { return c.Table + "." + c.Name }

// Compare orders columns by their names.
func (c Column) Compare(o Column) int { return strings.Compare(c.String(), o.String()) }

// Verdict says what a census thinks of a column.
type Verdict int

// The verdicts.
const (
	None      Verdict = iota // there is no value to judge by, 0 and NULL aside
	Plain                    // no table has these values as its keys, or no more of them than by chance
	Possible                 // they may be keys, and somebody has to say so
	Reference                // they are keys almost certainly
)

func (v Verdict) String() string {
	return []string{"none", "plain", "possible", "reference"}[v]
}

// Finding is what a census thinks of a column. A column whose values are keys of different tables in
// different rows has one finding for each of these tables.
type Finding struct {
	Column
	Verdict  Verdict
	Parent   Column // whose keys they are
	When     string // the condition for the rows that refer, in SQL; "" for all rows
	As       string // where in the column the keys are, such as bits 24-47 or path $.id; "" if it is the key
	With     string // the column that has the higher half of the keys
	Evidence string
	Values   int64 // how many different values the servers have in the rows that refer
	// Hits has, for each key that the values may be, how many different values of each server are such keys,
	// and how many are not.
	Hits map[Column]string
	// partly means that only the rows of one kind refer, inRange that nothing but a range of the numbers tells
	// these rows, and byEnd that nothing but the end of the values speaks for it.
	partly, inRange, byEnd bool
	// Installed means that the parent has nearly the same rows on all servers. What is installed with a game
	// keeps its keys, unless a person wants these rows once for each server.
	Installed bool
}

// weak reports whether what a column is called says more than the finding.
func (f Finding) weak() bool { return f.inRange || f.byEnd }

const (
	// minValues is how many different values a condition needs, and minChance how unlikely it has to be that
	// all of them are keys by chance, as a negative decimal logarithm.
	minValues, minChance = 20, 8
	// margin is how much more likely than the next table the best one has to be.
	margin = 2
)

// Census is what is known of the integer columns of several servers.
type Census struct {
	*sqldb.Asker
	servers      []*sqldb.DB
	minGenerated int64 // a generator made this key and greater ones, which are never equal on two servers
	tables       []string
	prefix       string              // the word with which the names of all tables begin, "" without one
	columns      []Column            // in the order of tables and their columns
	spans        map[Column][]span   // by server
	keys         []Column            // the unique columns
	above        map[Column][]Column // the keys that a key is taken from
	taken        map[Column][]Column // those that it may be taken from, because it goes as far
	selectors    map[string][]teller // of the tables that were asked for them
	bares        map[Column]string   // names as conditions have them
	parents      map[string][]Column // by name, what columns refer to almost certainly
	installed    map[string]bool     // tables whose rows are nearly the same on all servers
	within       map[stretch]int64   // how many keys there are, of those that were asked for last
	few          few                 // of the column that is judged
	limits       limits
	sets         map[serverKey]*keySet
	room         int64                      // how many bits more sets can have
	rows         map[serverKey]int64        // how many a table has
	held         map[serverKey]holdings     // by table
	words        map[serverKey]*words       // by column
	passing      map[int]serverKey          // by server, the table that is held beyond this room
	space        int                        // how many bytes more of tables can be held
	measured     map[serverKey][]string     // by column of a table that was held, what ends returns
	titles       map[string]map[string]bool // by table, the kinds of texts that its first rows have
}

// stretch is where the values of a column lie among the keys of a table on a server.
type stretch struct {
	key      Column
	server   int
	min, max int64
}

// usable reports whether a column may hold keys: whole numbers, also as decimals. One byte is too small for
// the keys of what players make, and years and bits cannot be declared as keys.
func usable(c *sqldb.Column) bool {
	declared := strings.ToLower(c.Declared)
	whole := c.Family == sqldb.FamilyInt ||
		c.Family == sqldb.FamilyDecimal && strings.HasSuffix(declared, ",0)")
	return whole && !tiny(c) && !slices.ContainsFunc([]string{"bit", "year"},
		func(word string) bool { return strings.HasPrefix(declared, word) })
}

// tiny reports whether a column has one byte. It may hold the keys of a short table all the same, such as the
// ranks of guilds, and is looked at if it is called like them.
func tiny(c *sqldb.Column) bool { return strings.HasPrefix(strings.ToLower(c.Declared), "tinyint") }

// keysFor returns the keys that a column of one byte is called like, and all keys for any other column.
func (c *Census) keysFor(col Column) []Column {
	if !c.anywhere(col, tiny) {
		return c.keys
	}
	return slices.DeleteFunc(slices.Clone(c.keys), func(key Column) bool {
		_, ends := c.named(col, key)
		return !ends
	})
}

// maxMeasured is how many columns one statement measures.
const maxMeasured = 40

// list makes room for the spans of the columns of a table.
func (c *Census) list(t *sqldb.Table) {
	if t == nil {
		return
	}
	for _, col := range t.Columns {
		place := Column{t.Name, col.Name}
		if (usable(col) || tiny(col)) && c.spans[place] == nil {
			c.spans[place] = make([]span, len(c.servers))
			c.columns = append(c.columns, place)
		}
	}
}

// measure reads the spans of the unique columns of a table of a server, or of its other columns. Without any
// key, it is enough to know whether these have a value.
func (c *Census) measure(server int, t *sqldb.Table, unique bool) {
	if t == nil {
		return
	}
	d := c.servers[server]
	columns := slices.DeleteFunc(slices.Clone(t.Columns), func(col *sqldb.Column) bool {
		own := func(d *sqldb.DB) bool { return keyed(d.Tables[t.Name], col.Name) }
		return !usable(col) && !tiny(col) || c.spans[Column{t.Name, col.Name}] == nil ||
			unique != slices.ContainsFunc(c.servers, own)
	})
	if !unique && len(c.keys) == 0 {
		for _, col := range columns {
			rows := c.Rows(d, d.SQL("SELECT 1 FROM ", d.Kind.Quote(t.Name),
				" WHERE ", d.Kind.Quote(col.Name), " <> 0 LIMIT 1"))
			c.spans[Column{t.Name, col.Name}][server] = span{distinct: int64(len(rows)), atMost: true}
		}
		return
	}
	for part := range slices.Chunk(columns, maxMeasured) {
		for i, found := range c.ends(server, t, part) {
			place := Column{t.Name, part[i].Name}
			isKey := keyed(t, place.Name)
			s := spanOfEnds(found, isKey)
			if s.distinct == 0 && found[0] != "0" && !isKey && c.onlyUntyped(place) {
				s = spanOfEnds(c.integers(d, place), false)
				s.mixed = true
			}
			c.spans[place][server] = s
		}
	}
}

// spanOfEnds makes a span of what ends has returned for a column.
func spanOfEnds(found []string, isKey bool) span {
	s := spanOf(found[0], found[2], found[3])
	if s.min < 0 && s.min >= -2 && !isKey {
		s = spanOf(found[0], found[4], found[3])
		s.none = true
	}
	s.zero, s.atMost = found[1] != "0", !isKey
	return s
}

// ends returns for each of some columns how many values there are, how many zeros, the least value and the
// greatest, and the least above 0, which keys do not need.
func (c *Census) ends(server int, t *sqldb.Table, columns []*sqldb.Column) (all [][]string) {
	for _, col := range columns {
		place := serverKey{server, Column{t.Name, col.Name}}
		if c.measured[place] == nil {
			c.hold(server, t.Name)
		}
		if found := c.measured[place]; found != nil {
			all = append(all, found)
		}
	}
	if len(all) == len(columns) {
		return all
	}
	d := c.servers[server]
	q, from, scanned := d.SQL("SELECT 1"), " FROM "+d.Kind.Quote(t.Name), ""
	for _, col := range columns {
		name := d.Kind.Quote(col.Name)
		if keyed(t, col.Name) { // Its index has the ends at hand.
			least := from + " WHERE " + name + " <> 0 ORDER BY " + name
			q.Add(", (SELECT COUNT(*)", from, " WHERE ", name, " <> 0), (SELECT COUNT(*)", from, " WHERE ", name,
				" = 0), (SELECT ", name, least, " LIMIT 1), (SELECT ", name, least, " DESC LIMIT 1), NULL")
			continue
		}
		value := "NULLIF(" + name + ", 0)"
		q.Add(", COUNT(", value, "), COUNT(CASE WHEN ", name, " = 0 THEN 1 END), MIN(", value,
			"), MAX(", value, "), MIN(CASE WHEN ", name, " > 0 THEN ", name, " END)")
		scanned = from
	}
	return slices.Collect(slices.Chunk(c.Row(d, 1+5*len(columns), q.Add(scanned))[1:], 5))
}

// integers is what ends returns for a column of SQLite, without its texts and fractions.
func (c *Census) integers(d *sqldb.DB, col Column) []string {
	name := d.Kind.Quote(col.Name)
	return c.Row(d, 5, d.SQL("SELECT COUNT(NULLIF(x, 0)), COUNT(CASE WHEN x = 0 THEN 1 END), "+
		"MIN(NULLIF(x, 0)), MAX(NULLIF(x, 0)), MIN(CASE WHEN x > 0 THEN x END) FROM (SELECT ", name,
		" AS x FROM ", d.Kind.Quote(col.Table), " WHERE ", isInteger(name), ") AS v"))
}

// tell counts the different values of the columns of a table that may hold keys, by their range.
func (c *Census) tell(server int, table string) {
	var columns []Column
	for _, col := range c.columns {
		s := c.spans[col][server]
		if col.Table == table && s.distinct > 0 && !keyed(c.servers[server].Tables[table], col.Name) &&
			slices.ContainsFunc(c.keys, func(key Column) bool { return c.overlaps(key, server, s) }) {
			columns = append(columns, col)
		}
	}
	d, held := c.servers[server], c.hold(server, table)
	columns = slices.DeleteFunc(columns, func(col Column) bool {
		s := &c.spans[col][server]
		all, known := held.different(col.Name, s.means)
		if known {
			s.distinct, s.atMost = int64(len(all)), false
		}
		return known
	})
	for part := range slices.Chunk(columns, maxMeasured) {
		q := d.SQL("SELECT 1")
		for _, col := range part {
			name := d.Kind.Quote(col.Name)
			q.Add(", COUNT(DISTINCT CASE WHEN ", c.spans[col][server].some(name), " THEN ", name, " END)")
		}
		found := c.Numbers(d, 1+len(part), q.Add(" FROM ", d.Kind.Quote(table)))
		for i, col := range part {
			c.spans[col][server].distinct, c.spans[col][server].atMost = found[1+i], false
		}
	}
}

// findKeys finds the unique columns, also those beside a primary key of several columns.
func (c *Census) findKeys() {
	for _, col := range c.columns {
		unique, counted := false, false
		for i, d := range c.servers {
			s := c.spans[col][i]
			own := columnOf(d, col)
			unique = unique || keyed(d.Tables[col.Table], col.Name) && whole(own) && !tiny(own)
			counted = counted || s.distinct > 0 && s.min < c.minGenerated
		}
		if unique && counted {
			c.keys = append(c.keys, col)
		}
	}
	c.columns = slices.DeleteFunc(c.columns, func(col Column) bool {
		leaves := !slices.Contains(c.keys, col) && len(c.keysFor(col)) < min(1, len(c.keys))
		if leaves {
			delete(c.spans, col)
		}
		return leaves
	})
}

// countRows counts the rows of tables on each server that has them, of many by one statement.
func (c *Census) countRows(tables ...string) {
	for i, d := range c.servers {
		lacks := func(name string) bool { return d.Tables[name] == nil }
		there := slices.DeleteFunc(slices.Clone(tables), lacks)
		for some := range slices.Chunk(there, maxMeasured) {
			q := d.SQL("SELECT 1")
			for _, name := range some {
				q.Add(", (SELECT COUNT(*) FROM ", d.Kind.Quote(name), ")")
			}
			for n, count := range c.Numbers(d, 1+len(some), q)[1:] {
				c.rows[serverKey{i, Column{Table: some[n]}}] = count
			}
		}
	}
}

// counts reports whether a database gives a key its values by counting. Those of two tables that begin with 1
// are keys of the longer one, which says nothing.
func (c *Census) counts(key Column) bool { return c.anywhere(key, (*sqldb.Column).Counts) }

// is reports whether a column is of a family on any server.
func (c *Census) is(col Column, family sqldb.Family) bool {
	return c.anywhere(col, func(own *sqldb.Column) bool { return own.Family == family })
}

// anywhere reports whether a column is such a one on any server.
func (c *Census) anywhere(col Column, such func(own *sqldb.Column) bool) bool {
	return slices.ContainsFunc(c.servers, func(d *sqldb.DB) bool {
		own := columnOf(d, col)
		return own != nil && such(own)
	})
}

// onlyUntyped reports whether all servers with a table are such that a column may have values of any type.
func (c *Census) onlyUntyped(col Column) bool {
	return !slices.ContainsFunc(c.servers, func(d *sqldb.DB) bool {
		return d.Tables[col.Table] != nil && !d.Kind.Untyped()
	})
}

// filled returns the servers that have values in a column of numbers.
func (c *Census) filled(col Column) iter.Seq2[int, *sqldb.DB] {
	return func(yield func(int, *sqldb.DB) bool) {
		for i, s := range c.spans[col] {
			if s.distinct > 0 && !yield(i, c.servers[i]) {
				return
			}
		}
	}
}

// columnOf returns a column of a server, or nil.
func columnOf(d *sqldb.DB, col Column) *sqldb.Column { return d.Tables[col.Table].Column(col.Name) }

// whole reports whether there is a column, and it is one of whole numbers.
func whole(c *sqldb.Column) bool { return c != nil && c.Family == sqldb.FamilyInt }

// identifies reports whether a column is a unique key of a table.
func identifies(t *sqldb.Table, column string) bool {
	return t != nil && slices.ContainsFunc(t.Keys(), func(k sqldb.UniqueKey) bool {
		return k.Simple() && len(k.Parts) == 1 && k.Parts[0].Column == column
	})
}

// keyed reports whether rows are known by a column: a unique key, or what is counted beside other columns of
// the primary key, such as the day by which a table has partitions.
func keyed(t *sqldb.Table, column string) bool {
	return identifies(t, column) || t != nil && slices.Contains(t.Primary, column) && t.Column(column).Counts()
}

// isAbove reports whether a key can be the one that another key is taken from: no server has fewer of
// them, or else, of two equal sets, the one that the database counts, the one whose table the other is called
// like, or the shorter name, is that of the table that the others belong to. Names may lead in a circle,
// which ends where it would close.
func (c *Census) isAbove(parent, child Column) bool {
	if known := c.belongs(child, parent); known || c.belongs(parent, child) {
		return known
	}
	equal := true
	for i, s := range c.spans[parent] {
		if n := c.spans[child][i].distinct; n > s.distinct {
			return false
		} else if n < s.distinct {
			equal = false
		}
	}
	if counts := c.counts(parent); counts != c.counts(child) {
		return counts
	}
	if called := isCalled(child, parent); equal && called != isCalled(parent, child) {
		return called
	}
	if len(parent.Table) != len(child.Table) {
		return !equal || len(parent.Table) < len(child.Table)
	}
	return !equal || parent.String() < child.String()
}

// belongs reports whether a key is known to be taken from another one, over any number of tables.
func (c *Census) belongs(child, parent Column) bool {
	return slices.ContainsFunc(c.above[child], func(up Column) bool {
		return up == parent || c.belongs(up, parent)
	})
}

// aboveByName finds keys that are taken from a table, though they are too few to prove it: other keys of the
// same name are taken from it and from no other one, as where three kings are heroes like all members.
func (c *Census) aboveByName(matches map[Column][]match) {
	tables := map[string][]Column{} // by name
	for key, all := range c.above {
		for _, parent := range all {
			if len(c.above[parent]) == 0 && !slices.Contains(tables[key.Name], parent) {
				tables[key.Name] = append(tables[key.Name], parent)
			}
		}
	}
	for _, key := range c.keys {
		from := tables[key.Name]
		takes := func(m match) bool {
			return m.key == from[0] && m.full() && !m.sampled && m.key.Name != key.Name && c.isAbove(m.key, key)
		}
		if len(c.above[key]) == 0 && len(from) == 1 && slices.ContainsFunc(matches[key], takes) {
			c.above[key] = from
		}
		// The options of a member have his key under the same name, and nobody counts them.
		for _, m := range matches[key] {
			if len(c.above[key]) == 0 && !c.counts(key) && c.counts(m.key) && m.key.Name == key.Name &&
				m.named == 3 && m.full() && !m.sampled && c.isAbove(m.key, key) {
				c.above[key] = append(c.above[key], m.key)
			}
		}
	}
}

// roots leaves out the keys that are keys of another table themselves: whoever refers to them refers to that
// table.
func (c *Census) roots(col Column, matches []match) []match {
	return slices.DeleteFunc(slices.Clone(matches), func(m match) bool {
		if slices.Contains(c.keys, col) && !c.isAbove(m.key, col) {
			return true
		}
		return slices.ContainsFunc(matches, func(other match) bool {
			return slices.Contains(c.above[m.key], other.key)
		})
	})
}

// holds returns SQL that reports whether a value of values is a key, for a table of a server.
func holds(d *sqldb.DB, key Column) string {
	return "EXISTS (SELECT 1 FROM " + d.Kind.Quote(key.Table) + " AS p WHERE p." + d.Kind.Quote(key.Name) +
		" = v.x)"
}

// serverKey is a key on a server.
type serverKey struct {
	server int
	key    Column
}

// setOf returns the keys of a table on a server, or nil if only the server can tell them.
func (c *Census) setOf(server int, key Column) *keySet {
	place := serverKey{server, key}
	if set, known := c.sets[place]; known {
		return set
	}
	c.sets[place] = nil
	d, set := c.servers[server], &keySet{span: c.spans[key][server]}
	set.repeats = !identifies(d.Tables[key.Table], key.Name)
	if set.none || set.atMost || !whole(columnOf(d, key)) || !keyed(d.Tables[key.Table], key.Name) ||
		set.max == math.MaxInt64 {
		return nil
	}
	if set.distinct == 0 {
		set.min, set.max = 1, 0
	} else if set.repeats || !set.whole() {
		size := set.size()
		if size > min(c.limits.set, c.room) {
			return nil
		}
		name, known := d.Kind.Quote(key.Name), int64(0)
		c.Each(d, d.SQL("SELECT ", name, " FROM ", d.Kind.Quote(key.Table), " WHERE ", set.covers(name),
			" ORDER BY ", name), func(values []any) bool {
			x, ok := exactly(d, values[0])
			if ok && set.holds(x) {
				set.add(x)
			}
			if ok && x != 0 {
				known++
			}
			return true
		})
		if known != set.distinct { // SQLite has other things there, or the rows change
			return nil
		}
		c.room -= size
	}
	c.sets[place] = set
	return set
}

// hold returns the whole numbers of a table that has few rows, and nil for others. A table for which there is
// room is read once. Any other one is dropped when the next such table of its server is read. A census goes
// through all tables several times: if the oldest ones were dropped, each of them would be read every time.
func (c *Census) hold(server int, table string) holdings {
	place := serverKey{server, Column{Table: table}}
	if held, known := c.held[place]; known {
		return held
	}
	held := readTable(c, server, c.servers[server].Tables[table], c.rows[place], c.limits.table)
	if size := held.size(); size <= c.space {
		c.space -= size
	} else {
		delete(c.held, c.passing[server])
		c.passing[server] = place
	}
	for name := range held {
		column := serverKey{server, Column{table, name}}
		if c.measured[column] == nil {
			c.measured[column] = held.ends(name)
		}
	}
	c.held[place] = held
	return held
}

// few are values of one column, and which of them are keys that have no set. Its rows are told apart by one
// column after the other, which have the same values.
type few struct {
	col  Column
	hits map[serverKey]map[int64]bool
}

// compares reports whether so many values are compared with the keys of several tables without asking a
// database about parts of them again and again.
func (c *Census) compares(server int, rivals []match, values int) bool {
	return int64(values) <= c.limits.values ||
		!slices.ContainsFunc(rivals, func(m match) bool { return c.setOf(server, m.key) == nil })
}

// hitsAmong returns for each of several tables what tells which of some values of a column are keys.
func (c *Census) hitsAmong(server int, col Column, rivals []match, all []int64) []func(x int64) bool {
	if c.few.col != col {
		c.few = few{col, map[serverKey]map[int64]bool{}}
	}
	tell, found := make([]func(int64) bool, len(rivals)), make([]map[int64]bool, len(rivals))
	d, asked := c.servers[server], map[int64]bool{}
	for n, m := range rivals {
		if set := c.setOf(server, m.key); set != nil {
			tell[n] = set.has
			continue
		}
		place := serverKey{server, m.key}
		if c.few.hits[place] == nil {
			c.few.hits[place] = map[int64]bool{}
		}
		found[n] = c.few.hits[place]
		tell[n] = func(x int64) bool { return found[n][x] }
		for _, x := range all {
			if _, known := found[n][x]; !known {
				asked[x] = true
			}
		}
	}
	name := d.Kind.Quote(col.Name)
	for some := range slices.Chunk(slices.Sorted(maps.Keys(asked)), sampled) {
		q, joins := d.SQL("SELECT v.x"), joined{c: c, server: server}
		for n, m := range rivals {
			if found[n] == nil {
				q.Add(", 0")
			} else {
				q.Add(", CASE WHEN ", joins.hit(m.key), " IS NULL THEN 0 ELSE 1 END")
			}
		}
		rows := c.Rows(d, q.Add(" FROM (SELECT DISTINCT ", name, " AS x FROM ", d.Kind.Quote(col.Table),
			" WHERE ", name, " IN (", listed(some), ")) AS v", joins.text))
		for _, row := range rows {
			x, _ := numberIn(row[0])
			for n := range rivals {
				if found[n] != nil {
					found[n][x] = row[1+n] == "1"
				}
			}
		}
	}
	return tell
}

// listed writes numbers with commas between them.
func listed(all []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

// keysAmong counts how many of some numbers are keys on a server.
func (c *Census) keysAmong(d *sqldb.DB, key Column, all []int64) (hits int64) {
	if !whole(columnOf(d, key)) {
		return 0
	}
	if set := c.setOf(slices.Index(c.servers, d), key); set != nil {
		for _, x := range slices.Compact(slices.Sorted(slices.Values(all))) {
			if set.has(x) {
				hits++
			}
		}
		return hits
	}
	for some := range slices.Chunk(all, sampled) {
		name := d.Kind.Quote(key.Name)
		hits += c.Number(d, d.SQL("SELECT COUNT(DISTINCT ", name, ") FROM ", d.Kind.Quote(key.Table), " WHERE ",
			name, " IN (", listed(some), ")"))
	}
	return hits
}

// among compares some values of a server with the keys of a table.
func (c *Census) among(key Column, server int, all []int64) against {
	hits := c.keysAmong(c.servers[server], key, all)
	s := span{distinct: int64(len(all)), min: slices.Min(all), max: slices.Max(all)}
	a := c.against(key, server, s, s.distinct, hits, 0)
	a.within = c.spans[key][server].count(all)
	return a
}

// some returns some of the different values of a column of a server that meet a condition, which meets tells
// of a number: all, if they are few.
func (c *Census) some(server int, col Column, condition string, meets func(x int64) bool) []string {
	d := c.servers[server]
	if s := c.spans[col]; s != nil {
		few := func(x int64) bool { return meets(x) && s[server].samples(x) }
		held, ok := c.hold(server, col.Table).different(col.Name, few)
		if ok && c.words[serverKey{server, col}] == nil { // which are texts here, and numbers on another server
			return sqldb.Mapped(held[:min(len(held), packedSample)], decimal)
		}
	}
	name := d.Kind.Quote(col.Name)
	q := d.SQL("SELECT DISTINCT ", name, " FROM ", d.Kind.Quote(col.Table), " WHERE ", condition)
	if s := c.spans[col]; s != nil {
		if sample := s[server].sample(name); sample != "" {
			q.Add(" AND ", sample)
		}
	}
	rows := c.Rows(d, q.Add(" ORDER BY 1 LIMIT ", strconv.Itoa(packedSample)))
	all := make([]string, len(rows))
	for i, row := range rows {
		all[i] = row[0]
	}
	return all
}

// values returns SQL for the different values of a column, as a table v with a column x.
func values(d *sqldb.DB, col Column, s span, condition string) string {
	name := d.Kind.Quote(col.Name)
	text := "(SELECT DISTINCT " + name + " AS x FROM " + d.Kind.Quote(col.Table) + " WHERE " + s.some(name)
	if condition != "" {
		text += " AND " + condition
	}
	return text + ") AS v"
}

// match compares a column with the keys of all tables: first a sample of its values, and then all of them
// with the tables that may be meant. What all servers together do not make a reference is dropped.
func (c *Census) match(col Column) []match {
	var all []match
	keys := c.keysFor(col)
	exactly := func(key Column) bool {
		says, _ := c.named(col, key)
		return says == 3
	}
	if len(keys) < len(c.keys) && !slices.ContainsFunc(keys, exactly) &&
		!slices.ContainsFunc(c.spans[col], func(s span) bool { return s.distinct >= fewValues }) {
		return nil // a few small numbers in one byte are a setting
	}
	for _, key := range keys {
		if key != col {
			named, ends := c.named(col, key)
			all = append(all, match{key: key, named: named, ends: ends, called: isCalled(col, key),
				endsAlike: !slices.Contains(c.keys, col) && key.Table != col.Table &&
					(!c.installed[key.Table] || c.installed[col.Table]),
				begins: c.begins(key) && !slices.Contains(c.keys, col)})
		}
	}
	all = c.compare(col, all, true)
	// A table that fewer of the sample are keys of may still be the one that some kind of rows refer to.
	var near []match
	all = slices.DeleteFunc(all, func(m match) bool {
		if !m.sampled || !m.near() {
			return false
		}
		m.sampled, m.servers = false, nil
		near = append(near, m)
		return true
	})
	all = append(all, c.compare(col, near, false)...)
	slices.SortFunc(all, func(a, b match) int {
		return slices.Index(c.keys, a.key) - slices.Index(c.keys, b.key)
	})
	return all
}

// compare counts how many values of a column, or of a sample of it, are keys of tables.
func (c *Census) compare(col Column, all []match, sample bool) []match {
	for i, d := range c.filled(col) {
		condition := ""
		if sample {
			condition = c.spans[col][i].sample(d.Kind.Quote(col.Name))
		}
		for part := range slices.Chunk(all, maxJoined) {
			c.count(col, i, part, condition)
		}
	}
	if len(all) > 0 && len(all[0].servers) == 0 {
		return nil
	}
	for i, m := range all {
		// Fewer of the values are keys, and yet all may be in the rows of one kind.
		_, hits := m.counts()
		all[i].sampled = m.sampled || !m.holds() && hits >= minValues && m.excess() >= -2
	}
	return slices.DeleteFunc(all, func(m match) bool {
		_, hits := m.counts()
		if m.sampled { // it is a few values of many, and says less
			return !m.full() && (hits == 0 || m.excess() < -2)
		}
		return !m.holds()
	})
}

// count asks one server how many values of a column, or of those that meet a condition, are keys.
func (c *Census) count(col Column, server int, all []match, condition string) {
	d, s := c.servers[server], c.spans[col][server]
	if c.countFew(col, server, all, condition) {
		return
	}
	q, joins := d.SQL("SELECT COUNT(*)"), joined{c: c, server: server}
	for _, m := range all {
		k := c.spans[m.key][server]
		if !c.overlaps(m.key, server, s) {
			q.Add(", 0, 0, 0, 0, 0, 0")
			continue
		}
		near := "0"
		if condition == "" && !k.inside(s) {
			near = "(SELECT COUNT(*) FROM " + d.Kind.Quote(m.key.Table) + " WHERE " +
				s.covers(d.Kind.Quote(m.key.Name)) + ")"
		}
		q.Add(", COUNT(CASE WHEN ", k.covers("v.x"), " THEN 1 END), COUNT(CASE WHEN ", k.around().covers("v.x"),
			" THEN 1 END), COUNT(", joins.hit(m.key), "), ", near)
		last, next := k.end()
		q.Add(", COUNT(CASE WHEN ", last.covers("v.x"), " THEN 1 END), COUNT(CASE WHEN ", next.covers("v.x"),
			" THEN 1 END)")
	}
	found := make([]int64, 1+6*len(all))
	found[0] = s.distinct
	if joins.asked {
		found = c.Numbers(d, len(found), q.Add(" FROM ", values(d, col, s, condition), joins.text))
	}
	for n := range all {
		m, near := &all[n], found[4+6*n]
		if c.spans[m.key][server].inside(s) {
			near = c.spans[m.key][server].distinct
		}
		a := c.against(m.key, server, s, found[0], found[3+6*n], near)
		a.within, a.around = found[1+6*n], found[2+6*n]-found[1+6*n]
		a.last, a.next = found[5+6*n], found[6+6*n]
		m.servers, m.sampled = append(m.servers, a), m.sampled || condition != ""
	}
}

// countFew is count for values that are held, or so few that they are read. It reports whether it has counted
// them: not those of which any is no number.
func (c *Census) countFew(col Column, server int, all []match, condition string) bool {
	d, s := c.servers[server], c.spans[col][server]
	overlap := func(m match) bool { return c.overlaps(m.key, server, s) }
	if !slices.ContainsFunc(all, overlap) {
		return false // without a look at the values
	}
	meets := func(x int64) bool { return s.means(x) && (condition == "" || s.samples(x)) }
	few, held := c.hold(server, col.Table).different(col.Name, meets)
	if !held && c.limits.values > 0 && (condition != "" || s.distinct <= c.limits.values) {
		q := d.SQL("SELECT v.x FROM ", values(d, col, s, condition))
		values, _ := read(c.Asker, d, q, math.MaxInt, nil, "x")
		few, held = values.different("x", meets)
	}
	if !held || !c.compares(server, all, len(few)) {
		return false
	}
	hits := c.hitsAmong(server, col, all, few)
	within := func(s span) int64 { return s.count(few) }
	for n := range all {
		m, k := &all[n], c.spans[all[n].key][server]
		near, met, overlaps := int64(0), int64(0), overlap(all[n])
		switch {
		case k.inside(s):
			near = k.distinct
		case overlaps && condition == "":
			near = c.keysIn(server, m.key, s)
		}
		for _, x := range few {
			if overlaps && hits[n](x) {
				met++
			}
		}
		a := c.against(m.key, server, s, int64(len(few)), met, near)
		if overlaps {
			last, next := k.end()
			a.within, a.last, a.next = within(k), within(last), within(next)
			a.around = within(k.around()) - a.within
		}
		m.servers, m.sampled = append(m.servers, a), m.sampled || condition != ""
	}
	return true
}

// keysIn counts the keys of a table on a server in the range of some values.
func (c *Census) keysIn(server int, key Column, s span) (n int64) {
	if set := c.setOf(server, key); set != nil {
		return set.within(s)
	}
	d := c.servers[server]
	return c.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(key.Table), " WHERE ",
		s.covers(d.Kind.Quote(key.Name))))
}

// maxJoined is how many tables one statement joins. MariaDB allows 61.
const maxJoined = 40

// overlaps reports whether a server has keys in the range of some values.
func (c *Census) overlaps(key Column, server int, s span) bool {
	k := c.spans[key][server]
	return k.distinct > 0 && k.min <= s.max && s.min <= k.max
}

// against judges what a server has answered. The keys may lie in heaps, so the density near the values counts
// where it is greater.
func (c *Census) against(key Column, server int, s span, values, hits, near int64) against {
	k := c.spans[key][server]
	a := against{server: c.servers[server].Name, values: values, hits: hits, near: near}
	if k.distinct == 0 {
		return a
	}
	a.width = width(k.min, k.max)
	a.density = float64(k.distinct) / a.width
	density := math.Max(a.density, float64(near)/width(s.min, s.max))
	a.chance = float64(values) * math.Log10(math.Min(density, 1))
	if hits == 0 {
		a.chance = 0
	}
	a.wide, a.greatest = float64(near)/width(s.min, s.max), float64(k.max)
	a.reach = float64(s.max) / a.greatest
	return a
}

// begins reports whether the keys of all servers begin at a thousand or above it.
func (c *Census) begins(key Column) bool {
	return !slices.ContainsFunc(c.spans[key], func(s span) bool { return s.distinct > 0 && s.min < 1000 })
}

// named says how much the name of a column speaks for a key: 3 if it names this key only, 2 if it names the
// table, 1 if it ends like the key or its table has a word of the name of the other one. A column ends like
// the key, too, if nothing but the last word of the table stands before that. It names a table also without
// the word with which the names of both tables begin, as topic does in forum_posts and forum_topics.
func (c *Census) named(col, key Column) (says int, ends bool) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(idLast(s), "_", "")) }
	column, name, words := plain(col.Name), plain(key.Name), c.wordsOf(key.Table)
	same := column == name
	joined := strings.Join(words, "")
	// Two columns called season may each count something of their own.
	tells := len(name) > 2 && strings.HasSuffix(name, "id") || name == joined
	last := words[len(words)-1]
	stem, ended := strings.CutSuffix(column, name)
	if one := singular(stem); ended && strings.HasSuffix(joined, one) { // as news_id, too, names site_news
		stem, column = one, one+name
	}
	mentions := len(words[0]) > 2 && strings.Contains(column, words[0])
	beside := len(words) > 1 && c.wordsOf(col.Table)[0] == words[0] &&
		strings.Join(wordsIn(col.Name), "") == strings.Join(words[1:], "")
	called := ended && (len(name) > 2 || mentions || len(stem) > 2 && strings.HasSuffix(joined, stem))
	ends = called || beside || ended && len(last) > 2 && strings.HasSuffix(stem, last)
	// The key of an item is called like items of every kind.
	own := slices.Contains(c.keys, col) && c.wordsOf(col.Table)[0] == last && len(words) > 1
	itself := []string{plain(key.Table) + name, joined + name, last + name}
	if col.Table == key.Table && slices.Contains(itself, column) {
		return 1, false // the friend of a row of friends is a hero
	}
	only := same && tells && !slices.ContainsFunc(c.keys, func(k Column) bool {
		return k != key && k != col && plain(k.Name) == name && !slices.Contains(c.above[k], key)
	})
	switch {
	case only, column == plain(key.Table)+name, column == joined+name,
		column == last+name && !own, len(words) > 1 && ended && strings.HasSuffix(stem, joined):
		return 3, true
	case mentions, beside, same && c.wordsOf(col.Table)[0] == words[0]:
		return 2, ends
	case called,
		same && slices.ContainsFunc(c.wordsOf(col.Table),
			func(w string) bool { return slices.Contains(words, w) }):
		return 1, ends
	}
	return 0, ends
}

// match compares the values of a column with the keys of a table.
type match struct {
	key     Column
	named   int       // how much the name says, from 0 to 3
	ends    bool      // the name of the column ends like that of the key
	called  bool      // the column is called like the table
	servers []against // those that have values in the column
	begins  bool      // the keys begin where no ordinary number lies
	sampled bool      // only a sample of the values was compared, or too few of them are keys
	// endsAlike says that the end of the values tells something though the keys end alike on all servers. It
	// does not if they are installed with a game, or if the values are keys, or ranks within their own table.
	endsAlike bool
}

// against compares the values of a column with the keys of a table on one server.
type against struct {
	server       string
	values, hits int64   // different values
	within       int64   // those in the range of the keys
	around       int64   // those below and above it, in as many numbers on each side
	last, next   int64   // those in the last tenth of the range of the keys, and in a tenth of it behind
	density      float64 // of the keys in their range
	wide         float64 // density of the keys in the range of the values
	near         int64   // how many keys there are
	chance       float64
	greatest     float64 // key
	width        float64 // of the range of the keys
	reach        float64 // the greatest value as a part of the greatest key
}

// add adds what the rows of one more value have shown.
func (m *match) add(part match) {
	for _, a := range part.servers {
		i := slices.IndexFunc(m.servers, func(b against) bool { return b.server == a.server })
		if i < 0 {
			m.servers = append(m.servers, a)
			continue
		}
		b := &m.servers[i]
		b.values, b.hits, b.chance = b.values+a.values, b.hits+a.hits, b.chance+a.chance
		b.reach = max(b.reach, a.reach)
	}
}

// full reports whether all values are keys, on every server.
func (m match) full() bool {
	return !slices.ContainsFunc(m.servers, func(a against) bool { return a.hits < a.values })
}

func (m match) counts() (values, hits int64) {
	for _, a := range m.servers {
		values, hits = values+a.values, hits+a.hits
	}
	return values, hits
}

// chance is the decimal logarithm of how likely the values would all be keys if they were other numbers of
// the same range.
func (m match) chance() (sum float64) {
	for _, a := range m.servers {
		sum += a.chance
	}
	return sum
}

// score weighs the name, the chance, and how far the values reach: values that refer reach up to the greatest
// key, and levels and counts do not.
func (m match) score() float64 {
	score := 1.5*float64(m.named) - m.chance()
	if m.begins {
		score++
	}
	far, near := true, false
	for _, a := range m.servers {
		far, near = far && a.reach >= 0.95, near || a.reach < 0.3
	}
	switch {
	case m.follows():
		score += 4
	case far:
		score++
	case near:
		score -= 2
	}
	return score
}

// certain reports whether the column refers almost certainly, if there is no other table as likely.
func (m match) certain() bool {
	named := m.named == 3 || m.named > 0 && -m.chance() >= 3
	return m.full() && (m.score() >= 8 || named && m.score() >= 4)
}

// reaches reports whether the values go as far as the keys on every server: a few as far as so few would, and
// not beyond them. If two servers tell it, one with next to none need not.
func (m match) reaches() bool {
	enough, told := false, 0
	for _, a := range m.servers {
		few := a.values < minValues
		enough = enough || !few
		switch tells := a.values >= minValues/3; {
		case few && a.reach > 1.05, tells && a.reach < min(0.95, 1-3/float64(a.values)):
			return false
		case tells:
			told++
		}
	}
	return enough && told >= min(2, len(m.servers))
}

// follows reports whether the values go as far as the keys, though these end elsewhere on each server, and
// farther away than the values do. No other number knows how far they go.
func (m match) follows() bool {
	away := 0.005
	for _, a := range m.servers {
		away = max(away, min(math.Abs(1-a.reach), 0.05))
	}
	return m.reaches() && slices.ContainsFunc(m.servers, func(a against) bool {
		return math.Abs(a.greatest-m.servers[0].greatest) > 2*away*a.greatest
	})
}

// far reports whether the values go farther than levels and counts do, on some server.
func (m match) far() bool {
	return slices.ContainsFunc(m.servers, func(a against) bool { return a.reach >= 0.3 })
}

// dense reports whether, on each of several servers, nearly each number is a key, and the values end where
// the keys do, or a little beyond them, since the newest rows may be deleted as well. Then hits prove
// nothing, and the end of the values does.
func (m match) dense() bool {
	return len(m.servers) > 1 && (m.follows() || m.endsAlike && m.reaches()) &&
		!slices.ContainsFunc(m.servers, func(a against) bool { return a.density < 0.8 || a.reach > 1.05 })
}

// capped reports whether the values end at one number on all servers, as levels do, though no keys end there.
func (m match) capped() bool {
	last := func(a against) float64 { return math.Round(a.reach * a.greatest) }
	return !slices.ContainsFunc(m.servers, func(a against) bool {
		return a.reach == 1 || last(a) != last(m.servers[0])
	})
}

// fixed reports whether all rows of several servers have one number, as a limit that nobody has changed.
func (m match) fixed() bool {
	several := func(a against) bool { return a.values > 1 }
	return len(m.servers) > 1 && m.capped() && !slices.ContainsFunc(m.servers, several)
}

// byEnd reports whether nothing but the end of the values speaks for a match.
func (m match) byEnd() bool {
	return m.dense() && !m.follows() && m.named == 0 && !m.called && !m.begins && -m.chance() < 3
}

// goesOn reports whether, on every server, nearly each number is a key, and the values go on behind the
// greatest of them as if there were no end, as prices and weights do. Then it proves nothing that most are
// keys.
func (m match) goesOn() bool {
	var last, next int64
	for _, a := range m.servers {
		if last, next = last+a.last, next+a.next; a.density < 0.8 {
			return false
		}
	}
	return next*3 > last
}

// fills reports whether the values are most keys of their range on each server, as where both are counted.
func (m match) fills() bool {
	return !slices.ContainsFunc(m.servers, func(a against) bool { return a.hits*10 < a.near*9 })
}

// tells reports whether the name of the column says whose keys it holds.
func (m match) tells() bool { return m.named == 3 || m.called || m.named == 2 && m.ends }

// possible reports whether somebody has to say what the column is. Rows that refer to what was deleted are no
// rare thing.
func (m match) possible() bool {
	values, hits := m.counts()
	switch {
	case m.sampled:
		return false
	case m.full():
		return m.ends || m.called || m.begins || m.score() >= 3 && !m.fixed() || m.dense() && !m.capped()
	case m.tells(): // some of the rows that it refers to were deleted
		return hits*2 >= values
	case m.named < 2 && m.goesOn():
		return false
	case m.begins && hits*2 >= values && m.apart(minValues) && (m.excess() >= 3 || m.meets()):
		return true
	case m.dense() && !m.capped() && hits*20 >= values*19:
		return true
	case m.follows() && hits*4 >= values*3:
		return m.dense() || max(m.excess(), m.beyond()) >= 6
	case m.named >= 2:
		return hits*10 >= values*8 && max(m.excess(), m.beyond()) >= 3 ||
			m.far() && values < 5*minValues && hits*2 >= values
	}
	most := hits*10 >= values*9
	return most && max(m.excess(), m.beyond()) >= 6 || hits*2 >= values && m.excess() >= 6 ||
		most && m.meets() && m.excess() >= 3
}

// meets reports whether the values end where the keys do, on every server.
func (m match) meets() bool {
	return !slices.ContainsFunc(m.servers, func(a against) bool { return a.reach < 0.95 || a.reach > 1.05 })
}

// apart reports whether nearly all values, of which there are enough, lie in the range of the keys, which is
// a narrow one far above 0.
func (m match) apart(enough int64) bool {
	return !slices.ContainsFunc(m.servers, func(a against) bool {
		return a.within*50 < a.values*49 || a.values < enough || a.width > a.greatest/2
	})
}

// confined is the decimal logarithm of how likely other numbers up to the greatest key, as many as there are
// values, would all lie in the range of the keys.
func (m match) confined() (sum float64) {
	for _, a := range m.servers {
		sum += float64(a.values) * math.Log10(a.width/a.greatest)
	}
	return sum
}

// near reports whether so many values of a sample are keys that all of them have to be compared.
func (m match) near() bool {
	values, hits := m.counts()
	if m.named >= 2 {
		return hits*100 >= values*75
	}
	return hits*100 >= values*86 || hits*2 >= values && m.excess() >= 6
}

// mostly reports whether most of the values of one kind of rows are keys, and many more than by chance.
func (m match) mostly() bool {
	values, hits := m.counts()
	return values >= minValues && hits*2 >= values && m.overall() >= 6
}

// overall says how many standard deviations more of all values are keys than by chance.
func (m match) overall() float64 {
	return m.deviations(func(a against) (values, density float64) { return float64(a.values), a.density })
}

// excess says how many standard deviations more values are keys than by chance, of those in the range of
// keys.
func (m match) excess() float64 {
	return m.deviations(func(a against) (values, density float64) { return float64(a.within), a.density })
}

// beyond is excess for values that go beyond the keys: of all values, those that are keys.
func (m match) beyond() float64 {
	return m.deviations(func(a against) (values, density float64) {
		return float64(a.values), math.Min(a.wide, 1)
	})
}

func (m match) deviations(expected func(a against) (values, density float64)) float64 {
	more, variance := 0.0, 0.25 // so that a few values say little
	for _, a := range m.servers {
		n, density := expected(a)
		more += float64(a.hits) - n*density
		variance += n * density * (1 - density)
	}
	return more / math.Sqrt(variance)
}

// section reports whether the values in the range of the keys may be keys, while others lie elsewhere, such
// as where one number names a person or a thing, and things begin at a number of their own.
func (m match) section() bool {
	var within, around int64
	for _, a := range m.servers {
		within, around = within+a.within, around+a.around
	}
	values, hits := m.counts()
	least := int64(minValues)
	if m.sampled {
		least /= 2
	}
	return hits >= least && within < values && hits*10 >= within*8 && around*50 <= within
}

// speaks reports whether the name of the column or the range of the keys speaks for a reference.
func (m match) speaks() bool { return m.named == 3 || m.begins }

// holds reports whether the values are keys more often than by chance, or whether most of them are and go as
// far as the keys, or beyond them, where new keys may not meet them.
func (m match) holds() bool {
	values, hits := m.counts()
	outside := slices.ContainsFunc(m.servers, func(a against) bool { return a.reach > 1 })
	far := outside || m.named >= 2 || m.reaches()
	return m.full() || hits >= minValues && m.excess() >= 3 || 2*hits >= values && far ||
		10*hits >= values && m.speaks()
}

// width is how many whole numbers a range has.
func width(least, greatest int64) float64 { return float64(greatest) - float64(least) + 1 }

// wordsOf returns the words of the name of a table, in the singular, but for one with which all names begin.
func (c *Census) wordsOf(table string) []string {
	words := wordsOf(table)
	if len(words) > 1 && words[0] == c.prefix {
		return words[1:]
	}
	return words
}

// prefixOf returns the word with which the names of all of several tables begin, or "" if there is none.
func prefixOf(tables []string) string {
	if len(tables) < 3 {
		return ""
	}
	first := wordsOf(tables[0])[0]
	other := func(name string) bool {
		words := wordsOf(name)
		return len(words) < 2 || words[0] != first
	}
	if slices.ContainsFunc(tables, other) {
		return ""
	}
	return first
}

// wordsOf returns all words of the name of a table, in the singular.
func wordsOf(table string) []string {
	words := strings.FieldsFunc(strings.ToLower(table), func(r rune) bool { return r == '_' || r == '.' })
	for i, w := range words {
		words[i] = singular(w)
	}
	if len(words) == 0 {
		return []string{table}
	}
	return words
}

// singular guesses the singular of a word.
func singular(word string) string {
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		return stem + "y"
	}
	ends := func(end string) bool { return strings.HasSuffix(word, end) }
	if ends("oes") || ends("xes") || ends("sses") || ends("hes") ||
		ends("uses") && !ends("ouses") && !ends("auses") { // statuses, but houses
		return strings.TrimSuffix(word, "es")
	}
	if len(word) > 3 && !ends("ss") {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// evidence says in words what speaks for a match and what against it.
func (m match) evidence(zeros bool, counter []string) string {
	var parts []string
	for _, a := range m.servers {
		parts = append(parts, fmt.Sprintf("%s: %d of %d values are keys of %s", a.server, a.hits, a.values,
			m.key))
	}
	if odds := odds(m.chance()); m.full() && odds != "" {
		parts = append(parts, odds)
	}
	if len(counter) > 0 {
		parts = append(parts, "not "+strings.Join(counter, ", "))
	}
	if zeros {
		parts = append(parts, "0 means none")
	}
	return strings.Join(parts, "; ")
}

// odds says in words what a decimal logarithm of chance means, and nothing of one that proves nothing.
func odds(chance float64) string {
	if chance > -1 {
		return ""
	}
	return fmt.Sprintf("other numbers of this range would all be keys once in 10^%.0f times", -chance)
}

// hitsOf adds the counts of matches to others, which stay as they are. Samples count nothing.
func hitsOf(all map[Column]string, matches []match) map[Column]string {
	if all == nil {
		all = map[Column]string{}
	}
	for _, m := range matches {
		if _, known := all[m.key]; known || m.sampled {
			continue
		}
		var parts []string
		for _, a := range m.servers {
			parts = append(parts, fmt.Sprintf("%s %d and not %d", a.server, a.hits, a.values-a.hits))
		}
		all[m.key] = strings.Join(parts, ", ")
	}
	return all
}
