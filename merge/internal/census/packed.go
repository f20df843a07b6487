package census

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// packer looks for keys in parts of what columns hold: in some bits of a number, in two numbers that are the
// halves of one, and among the digits of texts. It looks at samples, and only ever finds what is possible.
type packer struct {
	c      *Census
	parts  map[part]*evidence
	kinds  []map[string]map[int64][]int // by server and column, the rows of each value in a table that is held
	looked []map[string]int             // by server and column, at how many texts
}

// part is a place in the rows of a table where keys may be.
type part struct {
	column string
	as     string // bits 24-47, path $.a or list ,
	high   string // the column with the higher half
	when   string
	member string // what a key there is called
}

// evidence is what was found there, by server.
type evidence struct {
	values []map[int64]bool
	sorted [][]int64 // the values in their order, once all are known
	most   []int64   // the greatest number that stands there in rows of any kind
	ends   bool      // on some server, no numbers of the column go on behind those beyond a round number
}

// MaxChars is how many characters of a text are looked at.
const MaxChars = 4000

const (
	packedSample = 4000 // how many rows of a column are looked at
	packedBytes  = 4e6  // how many bytes of its texts
	packedKinds  = 8    // how many kinds of numbers or texts a column may have
	packedRuns   = 3    // how many numbers a text may have that is of any other kind
	half         = 1 << 16
	leastBase    = 100 // to which keys may be added
)

// first returns SQL for the rows that are looked at: always the same ones, so that they say the same again.
func first(d *sqldb.DB, t *sqldb.Table) string {
	text := " LIMIT " + strconv.Itoa(packedSample)
	if len(t.Primary) > 0 {
		text = " ORDER BY " + d.Kind.QuoteAll(t.Primary) + text
	}
	return text
}

// newest returns SQL for the last rows, in which a new version of a game may keep more than in the first.
func newest(d *sqldb.DB, t *sqldb.Table) string {
	if len(t.Primary) == 0 {
		return " LIMIT 0"
	}
	return " ORDER BY " + strings.Join(d.Kind.QuoteEach(t.Primary), " DESC, ") + " DESC LIMIT " +
		strconv.Itoa(packedSample/4)
}

// packings returns the bits in which keys stand that share a number with others.
func packings() [][2]int {
	return [][2]int{{8, 62}, {16, 62}, {24, 62}, {32, 62}, {0, 23}, {0, 31}, {24, 47}}
}

// find returns what the columns of a table may refer to. Numbers are looked at if open says so.
func (p *packer) find(table string, open func(column string) bool) []Finding {
	p.parts, p.kinds = map[part]*evidence{}, make([]map[string]map[int64][]int, len(p.c.servers))
	p.looked = make([]map[string]int, len(p.c.servers))
	for i, d := range p.c.servers {
		p.kinds[i], p.looked[i] = map[string]map[int64][]int{}, map[string]int{}
		t := d.Tables[table]
		if t == nil {
			continue
		}
		var before *sqldb.Column
		for _, col := range t.Columns {
			spans := p.c.spans[Column{table, col.Name}]
			if usable(col) && spans != nil && spans[i].min < 0 {
				p.negative(i, Column{table, col.Name})
			}
			switch {
			case col.Family == sqldb.FamilyText || col.Family == sqldb.FamilyJSON || fractional(col) ||
				col.Family == sqldb.FamilyOther && d.Kind != sqldb.MySQL, // arrays, ltree, columns without a type
				col.Family == sqldb.FamilyBytes:
				p.texts(i, t, col)
			case usable(col) && !col.Counts() && spans != nil && open(col.Name):
				s := spans[i] // a counter may begin at a round number
				if s.max >= leastBase || s.min < 0 {
					p.numbers(i, Column{table, col.Name})
				}
				if s.max < half && s.min >= 0 && before != nil && s.max > 0 &&
					p.c.spans[Column{table, before.Name}][i].max >= half/16 {
					p.halves(i, t, before.Name, col.Name)
				}
				if before = nil; s.max < half && s.min >= 0 {
					before = col
				}
			default:
				before = nil
			}
		}
	}
	return p.judge(table)
}

