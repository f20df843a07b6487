package census

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// match compares the values of a column with the keys of a table.
type match struct {
	key     Column
	named   int       // how much the name says, from 0 to 3
	ends    bool      // the name of the column ends like that of the key
	servers []against // those that have values in the column
	begins  bool      // the keys begin where no ordinary number lies
	sampled bool      // only a sample of the values was compared
}

// against compares the values of a column with the keys of a table on one server.
type against struct {
	server       string
	values, hits int64   // different values
	within       int64   // those in the range of the keys
	density      float64 // of the keys in their range
	wide         float64 // density of the keys in the range of the values
	chance       float64
	greatest     float64 // key
	reach        float64 // the greatest value as a part of the greatest key
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

// follows reports whether the values go as far as the keys on every server, though these end elsewhere on
// each. No other number knows how far they go.
func (m match) follows() bool {
	differ := false
	for _, a := range m.servers {
		if a.reach < 0.95 || a.values < minValues {
			return false
		}
		differ = differ || math.Abs(a.greatest-m.servers[0].greatest) > 0.1*a.greatest
	}
	return differ
}

// possible reports whether somebody has to say what the column is. Rows that refer to what was deleted are no
// rare thing.
func (m match) possible() bool {
	values, hits := m.counts()
	switch {
	case m.sampled:
		return false
	case m.full():
		return m.ends || m.begins || m.score() >= 3
	case m.named == 3: // some of the rows that it refers to were deleted
		return hits*2 >= values
	case m.follows():
		return hits*4 >= values*3 && max(m.excess(), m.beyond()) >= 6
	case m.named >= 2:
		return hits*10 >= values*8 && max(m.excess(), m.beyond()) >= 3 || values < 5*minValues && hits*2 >= values
	}
	return hits*10 >= values*9 && max(m.excess(), m.beyond()) >= 6 || hits*2 >= values && m.excess() >= 6
}

// near reports whether so many values of a sample are keys that all of them have to be compared.
func (m match) near() bool {
	values, hits := m.counts()
	if m.named >= 2 {
		return hits*100 >= values*75
	}
	return hits*100 >= values*86
}

// excess says how many standard deviations more values are keys than by chance, of those in the range of
// keys.
func (m match) excess() float64 {
	more, variance := 0.0, 0.25 // so that a few values say little
	for _, a := range m.servers {
		n := float64(a.within)
		more += float64(a.hits) - n*a.density
		variance += n * a.density * (1 - a.density)
	}
	return more / math.Sqrt(variance)
}

// beyond is excess for values that go beyond the keys: of all values, those that are keys.
func (m match) beyond() float64 {
	more, variance := 0.0, 0.25
	for _, a := range m.servers {
		n, density := float64(a.values), math.Min(a.wide, 1)
		more += float64(a.hits) - n*density
		variance += n * density * (1 - density)
	}
	return more / math.Sqrt(variance)
}

// speaks reports whether the name of the column or the range of the keys speaks for a reference.
func (m match) speaks() bool { return m.named == 3 || m.begins }

// holds reports whether the values are keys more often than by chance, or whether most of them are and
// others lie beyond the keys, where new keys may not meet them.
func (m match) holds() bool {
	values, hits := m.counts()
	outside := slices.ContainsFunc(m.servers, func(a against) bool { return a.reach > 1 })
	return m.full() || hits >= minValues && m.excess() >= 3 || 2*hits >= values && (outside || m.named >= 2) ||
		10*hits >= values && m.speaks()
}

// width is how many whole numbers a range has.
func width(least, greatest int64) float64 { return float64(greatest) - float64(least) + 1 }

// wordsOf returns the words of the name of a table, in the singular.
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
	for _, end := range []string{"oes", "xes", "ses", "hes"} {
		if strings.HasSuffix(word, end) {
			return strings.TrimSuffix(word, "es")
		}
	}
	if len(word) > 3 {
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
