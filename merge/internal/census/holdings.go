package census

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// holdings are the rows of a table that has few of them: the whole numbers, by column. Every database finds
// the same of these equal, whereas only one itself knows which of its texts are: of those of few kinds, this
// has their places among words. A column with anything else in it is not held.
type holdings map[string]*column

// null stands for NULL.
const null int64 = math.MinInt64

// column has the numbers of a column in as few bytes as all of them need: most are small. The zero value is
// empty, and nil is a column that is not held.
type column struct {
	wide int // 1, 2, 4 or 8 bytes for each number, of which the least one stands for null
	data []byte
}

func (c *column) len() int {
	if c == nil || c.wide == 0 {
		return 0
	}
	return len(c.data) / c.wide
}

func (c *column) number(i int) (x int64) {
	switch i *= c.wide; c.wide {
	case 1:
		x = int64(int8(c.data[i]))
	case 2:
		x = int64(int16(binary.NativeEndian.Uint16(c.data[i:])))
	case 4:
		x = int64(int32(binary.NativeEndian.Uint32(c.data[i:])))
	default:
		return int64(binary.NativeEndian.Uint64(c.data[i:]))
	}
	if x == -1<<(8*c.wide-1) {
		return null
	}
	return x
}

func (c *column) add(x int64) {
	wide := 1
	for wide < 8 && x != null && (x <= -1<<(8*wide-1) || x >= 1<<(8*wide-1)) {
		wide *= 2
	}
	if wide > c.wide {
		wider := &column{wide: wide, data: make([]byte, 0, wide*(c.len()+1)*5/4)}
		for _, before := range c.all() {
			wider.add(before)
		}
		*c = *wider
	}
	switch c.wide {
	case 1:
		c.data = append(c.data, byte(max(x, math.MinInt8)))
	case 2:
		c.data = binary.NativeEndian.AppendUint16(c.data, uint16(max(x, math.MinInt16)))
	case 4:
		c.data = binary.NativeEndian.AppendUint32(c.data, uint32(max(x, math.MinInt32)))
	default:
		c.data = binary.NativeEndian.AppendUint64(c.data, uint64(x))
	}
}

// all returns the numbers with the places of their rows.
func (c *column) all() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for row := range c.len() {
			if !yield(row, c.number(row)) {
				return
			}
		}
	}
}

// size returns how many bytes the numbers take.
func (h holdings) size() (bytes int) {
	for _, c := range h {
		if c != nil {
			bytes += len(c.data)
		}
	}
	return bytes
}

// readTable reads the whole numbers of a table of so many rows, and the texts of few kinds. It returns nil if
// these take more than so many bytes, or if there are none.
func readTable(c *Census, server int, t *sqldb.Table, count int64, most int) holdings {
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
				place := serverKey{server, Column{t.Name, col.Name}}
				c.words[place] = &words{index: map[string]int64{}, kinds: c.words[place].differing()}
				texts[col.Name] = c.words[place]
			}
			names = append(names, col.Name)
		}
	}
	if numbers == 0 || most == 0 || count == 0 || count > int64(most/len(names)) {
		return nil
	}
	q := d.SQL("SELECT ", d.Kind.QuoteAll(names), " FROM ", d.Kind.Quote(t.Name))
	held, n := read(c.Asker, d, q, most, texts, names...)
	if n == 0 || held.size() > most {
		return nil
	}
	return held
}

// words are the different texts of a column of few kinds, which holdings have as their places here.
type words struct {
	all   []string
	index map[string]int64
	// kinds are those of which the database has said that they differ.
	kinds map[string]bool
}