// add notes a number that stands at a part.
func (p *packer) add(where part, server int, n, most int64) {
	e := p.parts[where]
	if e == nil {
		e = &evidence{values: make([]map[int64]bool, len(p.c.servers)), most: make([]int64, len(p.c.servers))}
		p.parts[where] = e
	}
	if e.values[server] == nil {
		e.values[server] = map[int64]bool{}
	}
	if e.most[server] = max(e.most[server], most); n > 0 {
		e.values[server][n] = true
	}
}

// negative looks at negative numbers: those of players may be positive, and those of guilds negative.
func (p *packer) negative(server int, col Column) {
	texts := p.c.some(server, col, p.c.servers[server].Kind.Quote(col.Name)+" < 0",
		func(x int64) bool { return x < 0 })
	for _, text := range texts {
		n, _ := numberIn(strings.TrimPrefix(text, "-"))
		p.add(part{column: col.Name, as: "number below 0", member: col.Name}, server, n, 0)
	}
}

// numbers looks at the bits of large numbers. The highest of them may tell which kind of number it is.
func (p *packer) numbers(server int, col Column) {
	name := p.c.servers[server].Kind.Quote(col.Name)
	texts := p.c.some(server, col, fmt.Sprintf("(%s >= %d OR %[1]s < 0)", name, leastBase),
		func(x int64) bool { return x >= leastBase || x < 0 })
	bare := p.c.bare(col)
	parts := sqldb.Mapped(packings(), func(bits [2]int) part {
		return part{column: col.Name, as: fmt.Sprintf("bits %d-%d", bits[0], bits[1]), member: col.Name}
	})
	rests, whole, all := map[uint64][]int64{}, true, []uint64(nil)
	for _, text := range texts {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil { // it is negative, or 0 for what is no whole number
			signed, _ := numberIn(text)
			n = uint64(signed)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	large := len(all) > 0 && all[len(all)-1] >= half // so that small ones are of another kind
	two := composed(all)
	for _, n := range all {
		for i, bits := range packings() {
			if n < half && (bits[0] != 8 || large) || bits[1] < 48 && n>>(bits[1]+1) == 0 ||
				bits[1] == 62 && n>>63 > 0 {
				continue
			}
			where := parts[i]
			mask := int64(1)<<(bits[1]-bits[0]+1) - 1
			v, most := int64(n>>bits[0])&mask, int64(0)
			if bits[1] < 62 || bits[0] == 32 && two { // any other number has any bits there
				most = mask
			}
			if n>>48 > 0 && bits[1] < 48 {
				where.when = fmt.Sprintf("(%s >> 48) & 65535 = %d", bare, n>>48)
			}
			p.add(where, server, v, most)
		}
		base, rest := beyond(n)
		rests[base], whole = append(rests[base], rest), whole && rest > 0
	}
	for base, some := range rests {
		most := int64(0)
		if whole && len(rests) == 1 && base >= half { // so large a number shared by all is no chance
			most = int64(min(base, math.MaxInt64))
		}
		where := part{column: col.Name, as: fmt.Sprint(isBeyond, base), member: col.Name}
		for _, rest := range some {
			p.add(where, server, rest, most)
		}
		last := slices.Max(some)
		next, _ := slices.BinarySearch(all, base+uint64(last)+1)
		// The next number goes on with those here if it is no further away than some times their mean distance.
		const times = 8
		if next == len(all) ||
			float64(all[next]-base-uint64(last)) > times*float64(last)/float64(len(some)) {
			p.parts[where].ends = true
		}
	}
}

// composed reports whether numbers are made of two, such as a key and a place in one, of 32 bits each. Any
// other numbers that need more bits have great ones in the lower half, or nothing.
func composed(all []uint64) bool {
	least, most := uint64(math.MaxUint32), uint64(0)
	for _, n := range all {
		if n > math.MaxUint32 {
			least, most = min(least, n&math.MaxUint32), max(most, n&math.MaxUint32)
		}
	}
	return least < most && most < half
}

// isBeyond is how the part of a number is called that a key was added to.
const isBeyond = "number beyond "

// beyond splits a number into its first digit, with zeros behind it, and a rest that is less by two digits
// or more, as where a game has a channel of talks for each player at 500000000 and his key, or by one digit
// if it is a small number, as where there is one for each guild at 100 and its key. Otherwise there is no
// rest.
func beyond(n uint64) (base uint64, rest int64) {
	power := uint64(1)
	for n/power >= 10 {
		power *= 10
	}
	if rest := n % power; rest < power/10 || n < half {
		return n - rest, int64(rest)
	}
	return 0, 0
}

// halves looks at two small numbers beside each other, in the rows of each value that another column has.
func (p *packer) halves(server int, t *sqldb.Table, low, high string) {
	d, names := p.c.servers[server], []string{low, high}
	for _, c := range t.Columns {
		if c.Family == sqldb.FamilyInt && c.Name != low && c.Name != high && !identifies(t, c.Name) {
			names = append(names, c.Name)
		}
	}
	rows, kinds := p.c.hold(server, t.Name), p.kinds[server]
	many := rows[low].len() > packedSample
	if !rows.has(names) || many && !rows.has(t.Primary) {
		q := d.SQL("SELECT ", d.Kind.QuoteAll(names), " FROM ", d.Kind.Quote(t.Name), " WHERE ",
			d.Kind.Quote(low), " > 0 OR ", d.Kind.Quote(high), " > 0", first(d, t))
		rows = holdings{}
		for _, row := range p.c.Rows(d, q) {
			rows.add(names, row)
		}
		kinds = map[string]map[int64][]int{}
	}
	// A row that has none, or is not looked at, has 0.
	numbers := make([]int64, min(rows[low].len(), rows[high].len()))
	looked := 0
	for _, row := range rows.order(t.Primary, len(numbers)) {
		if a, b := rows[low].number(row), rows[high].number(row); (a > 0 || b > 0) && looked < packedSample {
			numbers[row] = max(a, 0) + max(b, 0)*half
			looked++
		}
	}
	where := part{column: low, high: high, as: "bits 0-15", member: low}
	all := slices.DeleteFunc(slices.Clone(numbers), func(n int64) bool { return n == 0 })
	if len(all) < minValues {
		return
	}
	p.addAll(where, server, all, 0)
	most := slices.Max(all)
	for _, name := range names[2:] {
		if kinds[name] == nil {
			kinds[name] = rows.byValue(name)
		}
		for kind, alike := range kinds[name] {
			some := make([]int64, 0, len(alike))
			for _, row := range alike {
				if numbers[row] != 0 {
					some = append(some, numbers[row])
				}
			}
			if len(some) >= minValues {
				where.when = p.c.bare(Column{t.Name, name}) + " = " + decimal(kind)
				p.addAll(where, server, some, most)
			}
		}
	}
}

// addAll notes numbers that may all be keys of one table, as far as a look at their range tells.
func (p *packer) addAll(where part, server int, numbers []int64, most int64) {
	near := func(key Column) bool { return p.c.spans[key][server].hasMost(numbers) }
	if !slices.ContainsFunc(p.c.keys, near) {
		return
	}
	for _, n := range numbers {
		p.add(where, server, n, most)
	}
}

var (
	digits  = regexp.MustCompile(`[0-9]+`)
	letters = regexp.MustCompile(`\pL[\pL\pN_]*`)
	// inWord finds digits, written as #, that belong to a word, as in house_#, Guild # and #-epic, but not in
	// ?id=#.
	inWord = regexp.MustCompile(`\pL[ _-]?#|#[_-]?\pL`)
)

// wholeText is how a text is called that is one number, and so the key itself.
const wholeText = ""

// texts looks at the digits of documents, of lists, and of texts that are the same but for the digits, also
// if a game keeps them as bytes, of which a few may be no text.
func (p *packer) texts(server int, t *sqldb.Table, col *sqldb.Column) {
	d := p.c.servers[server]
	name := d.Kind.Quote(col.Name)
	all, seen, whole, others, length := []string(nil), map[string]bool{}, true, 0, 0
	value := d.Kind.AsText(name)
	if col.Family == sqldb.FamilyBytes {
		value = name
	}
	look := func(values []any) bool {
		text := sqldb.Text(values[0])
		p.looked[server][col.Name]++
		switch {
		case fractional(col):
			text, whole = wholeNumber(text)
		case col.Family == sqldb.FamilyBytes && !legible(text):
			others++
			return others < 20 || others*10 < len(all)
		}
		if !seen[text] { // another one says nothing new
			seen[text], all, length = true, append(all, text), length+len(text)
		}
		return whole && length < packedBytes
	}
	read := func(rows string) {
		p.c.EachSteady(d, d.SQL("SELECT SUBSTR(", value, ", 1, ", strconv.Itoa(MaxChars), ") FROM ",
			d.Kind.Quote(t.Name), " WHERE ", name, " IS NOT NULL", rows), look)
	}
	if read(first(d, t)); whole && p.looked[server][col.Name] >= packedSample {
		length = 0
		read(newest(d, t))
	}
	if !whole || others*10 > len(all) {
		return
	}
	kinds := map[string]bool{}
	for _, text := range all {
		if strings.ContainsAny(text, "0123456789") && !p.document(server, col, text) {
			p.runs(server, col, text, kinds)
		}
	}
}

// legible reports whether bytes are a text, of whose last letter some may be cut off.
func legible(text string) bool {
	if len(text) == MaxChars {
		last := len(text) - 1
		for last > 0 && !utf8.RuneStart(text[last]) {
			last--
		}
		if !utf8.FullRuneInString(text[last:]) {
			text = text[:last]
		}
	}
	control := func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, control)
}

// wholeNumber cuts the fraction off, and reports whether it is 0.
func wholeNumber(text string) (whole string, is bool) {
	whole, rest, _ := strings.Cut(text, ".")
	if strings.ContainsAny(whole, "-e") { // it is no key
		whole = ""
	}
	return whole, strings.Trim(rest, "0") == ""
}

// document adds the numbers of a document, and reports whether the text is one that has values.
func (p *packer) document(server int, col *sqldb.Column, text string) bool {
	text = strings.TrimSpace(text)
	as := "path "
	switch serialized := php.MatchString(text); {
	case serialized:
		as = "number at " // no path of a plan leads there
	case col.Family != sqldb.FamilyJSON && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "["):
		return false
	}
	values := Values(text, col.Name)
	for _, v := range values {
		if n, err := strconv.ParseInt(fmt.Sprint(v.Value), 10, 64); err == nil { // a text may be a number
			where := part{column: col.Name, as: as + v.Path, member: v.Member}
			_, one := ofPlace(v.Path)
			if one || strings.HasPrefix(v.Path, namesOf) || strings.Contains(v.Path, ".*") {
				where.as = "number at " + v.Path
			}
			p.add(where, server, n, 0)
		}
	}
	return len(values) > 0
}

