package census

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// match compares the values of a column with the keys of a table.
type match struct {
	key     Column
	named   int       // how much the name says, from 0 to 3
	ends    bool      // the name of the column ends like that of the key
	servers []against // those that have values in the column
	begins  bool      // the keys begin where no ordinary number lies
}

// against compares the values of a column with the keys of a table on one server.
type against struct {
	server       string
	values, hits int64   // different values
	within       int64   // those in the range of the keys
	density      float64 // of the keys in their range
	chance       float64
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

// possible reports whether somebody has to say what the column is. Rows that refer to what was deleted are no
// rare thing.
func (m match) possible() bool {
	values, hits := m.counts()
	switch {
	case m.full():
		return m.ends || m.score() >= 3
	case m.named >= 2:
		return hits*10 >= values*8 && m.excess() >= 3
	}
	return hits*10 >= values*9 && m.excess() >= 6
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

// match compares a column with the keys of all tables, server after server. What no server could make a
// reference any more is dropped.
func (c *Census) match(ctx context.Context, col Column) ([]match, error) {
	var all []match
	for _, key := range c.keys {
		if key != col {
			named, ends := c.named(col, key)
			all = append(all, match{key: key, named: named, ends: ends, begins: c.begins(key)})
		}
	}
	for i, d := range c.servers {
		s := c.spans[col][i]
		if s.distinct == 0 || len(all) == 0 {
			continue
		}
		q := sqldb.NewStatement(d.Kind, "SELECT COUNT(*)")
		for _, m := range all {
			if !c.overlaps(m.key, i, s) {
				q.Add(", 0, 0, 0")
				continue
			}
			name := d.Kind.Quote(m.key.Name)
			q.Add(", COUNT(CASE WHEN ", c.spans[m.key][i].covers("v.x"), " THEN 1 END), COUNT(CASE WHEN ",
				holds(d, m.key, "v.x"), " THEN 1 END), (SELECT COUNT(*) FROM ",
				d.Kind.Quote(m.key.Table), " WHERE ", s.covers(name), ")")
		}
		found, err := numbers(ctx, d, q.Add(" FROM ", values(d, col, "")))
		if err != nil {
			return nil, err
		}
		for n := range all {
			all[n].servers = append(all[n].servers,
				c.against(all[n].key, i, s, found[0], found[2+3*n], found[3+3*n]))
			all[n].servers[len(all[n].servers)-1].within = found[1+3*n]
		}
		all = slices.DeleteFunc(all, func(m match) bool {
			_, hits := m.counts()
			return !m.full() && (hits < minValues || m.excess() < 3)
		})
	}
	if len(all) > 0 && len(all[0].servers) == 0 {
		return nil, nil
	}
	return all, nil
}

// overlaps reports whether a server has keys in the range of some values.
func (c *Census) overlaps(key Column, server int, s span) bool {
	k := c.spans[key][server]
	return k.distinct > 0 && k.min <= s.max && s.min <= k.max
}

// against judges what a server has answered. The keys may lie in heaps, so the density near the values counts
// where it is greater.
func (c *Census) against(key Column, server int, s span, values, hits, near int64) against {
	k := c.spans[key][server]
	a := against{server: c.servers[server].Name, values: values, hits: hits}
	if k.distinct == 0 {
		return a
	}
	a.density = float64(k.distinct) / width(k.min, k.max)
	density := math.Max(a.density, float64(near)/width(s.min, s.max))
	a.chance = float64(values) * math.Log10(math.Min(density, 1))
	if hits == 0 {
		a.chance = 0
	}
	a.reach = float64(s.max) / float64(k.max)
	return a
}

// width is how many whole numbers a range has.
func width(least, greatest int64) float64 { return float64(greatest) - float64(least) + 1 }

// begins reports whether the keys of all servers begin above a thousand.
func (c *Census) begins(key Column) bool {
	return !slices.ContainsFunc(c.spans[key], func(s span) bool { return s.distinct > 0 && s.min <= 1000 })
}

// named says how much the name of a column speaks for a key: 3 if it names this key only, 2 if it names the
// table, 1 if it ends like the key or its table has a word of the name of the other one.
func (c *Census) named(col, key Column) (says int, ends bool) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	column, name, words := plain(col.Name), plain(key.Name), wordsOf(key.Table)
	only := !slices.ContainsFunc(c.keys, func(k Column) bool {
		return k != key && k != col && plain(k.Name) == name && !slices.Contains(c.above[k], key)
	})
	same := column == name
	joined := strings.Join(words, "")
	ends = len(name) > 2 && strings.HasSuffix(column, name)
	switch {
	case same && len(name) > 2 && only, column == plain(key.Table)+name, column == joined+name,
		column == words[len(words)-1]+name:
		return 3, true
	case len(words[0]) > 2 && strings.Contains(column, words[0]), same && wordsOf(col.Table)[0] == words[0]:
		return 2, ends
	case ends,
		same && slices.ContainsFunc(wordsOf(col.Table), func(w string) bool { return slices.Contains(words, w) }):
		return 1, ends
	}
	return 0, false
}

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
	if m.full() {
		parts = append(parts, fmt.Sprintf("by chance 10^%.0f", m.chance()))
	}
	if len(counter) > 0 {
		parts = append(parts, "not "+strings.Join(counter, ", "))
	}
	if zeros {
		parts = append(parts, "0 means none")
	}
	return strings.Join(parts, "; ")
}