// number returns the place of a text, unless there are too many.
func (w *words) number(d *sqldb.DB, v any) (x int64, ok bool) {
	if _, is := v.(string); !is && d.Kind.Untyped() { // which finds a BLOB different from a text
		return 0, false
	}
	text := sqldb.Text(v)
	if x, ok = w.index[text]; !ok && len(w.all) <= maxKinds && len(text) <= maxKind {
		x, ok = int64(len(w.all)), true
		w.all, w.index[text] = append(w.all, text), x
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
// counts the rows. It ends when they take more than so many bytes.
func read(a *sqldb.Asker, d *sqldb.DB, q *sqldb.Statement, most int, texts map[string]*words,
	names ...string) (held holdings, n int) {
	held = holdings{}
	for _, name := range names {
		held[name] = &column{}
	}
	a.EachSteady(d, q, func(values []any) bool {
		for i, v := range values {
			c, x, ok := held[names[i]], null, v == nil
			if w := texts[names[i]]; w != nil && c != nil && !ok {
				x, ok = w.number(d, v)
			} else if c != nil && !ok {
				x, ok = exactly(d, v)
			}
			if c != nil && ok {
				c.add(x)
			} else {
				held[names[i]] = nil
			}
		}
		n++
		return n%1000 > 0 || held.size() <= most
	})
	return held, n
}

// exactly reads a whole number, and nothing that a database may find equal to others than the program does.
func exactly(d *sqldb.DB, v any) (x int64, ok bool) {
	if x, is := v.(int64); is || d.Kind.Untyped() { // else it may be a BLOB of digits
		return x, is && x != null
	}
	text, digits := sqldb.Text(v), [20]byte{}
	x, err := strconv.ParseInt(text, 10, 64)
	return x, err == nil && x != null && string(strconv.AppendInt(digits[:0], x, 10)) == text
}

func decimal(x int64) string { return strconv.FormatInt(x, 10) }

// different returns the different numbers of a column that meet a condition, in their order. It reports
// whether the column is held.
func (h holdings) different(column string, meets func(x int64) bool) (all []int64, held bool) {
	for _, x := range h[column].all() {
		if x != null && meets(x) {
			all = append(all, x)
		}
	}
	return inOrderOnce(all), h[column] != nil
}

// inOrderOnce sorts numbers, and leaves each only once. Most columns have numbers of a narrow range, so that
// a bit for each number of it takes no more room than they do, and a fraction of the time of sorting.
func inOrderOnce(all []int64) []int64 {
	if len(all) == 0 {
		return nil
	}
	least := slices.Min(all)
	width := uint64(slices.Max(all)) - uint64(least)
	if width/64 >= uint64(len(all)) {
		slices.Sort(all)
		return slices.Compact(all)
	}
	set := make([]uint64, width/64+1)
	for _, x := range all {
		bit := uint64(x) - uint64(least)
		set[bit/64] |= 1 << (bit % 64)
	}
	all = all[:0]
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			all = append(all, least+int64(64*i+bits.TrailingZeros64(word)))
		}
	}
	return all
}

// ends returns what [Census.ends] does of a column, or nil if that is not held.
func (h holdings) ends(column string) []string {
	if h[column] == nil {
		return nil
	}
	values, zeros, ends := 0, 0, []string{"", "", ""}
	least, greatest, positive := int64(math.MaxInt64), null, int64(math.MaxInt64)
	for _, x := range h[column].all() {
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

// has reports whether all of some columns are held.
func (h holdings) has(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool { return h[name] == nil })
}

// add adds a row, in which what is no number of 64 bits counts as NULL.
func (h holdings) add(columns, row []string) {
	for i, name := range columns {
		x, err := strconv.ParseInt(row[i], 10, 64)
		if err != nil {
			x = null
		}
		if h[name] == nil {
			h[name] = &column{}
		}
		h[name].add(x)
	}
}

// order returns the places of so many rows: if they are more than a sample, in the order of some columns that
// are held.
func (h holdings) order(columns []string, rows int) []int {
	all := make([]int, rows)
	for row := range all {
		all[row] = row
	}
	if rows > packedSample {
		by := sqldb.Mapped(columns, func(name string) *column { return h[name] })
		slices.SortStableFunc(all, func(a, b int) (order int) {
			for _, c := range by {
				order = cmp.Or(order, cmp.Compare(c.number(a), c.number(b)))
			}
			return order
		})
	}
	return all
}

// byValue returns the rows that have each value of a column, of those that many rows have.
func (h holdings) byValue(column string) map[int64][]int {
	counts, rows := map[int64]int{}, map[int64][]int{}
	for _, x := range h[column].all() {
		counts[x]++
	}
	for row, x := range h[column].all() {
		if x != null && counts[x] >= minValues {
			rows[x] = append(rows[x], row)
		}
	}
	return rows
}

// kinds returns the different values of a column as a database does: each with 1 if it is NULL.
func (h holdings) kinds(column string) (rows [][]string, held bool) {
	nulls := false
	all, held := h.different(column, func(int64) bool { return true })
	for _, x := range all {
		rows = append(rows, []string{decimal(x), "0"})
	}
	for _, x := range h[column].all() {
		nulls = nulls || x == null
	}
	if nulls {
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
	for i, x := range h[column].all() {
		if kind := h[by].number(i); kind != null && meets(x) {
			all[kind] = append(all[kind], x)
		}
	}
	for kind, some := range all {
		kinds[decimal(kind)] = inOrderOnce(some)
	}
	return kinds, true
}