// runs adds the digits of another text. Its kind is what it is without them.
func (p *packer) runs(server int, col *sqldb.Column, text string, kinds map[string]bool) {
	word := strings.ContainsFunc(text, unicode.IsLetter) &&
		!strings.ContainsAny(strings.TrimSpace(text), " \t\n")
	array := strings.HasSuffix(col.Declared, "[]")
	if array {
		text = strings.Trim(text, "{}")
	}
	kind, runs := splitDigits(text)
	if len(runs) == 0 || len(runs) > 1000 {
		return
	}
	if !strings.ContainsFunc(text, unicode.IsLetter) {
		kind = strings.Join(slices.Compact(strings.Split(strings.ReplaceAll(kind, "#", ""), "")), "")
	}
	kinds[kind] = true
	if len(kinds) > packedKinds && (!word || len(runs) > packedRuns) {
		return // it is free text, among which documents may stand, and words such as house_7
	}
	words, last := letters.FindAllStringIndex(text, -1), -1
	for i, run := range runs {
		for last+1 < len(words) && words[last+1][0] < run[0] {
			last++
		}
		n, err := strconv.ParseInt(text[run[0]:run[1]], 10, 64)
		if err != nil {
			continue
		}
		where := part{column: col.Name, as: wholeText, member: col.Name}
		switch {
		case last >= 0:
			where.as = fmt.Sprintf("number %d of %s", i+1, kind)
			where.member = text[words[last][0]:min(words[last][1], run[0])]
		case len(kind) > 1:
			where.as = fmt.Sprintf("number %d of %s", i+1, kind)
		case array:
			where.as = "list array"
		case kind != "":
			where.as = "list " + kind
		}
		p.add(where, server, n, 0)
		if len(kind) == 1 && len(runs) == 2 && !array { // a pair may be a key and another number
			where.as = fmt.Sprintf("number %d of #%s#", i+1, kind)
			p.add(where, server, n, 0)
		}
	}
}

