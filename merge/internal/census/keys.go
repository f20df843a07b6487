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
	table, tables int   // how many numbers of a table are held, and how many of all
}

func usual() limits {
	return limits{values: 2 * sampled, set: 1 << 24, sets: 1 << 28, table: 1 << 19, tables: 1 << 22}
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

// holdings are the rows of a table that has few of them: the whole numbers, by column. Every database finds
// the same of these equal, whereas only one itself knows which of its texts are: of those of few kinds, this
// has their places among words. A column with anything else in it is not held.
type holdings map[string][]int64

// null stands for NULL.
const null int64 = math.MinInt64

// orZero returns 0 for NULL.
func orZero(x int64) int64 {
	if x == null {
		return 0
	}
	return x
}

// readTable reads the whole numbers of a table of so many rows, and the texts of few kinds. It returns nil if
// these are more than so many, or none.
func readTable(c *Census, server int, t *sqldb.Table, count int64, most int) (held holdings, cells int) {
	var names []string
	d, texts, numbers := c.servers[server], map[string]*words{}, 0
	if t != nil {
		for _, col := range t.Columns {
			switch number := whole(col) || usable(col); {
			case !number && (col.Family != sqldb.FamilyText || col.MaxChars < 1 || col.MaxChars > maxKind):
				continue
			case number:
				numbers++
			default:
				of := serverKey{server, Column{t.Name, col.Name}}
				c.words[of] = &words{at: map[string]int64{}, kinds: c.words[of].differing()}
				texts[col.Name] = c.words[of]
			}
			names = append(names, col.Name)
		}
	}
	if numbers == 0 || most == 0 || count == 0 || count > int64(most/len(names)) {
		return nil, 0
	}
	rows := most / len(names)
	held, n := read(c.Asker, d, d.SQL("SELECT ", d.Kind.QuoteAll(names), " FROM ", d.Kind.Quote(t.Name),
		" LIMIT ", strconv.Itoa(rows+1)), texts, names...)
	if n > rows || n == 0 {
		return nil, 0
	}
	return held, n * len(names)
}

// words are the different texts of a column of few kinds, which holdings have as their places here.
type words struct {
	all []string
	at  map[string]int64
	// kinds are those of which the database has said that they differ.
	kinds map[string]bool
}

// number returns the place of a text, unless there are too many.
func (w *words) number(d *sqldb.DB, v any) (x int64, ok bool) {
	if _, is := v.(string); !is && d.Kind.Untyped() { // which finds a BLOB different from a text
		return 0, false
	}
	text := sqldb.Text(v)
	if x, ok = w.at[text]; !ok && len(w.all) <= maxKinds && len(text) <= maxKind {
		x, ok = int64(len(w.all)), true
		w.all, w.at[text] = append(w.all, text), x
	}
	return x, ok
}

// differing returns the texts of which the database has said that they differ.
func (w *words) differing() map[string]bool {
	if w == nil {
		return nil
	}
	return w.kinds
}

// named returns values by texts that they had by places, if the database tells these apart.
func (w *words) named(kinds map[string][]int64) (named map[string][]int64, ok bool) {
	named = map[string][]int64{}
	for kind, all := range kinds {
		place, _ := strconv.Atoi(kind)
		if named[w.all[place]] = all; !w.kinds[w.all[place]] {
			return nil, false
		}
	}
	return named, true
}

// read reads the columns of a result that have whole numbers, or texts of few kinds, and NULL only, and
// counts the rows.
func read(a *sqldb.Asker, d *sqldb.DB, q *sqldb.Statement, texts map[string]*words, names ...string) (
	held holdings, n int) {
	held = holdings{}
	for _, name := range names {
		held[name] = []int64{}
	}
	a.EachSteady(d, q, func(values []any) bool {
		for i, v := range values {
			all, x, ok := held[names[i]], null, v == nil
			if w := texts[names[i]]; w != nil && all != nil && !ok {
				x, ok = w.number(d, v)
			} else if all != nil && !ok {
				x, ok = exactly(d, v)
			}
			if all != nil && ok {
				held[names[i]] = append(all, x)
			} else {
				held[names[i]] = nil
			}
		}
		n++
		return true
	})
	return held, n
}

// exactly reads a whole number, and nothing that a database may find equal to others than the program does.
func exactly(d *sqldb.DB, v any) (x int64, ok bool) {
	if _, is := v.(int64); !is && d.Kind.Untyped() { // it may be a BLOB of digits
		return 0, false
	}
	text, digits := sqldb.Text(v), [20]byte{}
	x, err := strconv.ParseInt(text, 10, 64)
	return x, err == nil && x != null && string(strconv.AppendInt(digits[:0], x, 10)) == text
}

func decimal(x int64) string { return strconv.FormatInt(x, 10) }

// different returns the different numbers of a column that meet a condition, in their order. It reports
// whether the column is held.
func (h holdings) different(column string, meets func(x int64) bool) (all []int64, held bool) {
	for _, x := range h[column] {
		if x != null && meets(x) {
			all = append(all, x)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), h[column] != nil
}

// ends returns what [Census.ends] does of a column, or nil if that is not held.
func (h holdings) ends(column string) []string {
	if h[column] == nil {
		return nil
	}
	values, zeros, ends := 0, 0, []string{"", "", ""}
	least, greatest, positive := int64(math.MaxInt64), null, int64(math.MaxInt64)
	for _, x := range h[column] {
		switch {
		case x == 0:
			zeros++
		case x != null:
			values++
			least, greatest = min(least, x), max(greatest, x)
			if x > 0 {
				positive = min(positive, x)
			}
		}
	}
	if values > 0 {
		ends[0], ends[1] = decimal(least), decimal(greatest)
	}
	if greatest > 0 {
		ends[2] = decimal(positive)
	}
	return append([]string{strconv.Itoa(values), strconv.Itoa(zeros)}, ends...)
}

// few reports whether all of some columns are held, and have few rows.
func (h holdings) few(columns []string) bool {
	absent := func(name string) bool { return h[name] == nil }
	return !slices.ContainsFunc(columns, absent) && len(h[columns[0]]) <= packedSample
}

// byValue returns the rows that have each value of a column, of those that many rows have.
func (h holdings) byValue(column string) map[int64][]int {
	counts, rows := map[int64]int{}, map[int64][]int{}
	for _, x := range h[column] {
		counts[x]++
	}
	for row, x := range h[column] {
		if x != null && counts[x] >= minValues {
			rows[x] = append(rows[x], row)
		}
	}
	return rows
}

// kinds returns the different values of a column as a database does: each with 1 if it is NULL.
func (h holdings) kinds(column string) (rows [][]string, held bool) {
	all, held := h.different(column, func(int64) bool { return true })
	for _, x := range all {
		rows = append(rows, []string{decimal(x), "0"})
	}
	if slices.Contains(h[column], null) {
		rows = append(rows, []string{"", "1"})
	}
	return rows, held
}

// byKind returns the different numbers of a column that meet a condition in the rows of each value of another
// one. It reports whether both are held.
func (h holdings) byKind(column, by string, meets func(x int64) bool) (kinds map[string][]int64, held bool) {
	if h[column] == nil || h[by] == nil {
		return nil, false
	}
	kinds = map[string][]int64{}
	all := map[int64][]int64{}
	for i, x := range h[column] {
		if kind := h[by][i]; kind != null && meets(x) {
			all[kind] = append(all[kind], x)
		}
	}
	for kind, some := range all {
		slices.Sort(some)
		kinds[decimal(kind)] = slices.Compact(some)
	}
	return kinds, true
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
