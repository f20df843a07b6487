package census

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// span is what one server has in a column. Zero is no value: it means none.
type span struct {
	distinct int64
	atMost   bool // there may be fewer different values, which nobody has to know
	zero     bool // some rows have 0
	none     bool // some rows have -1 or -2, which mean that there is none, and are no values
	mixed    bool // some rows have a text or a fraction, as SQLite allows, which are no values either
	min, max int64
}

// some returns the condition that a column with this span has a value.
func (s span) some(name string) string {
	some := " <> 0"
	if s.none {
		some = " > 0"
	}
	if s.mixed {
		return isInteger(name) + " AND " + name + some
	}
	return name + some
}

// isInteger returns the condition of SQLite that a value is an integer.
func isInteger(name string) string { return "typeof(" + name + ") = 'integer'" }

// means reports whether a number meets the condition of some.
func (s span) means(x int64) bool { return x > 0 || x < 0 && x != null && !s.none }

// covers returns the condition that a number lies in the span. A bound value would get the type of the
// column, which may be too narrow for it.
func (s span) covers(number string) string {
	return fmt.Sprintf("%s BETWEEN %d AND %d", number, s.min, s.max)
}

// spanOf reads a span: how many values there are, the least one and the greatest. A column of SQLite may hold
// texts, and such a one has no span.
func spanOf(distinct, least, greatest string) (s span) {
	low, ok := numberIn(least)
	high, ok2 := numberIn(greatest)
	if ok && ok2 {
		s.distinct, _ = numberIn(distinct)
		s.min, s.max = low, high
	}
	return s
}

// numberIn reads a number. One that is beyond any key is the greatest number.
func numberIn(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	_, large := strconv.ParseUint(text, 10, 64)
	return n, err == nil || large == nil
}

// count counts those of some numbers, which are in their order, that lie in the span.
func (s span) count(sorted []int64) int64 {
	from, _ := slices.BinarySearch(sorted, s.min)
	to := len(sorted)
	if s.max < math.MaxInt64 {
		to, _ = slices.BinarySearch(sorted, s.max+1)
	}
	return int64(max(0, to-from))
}

// hasMost reports whether at least nine of ten numbers lie in the span.
func (s span) hasMost(numbers []int64) bool {
	outside := 0
	for _, n := range numbers {
		if !s.holds(n) {
			outside++
		}
		if outside*10 > len(numbers) { // most parts of a column are seen not to be keys after a few numbers
			return false
		}
	}
	return true
}

// holds reports whether a number lies in the span.
func (s span) holds(n int64) bool { return s.min <= n && n <= s.max }

// sampled is about how many different values of a column are compared with the keys of all tables. With most
// tables that is enough to tell that the column does not hold their keys.
const sampled = 500

// prime and factor tell which values are in a sample. See [span.sample].
const prime, factor = 65521, 25717

// sample returns the condition that a value is one of about so many of a column, or "" if it has few. Every
// database computes it alike, and so does samples. It does not depend on the order or the spaces of values.
func (s span) sample(name string) string {
	if s.distinct <= 2*sampled {
		return ""
	}
	return fmt.Sprintf("ABS(%s %% %d) * %d %% %d < %d", name, prime, factor, prime, s.rate())
}

// rate is how many of each prime of numbers are in a sample.
func (s span) rate() int64 { return max(1, int64(prime*float64(sampled)/float64(s.distinct))) }

// samples reports whether a value meets the condition of sample.
func (s span) samples(x int64) bool {
	return s.distinct <= 2*sampled || max(x%prime, -(x%prime))*factor%prime < s.rate()
}

// whole reports whether every number of the span is a value.
func (s span) whole() bool {
	return !s.atMost && !s.none && s.max-s.min >= 0 && s.max-s.min == s.distinct-1
}

// inside reports whether all values of the span lie in the range of other ones.
func (s span) inside(other span) bool { return other.min <= s.min && s.max <= other.max }

// around is the span with as many numbers on each side, as far as there are such numbers. A column without a
// sign is compared with no negative one.
func (s span) around() span {
	if s.min < 0 {
		return s
	}
	more := s.max - s.min + 1
	return span{min: max(s.min-more, 0), max: max(s.max, s.max+more)}
}

// end returns the last tenth of a span, and as many numbers behind it.
func (s span) end() (last, next span) {
	tenth := max(1, (s.max-s.min+1)/10)
	return span{min: s.max - tenth + 1, max: s.max}, span{min: min(s.max, math.MaxInt64-tenth) + 1,
		max: min(s.max, math.MaxInt64-tenth) + tenth}
}