// splitDigits returns a text with # in the place of each run of digits, and where these are. With regular
// expressions, a census would spend a third of its time here.
func splitDigits(text string) (kind string, runs [][2]int) {
	var rest strings.Builder
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		if i > from {
			runs = append(runs, [2]int{from, i})
			rest.WriteByte('#')
		}
		if i < len(text) {
			rest.WriteByte(text[i])
		}
	}
	return rest.String(), runs
}

// fractional reports whether a column has room for fractions. Games that know no other numbers have keys
// there.
func fractional(c *sqldb.Column) bool {
	return c.Family == sqldb.FamilyFloat || c.Family == sqldb.FamilyDecimal && !usable(c)
}

// namesOf stands before the path to an object, or an array of PHP, for the names of its members.
const namesOf = "names of "

// Value is a value in a document: the path to it, and the name of its member. Members whose names are numbers
// share a path, and these names are values as well, for they may be keys.
type Value struct {
	Path, Member string
	Value        any // a string, json.Number, bool or nil
}

// Values returns the values in a text that is a document, or the beginning of one. Of any other text there
// are none.
func Values(text, member string) (all []Value) {
	if php.MatchString(text) {
		u := &unserializer{text: text}
		u.walk("$", member)
		return u.all
	}
	reads := json.NewDecoder(strings.NewReader(text))
	reads.UseNumber()
	err := walk(reads, "$", member, &all)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return all
	}
	return nil
}

