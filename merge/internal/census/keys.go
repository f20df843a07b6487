package census

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// keySet has the keys of a table: a bit for each number from the least key to the greatest, or the keys in
// their order if they lie far apart or several rows have the same, and neither if each of these numbers is a
// key.
type keySet struct {
	span
	repeats bool // no key of the database keeps them apart
	bits    []uint64
	list    []int64
}

// limits say what a census answers in the program, where it would take a database many statements. Memory
// must not grow with the rows, so the keys of a table take at most 2 MB, and its rows 4 MB; those of all
// tables take 32 MB.
type limits struct {
	values        int64 // how many different values of a column are read; with 0, the databases count all
	set, sets     int64 // how many bits the keys of a table take, and those of all
	table, tables int   // how many bytes the rows of a table take that are held, and those of all
}

func usual() limits {
	return limits{values: 2 * sampled, set: 1 << 24, sets: 1 << 28, table: 1 << 22, tables: 1 << 25}
}

// size returns how many bits the set takes.
func (k *keySet) size() int64 {
	width, list := uint64(k.max)-uint64(k.min)+1, uint64(k.distinct+1)*64
	if k.repeats {
		width = list
	}
	return int64(min(width, list, math.MaxInt64))
}

// add adds the next key to the set.
func (k *keySet) add(x int64) {
	width := uint64(k.max) - uint64(k.min) + 1
	switch far := k.repeats || uint64(k.size()) < width; {
	case far && k.list == nil:
		k.list = make([]int64, 0, k.distinct+1)
		fallthrough
	case far:
		k.list = append(k.list, x)
		return
	case k.bits == nil:
		k.bits = make([]uint64, width/64+1)
	}
	k.bits[(x-k.min)/64] |= 1 << ((x - k.min) % 64)
}

// has reports whether a number is a key.
func (k *keySet) has(x int64) bool {
	if x == 0 || !k.holds(x) {
		return x == 0 && k.zero
	}
	if k.list != nil {
		_, found := slices.BinarySearch(k.list, x)
		return found
	}
	return len(k.bits) == 0 || k.bits[(x-k.min)/64]>>((x-k.min)%64)&1 == 1
}

// within returns how many rows have a key in a span.
func (k *keySet) within(s span) (n int64) {
	if k.zero && s.holds(0) && !k.holds(0) {
		n++
	}
	first, last := max(k.min, s.min), min(k.max, s.max)
	switch {
	case first > last:
		return n
	case k.list != nil:
		from, _ := slices.BinarySearch(k.list, first)
		to, _ := slices.BinarySearch(k.list, last+1)
		return n + int64(to-from)
	case len(k.bits) == 0:
		return n + last - first + 1
	}
	for x := first; x <= last; {
		if word := x - k.min; word%64 == 0 && last-x >= 63 {
			n += int64(bits.OnesCount64(k.bits[word/64]))
			x += 64
			continue
		}
		if k.has(x) {
			n++
		}
		x++
	}
	return n
}

// joined collects the tables of keys that a statement joins to the values v.x. That takes MariaDB a thirtieth
// of the time of as many subqueries.
type joined struct {
	c      *Census
	server int
	text   string
	n      int
	asked  bool // it needs the values
}

// hit returns SQL that is NULL unless v.x is a key.
func (j *joined) hit(key Column) string {
	d, keys := j.c.servers[j.server], j.c.spans[key][j.server]
	switch {
	case keys.distinct == 0:
		return "NULL"
	case keys.whole() && whole(columnOf(d, key)):
		j.asked = true
		return "CASE WHEN " + keys.covers("v.x") + " THEN 1 END"
	}
	j.asked = true
	if !identifies(d.Tables[key.Table], key.Name) { // on this server; a join would count values twice
		return "CASE WHEN " + holds(d, key) + " THEN 1 END"
	}
	j.n++
	alias := "k" + strconv.Itoa(j.n)
	column := alias + "." + d.Kind.Quote(key.Name)
	j.text += " LEFT JOIN " + d.Kind.Quote(key.Table) + " AS " + alias + " ON " + column + " = v.x"
	return column
}

// manyTopics is how many different values a column may have that tells which rows refer, where the table has
// one number under each of them, such as what scripts of a game remember of a hero. Most are about other
// things.
const manyTopics = 1024

// remembered returns the column of a table with a key of several columns that is its only other number.
func remembered(servers []*sqldb.DB, table string) (name string) {
	for _, d := range servers {
		t := d.Tables[table]
		if t == nil {
			continue
		}
		several, numbers := false, []string(nil)
		for _, k := range t.Keys() {
			several = several || len(k.Parts) > 1
		}
		for _, col := range t.Columns {
			covers := func(k sqldb.UniqueKey) bool { return k.Covers(col.Name) }
			if whole(col) && !slices.ContainsFunc(t.Keys(), covers) {
				numbers = append(numbers, col.Name)
			}
		}
		if !several || len(numbers) != 1 || name != "" && name != numbers[0] {
			return ""
		}
		name = numbers[0]
	}
	return name
}

// topics returns how many different values a column of a table may have that tells which rows refer.
func topics(servers []*sqldb.DB, table string) int {
	if remembered(servers, table) == "" {
		return maxKinds
	}
	return manyTopics
}