// walk adds the values in the next part of a document to others.
func walk(reads *json.Decoder, path, member string, all *[]Value) error {
	token, err := reads.Token()
	if _, nested := token.(json.Delim); err != nil || !nested {
		if err == nil {
			*all = append(*all, Value{path, member, token})
		}
		return err
	}
	for place := 0; reads.More(); place++ {
		inner, name, before := path+"[*]", member, len(*all)
		if token == json.Delim('{') {
			key, err := reads.Token()
			if err != nil {
				return err
			}
			name = fmt.Sprint(key)
			inner = path + "." + name
			if name != "" && digits.FindString(name) == name {
				*all = append(*all, Value{namesOf + path, member, name})
				name, inner = member, path+".*"
			}
		}
		if err := walk(reads, inner, name, all); err != nil {
			return err
		}
		// A list in a list may have a key at one place, and how many there are at the next.
		if one := (*all)[before:]; len(one) == 1 && strings.HasSuffix(inner, "[*][*]") && place < 4 {
			if _, is := one[0].Value.(json.Number); is {
				*all = append(*all, Value{atPlace(inner, place), member, one[0].Value})
			}
		}
	}
	_, err = reads.Token()
	return err
}

// atPlace is the path to one place of lists in a list.
func atPlace(inner string, place int) string {
	return fmt.Sprintf("%s[%d]", strings.TrimSuffix(inner, "[*]"), place)
}

// ofPlace returns the path to all places of lists in a list, if a path leads to one of them.
func ofPlace(path string) (inner string, is bool) {
	inner = path[:strings.LastIndex(path, "[")+1] + "*]"
	return inner, strings.HasSuffix(path, "]") && inner != path
}

// joinLists counts texts that are one number among the lists of their column: a list may have one member. It
// returns where these texts stand.
func (p *packer) joinLists() map[part]bool {
	joined := map[part]bool{}
	for where, list := range p.parts {
		one := part{column: where.column, as: wholeText, member: where.column}
		if !strings.HasPrefix(where.as, "list ") || p.parts[one] == nil {
			continue
		}
		joined[one] = true
		for server, values := range p.parts[one].values {
			for n := range values {
				p.add(where, server, n, list.most[server])
			}
		}
	}
	return joined
}

// choice is a part of a column of which one is chosen for each table. The paths of a document are parts of
// their own, which do not overlap.
type choice struct{ column, path, high, parent string }

// chosen is the best part of a choice.
type chosen struct {
	match
	where part
}

// judge returns, for each column and each table, the part in which keys of the table are most likely.
func (p *packer) judge(table string) (found []Finding) {
	best, near := p.choose(table)
	for _, c := range inOrder(best) {
		if p.outdone(table, c, best) {
			continue
		}
		where := best[c].where
		how := cmp.Or(where.as, "whole texts")
		if where.when != "" {
			how += " in rows with " + where.when
		}
		found = append(found, Finding{Column: Column{table, where.column}, Verdict: Possible, Parent: best[c].key,
			As: where.as, With: where.high, When: where.when,
			Evidence: how + ", by a sample: " + best[c].evidence(false, nil)})
	}
	return append(found, slices.DeleteFunc(near, func(f Finding) bool {
		return len(f.Hits) == 0 ||
			slices.ContainsFunc(found, func(asked Finding) bool { return asked.Column == f.Column })
	})...)
}

// choose compares the parts of a table with all keys. The findings that are near are texts of which most are
// keys, so that new keys do not meet the other ones.
func (p *packer) choose(table string) (best map[choice]chosen, near []Finding) {
	joined := p.joinLists()
	best = map[choice]chosen{}
	for _, e := range p.parts {
		for _, values := range e.values {
			e.sorted = append(e.sorted, slices.Sorted(maps.Keys(values)))
		}
	}
	for _, where := range inOrder(p.parts) {
		// Other separators are those of dates, times and addresses as well.
		separator, list := strings.CutPrefix(where.as, "list ")
		if list = list && (separator == "array" || strings.ContainsAny(separator, ",;| ")); list {
			near = append(near, p.near(Column{table, where.column}, where))
		}
		if count := 0; !slices.ContainsFunc(p.parts[where].sorted, func(v []int64) bool {
			count += len(v)
			return count >= fewValues
		}) {
			continue
		}
		inText := !slices.ContainsFunc([]string{"bits ", isBeyond, "number below "},
			func(number string) bool { return strings.HasPrefix(where.as, number) })
		for _, key := range p.c.keys {
			if len(p.c.above[key]) > 0 {
				continue // whoever refers to it refers to the table that it is taken from
			}
			m := p.compare(Column{table, where.member}, where, key)
			values, hits := m.counts()
			if where.as == wholeText && hits > 0 && 2*hits >= values {
				near = append(near, Finding{Column: Column{table, where.column}, As: where.as,
					Hits: map[Column]string{key: "a sample"}})
			}
			c := choice{where.column, "", where.high, key.Table}
			if strings.HasPrefix(where.as, "path ") {
				c.path = where.as
			}
			if base, isSum := strings.CutPrefix(where.as, isBeyond); isSum &&
				(!p.parts[where].ends || len(base) < 5 && !m.follows()) {
				continue // many numbers lie between 100 and 200
			}
			other, ok := best[c]
			better := !ok || cmp.Or(before(m.full(), other.full()), before(m.follows(), other.follows()),
				cmp.Compare(other.packedScore(), m.packedScore())) < 0
			likely := m.packed() || list && m.endsAlike && m.goesAsFar() || inText && m.survives()
			if likely && !joined[where] && better {
				best[c] = chosen{m, where}
			}
		}
	}
	for c, found := range best {
		path, _ := strings.CutPrefix(found.where.as, "number at ")
		inner, one := ofPlace(path)
		if all := (choice{c.column, "path " + inner, "", c.parent}); one && len(best[all].servers) > 0 {
			delete(best, c)
		}
	}
	return best, near
}

// outdone reports whether another choice of the same column is the likelier one.
func (p *packer) outdone(table string, c choice, best map[choice]chosen) bool {
	// As for whole columns, what players make comes before what is installed with the game.
	installed := func(some choice) bool { return p.c.installed[some.parent] && !p.c.installed[table] }
	m := best[c]
	for o, other := range best {
		switch {
		case o == c || o.column != c.column || o.path != c.path:
		case p.disjoint(m.where, other.where):
		case installed(o) != installed(c):
			if installed(c) {
				return true
			}
		case other.full() && !m.full() && !m.follows() && other.packedScore() >= m.packedScore(),
			other.packedScore() > m.packedScore()+margin:
			return true
		}
	}
	return false
}

// disjoint reports whether two parts of a column do not overlap: numbers beyond different ones, or the
// halves of a number that is made of two.
func (p *packer) disjoint(a, b part) bool {
	upper := func(w part) bool { return w.as == "bits 32-62" && slices.Max(p.parts[w].most) > 0 }
	lower := func(w part) bool { return strings.HasPrefix(w.as, "bits 0-") }
	beyond := func(w part) bool { return strings.HasPrefix(w.as, isBeyond) }
	return upper(a) && lower(b) || lower(a) && upper(b) || beyond(a) && beyond(b) && a.as != b.as
}

// inOrder returns the keys of a map in the order of what they say.
func inOrder[K comparable, V any](m map[K]V) []K {
	texts := map[K]string{}
	for key := range m {
		texts[key] = fmt.Sprint(key)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return strings.Compare(texts[a], texts[b]) })
}

// near returns the keys that at least half of the members of lists are, however few these are.
func (p *packer) near(col Column, where part) Finding {
	f := Finding{Column: col, As: where.as, Hits: map[Column]string{}}
	for _, key := range p.c.keys {
		var all, near, hits int64
		for i, values := range p.parts[where].sorted {
			all, near = all+int64(len(values)), near+p.c.spans[key][i].count(values)
		}
		for i, d := range p.c.servers {
			if near > 0 && 2*near >= all { // the range has said it, which costs nothing
				hits += p.c.keysAmong(d, key, p.parts[where].sorted[i])
			}
		}
		if hits > 0 && 2*hits >= all {
			f.Hits[key] = "a sample"
		}
	}
	return f
}

// compare compares what stands at a part with the keys of a table. The match has no servers if it is none.
func (p *packer) compare(called Column, where part, key Column) match {
	e := p.parts[where]
	least := int64(5) // of ten values; rows that they lead to may be deleted
	if strings.HasSuffix(where.as, "-62") {
		least = 7
	}
	for i, values := range e.sorted { // the range first, since that costs nothing
		if p.c.spans[key][i].count(values)*10 < int64(len(values))*least {
			return match{}
		}
	}
	named, ends := p.c.named(called, key)
	parents := p.c.parents[where.member]
	if len(parents) == 1 && parents[0] == key && strings.Contains(where.as, where.member+"=#") { // as in a link
		named = 3
	}
	m := match{key: key, named: named, ends: ends, begins: p.c.begins(key),
		endsAlike: (least == 5 || where.as == "bits 32-62") && !p.c.installed[key.Table]}
	_, kind, _ := strings.Cut(where.as, " of ")
	word := inWord.MatchString(kind) && named < 2
	again := true
	for i, values := range e.sorted {
		again = again && p.looked[i][where.column] >= 2*len(values)
	}
	if word && !strings.HasPrefix(where.as, "number 1 of #") && p.titles(key.Table)[kind] {
		return match{} // it is a name, as Guest12 of the guest with the key 12
	}
	for i, values := range e.sorted {
		keys := p.c.spans[key][i]
		if len(values) == 0 {
			continue
		}
		if float64(values[len(values)-1]) < 0.3*float64(keys.max) && named < 2 {
			return match{}
		}
		a := p.c.among(key, i, values)
		if e.most[i] > keys.max {
			a.density = float64(keys.distinct) / float64(e.most[i])
			a.chance = float64(a.values) * math.Log10(a.density)
		}
		if m.servers = append(m.servers, a); a.hits*10 < a.values*least {
			return match{}
		}
	}
	large := func(values []int64) bool { return len(values) > 0 && values[len(values)-1] >= half>>8 }
	small := where.as == "bits 8-62" && !slices.ContainsFunc(e.sorted, large) // as many prices are
	proven := m.full() && -m.chance() >= minChance || !m.full() && m.excess() >= 6 || again && m.follows()
	if word && !proven || small && (!m.follows() || -m.chance() < 3) {
		return match{}
	}
	return m
}

// titles returns the kinds of texts that the first rows of a table have.
func (p *packer) titles(table string) map[string]bool {
	if all := p.c.titles[table]; all != nil {
		return all
	}
	all := map[string]bool{}
	p.c.titles[table] = all
	for _, d := range p.c.servers {
		t := d.Tables[table]
		if t == nil {
			continue
		}
		for _, col := range t.Columns {
			if col.Family != sqldb.FamilyText {
				continue
			}
			name := d.Kind.Quote(col.Name)
			for _, row := range p.c.Rows(d, d.SQL("SELECT SUBSTR(", d.Kind.AsText(name), ", 1, 100) FROM ",
				d.Kind.Quote(table), " WHERE ", name, " IS NOT NULL LIMIT 100")) {
				kind, _ := splitDigits(row[0])
				all[kind] = true
			}
		}
	}
	return all
}

// packedScore is the score of a part of a column. That its values end where the keys do says more on each
// further server, because other numbers have no reason to.
func (m match) packedScore() float64 {
	score := m.score()
	for _, a := range m.servers {
		if a.reach >= 0.95 {
			score += 1.3
		}
	}
	return score
}

// fewValues is how many different values are enough where they can hardly be keys by chance.
const fewValues = 5

// goesAsFar reports whether half of the members of lists are keys, and the members end where the keys do on
// each server, where those of some may be deleted. Other lists of numbers have no reason to.
func (m match) goesAsFar() bool {
	enough := false
	for _, a := range m.servers {
		if a.values < fewValues {
			continue
		}
		if a.reach < min(0.95, 1-3/float64(a.values)) || a.reach > 1.05 {
			return false
		}
		enough = enough || a.values >= minValues
	}
	return enough
}

// survives reports whether at least half of the values are keys on each server, many more than by chance, and
// end where the keys do: the rows to which the others led were deleted.
func (m match) survives() bool {
	lost := func(a against) bool { return a.hits*2 < a.values }
	return m.follows() && m.excess() >= 6 && !slices.ContainsFunc(m.servers, lost)
}

// packed reports whether keys are likely enough to ask somebody.
func (m match) packed() bool {
	values, hits := m.counts()
	switch {
	case m.begins && (m.endsAlike && m.apart(fewValues) || m.full() && -m.confined() >= minChance):
		return true
	case values < minValues:
		return values >= fewValues && m.full() && (m.packedScore() >= 12 || m.named >= 2 && m.packedScore() >= 6)
	case m.full():
		return m.packedScore() >= 4 || m.dense()
	}
	return m.packedScore() >= 10 && m.excess() >= 6 && hits*10 >= values*9 || m.dense()
}
