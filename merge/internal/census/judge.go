package census

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// judge makes the findings about a column.
func (c *Census) judge(col Column, matches []match) []Finding {
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(before(a.full(), b.full()), cmp.Compare(b.score(), a.score()),
			cmp.Compare(unsaid(a), unsaid(b)), before(c.isAbove(a.key, b.key), c.isAbove(b.key, a.key)))
	})
	if !slices.ContainsFunc(c.spans[col], func(s span) bool { return s.distinct > 0 }) {
		return []Finding{{Column: col, Verdict: None}}
	}
	named := c.byKind(col)
	partial, whole := matches, []match(nil)
	if len(named) == 0 && len(matches) > 0 && matches[0].full() {
		if all := c.judgeWhole(col, matches); len(all) > 0 {
			return all
		}
		// Keys of a longer table say nothing, and so others may, also only in rows of one kind.
		whole = slices.DeleteFunc(slices.Clone(matches), func(m match) bool { return !m.full() })
		partial = slices.DeleteFunc(slices.Clone(matches), match.full)
		matches = slices.DeleteFunc(slices.Clone(partial), func(m match) bool {
			return !m.tells() && m.excess() < 3 && !m.dense()
		})
	}
	conditions := c.conditions(col, partial, named)
	for _, m := range whole {
		if c.leadsAll(col, m, conditions) {
			f := c.finding(col, Possible, m, "")
			f.Evidence += "; rows of each kind go as far as these keys, of which others that they hold are some"
			return []Finding{f}
		}
	}
	all := c.judgeConditions(col, partial, conditions)
	for _, m := range matches {
		if len(all) == 0 && c.mostly(col, m) {
			all = append(all, c.doubted(col, m))
		}
	}
	if len(all) == 0 {
		all = append(all, Finding{Column: col, Verdict: Plain})
	}
	return all
}

// unsaid is how many words the name of a table has, if a column names one of them: the fewer are left unsaid,
// the likelier the table is meant. user_staff means a user rather than a badge of a user.
func unsaid(m match) int {
	if m.named != 2 {
		return 0
	}
	return len(wordsOf(m.key.Table))
}

// judgeWhole makes the findings about a column all of whose values are keys of the first table. There are
// none if the keys may be those of any longer table.
func (c *Census) judgeWhole(col Column, matches []match) (all []Finding) {
	best := matches[0]
	rival := len(matches) > 1 && matches[1].full() && best.score()-matches[1].score() < margin
	values, _ := best.counts()
	if best.certain() && !rival && (values >= minValues || -best.chance() >= 1 || !c.shared(col, best.key)) {
		return []Finding{c.finding(col, Reference, best, "")}
	}
	possible := slices.IndexFunc(matches, func(m match) bool { return m.full() && m.possible() })
	if possible < 0 {
		return c.judgeRows(col, matches)
	}
	best = matches[possible] // the name may speak for another one than the best
	named := slices.IndexFunc(matches, func(m match) bool { return m.possible() && isCalled(col, m.key) })
	if named >= 0 && !matches[named].full() && !isCalled(col, best.key) {
		// All of few values are keys of a longer table by chance, and some rows were deleted.
		return []Finding{c.doubted(col, matches[named])}
	}
	for _, part := range c.split(col, best) {
		f := c.finding(col, Possible, part.match, part.when)
		f.partly = true
		all = append(all, f)
	}
	if len(all) == 0 {
		all = append(all, c.finding(col, Possible, best, ""))
	}
	return all
}

// shared reports whether a column has the name of a key that no database counts and that is called like
// nothing in the name of its table, such as the slot of a picture: other things have one as well.
func (c *Census) shared(col, key Column) bool {
	return !c.counts(key) && strings.EqualFold(col.Name, key.Name) &&
		!slices.ContainsFunc(wordsOf(key.Table), func(word string) bool {
			return strings.Contains(strings.ToLower(key.Name), word)
		})
}

// judgeRows finds the first key for which the rows speak, where the values alone say nothing.
func (c *Census) judgeRows(col Column, matches []match) []Finding {
	for _, m := range matches {
		why := ""
		switch {
		case c.leadsBefore(col, m):
			why = "each leads to a row before its own"
		case c.repeatsKey(col, m):
			why = "each row has its own key there"
		case c.takesKeys(col, m):
			why = "no database counts these keys, and they go as far as those"
		case c.differ(col, m):
			why = "no two rows have the same"
		case c.repeats(col, m):
			why = "each key is there, and servers have different numbers of keys"
		default:
			continue
		}
		f := c.finding(col, Possible, m, "")
		f.Evidence += "; " + why
		return []Finding{f}
	}
	return nil
}

// judgeConditions makes the findings about a column whose rows refer under some conditions.
func (c *Census) judgeConditions(col Column, partial []match, conditions []conditional) (all []Finding) {
	for _, found := range conditions {
		verdict := Reference
		if !found.full() || found.guessed {
			verdict = Possible
		}
		if found.strays && len(conditions) == 1 {
			m := partial[slices.IndexFunc(partial, func(m match) bool { return m.key == found.key })]
			if found.meeting || c.mostly(col, m) {
				all = append(all, c.doubted(col, m))
				continue
			}
			verdict = Possible
		}
		f := c.finding(col, verdict, found.match, found.when)
		f.partly, f.inRange = true, found.by == col && found.guessed
		all = append(all, f)
		if len(found.near) > 0 {
			f = c.finding(col, Possible, found.rest, c.equals(found.by, found.near))
			f.partly = true
			all = append(all, f)
		}
	}
	return all
}

// finding tells of the keys of one table in a column, and when there are none.
func (c *Census) finding(col Column, v Verdict, m match, when string, counter ...string) Finding {
	key := false // 0 is one, and may mean none all the same
	for i, s := range c.spans[col] {
		key = key || s.zero && c.spans[m.key][i].zero
	}
	none, zero := c.noneOf(col)
	evidence := m.evidence(zero && !key, counter)
	if key {
		v, evidence = min(v, Possible), evidence+"; 0 is a key, too, or means none"
		none = map[bool]string{true: " >= 0"}[none == " > 0"]
	}
	if bare := c.bare(col); none != "" && !strings.Contains(when, bare+" >") {
		when = strings.TrimPrefix(when+" AND "+bare+none, " AND ")
	}
	if mixed := func(s span) bool { return s.mixed }; slices.ContainsFunc(c.spans[col], mixed) {
		when = strings.TrimSuffix(isInteger(c.bare(col))+" AND "+when, " AND ")
	}
	values, _ := m.counts()
	return Finding{Column: col, Verdict: v, Parent: m.key, When: when, Evidence: evidence, Values: values,
		Hits: hitsOf(nil, []match{m}), byEnd: m.byEnd()}
}

// doubted is a possible finding that names values which are no keys.
func (c *Census) doubted(col Column, m match) Finding {
	return c.finding(col, Possible, m, "", c.counterExamples(col, m.key)...)
}

// before orders what is so before what is not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// leadsAll reports whether all rows may refer to a table, such as the fields of a map, where the rows of some
// kinds refer to a child of it, such as the towns, whose keys are those of fields. It is so if the values of
// the other kinds go as far as the keys of the table: whoever founds a town goes to a field without one.
func (c *Census) leadsAll(col Column, m match, conditions []conditional) bool {
	if len(conditions) != 1 || !slices.Contains(c.taken[conditions[0].key], m.key) {
		return false
	}
	kinds := c.selections(col, conditions[0].by, []match{{key: m.key}}, false)
	var others match
	for kind, part := range kinds[0] {
		if !slices.Contains(conditions[0].kinds, kind) {
			others.add(part)
		}
	}
	return len(others.servers) > 0 && others.reaches()
}

// split returns the conditions by which a column refers to several tables, all of whose keys are small and
// dense: for each kind of rows the values go as far as the keys of one of them. The best match is that of all
// rows.
func (c *Census) split(col Column, best match) []conditional {
	if !best.follows() && !best.dense() {
		return nil
	}
	for _, by := range c.selectorsOf(col, fewKinds) {
		rivals := c.endAs(col, by, best)
		if len(rivals) < 2 {
			continue
		}
		found := c.selections(col, by, rivals[:min(len(rivals), maxJoined)], false)
		parts := map[string][]match{} // by kind, those whose keys the values go as far as
		for _, kinds := range found {
			for kind, part := range kinds {
				if part.full() && (part.follows() || part.dense()) {
					parts[kind] = append(parts[kind], part)
				}
			}
		}
		var all []conditional
		for _, kind := range slices.Sorted(maps.Keys(parts)) {
			if len(parts[kind]) > 1 {
				all = nil
				break
			}
			part := parts[kind][0]
			all, _ = c.addKind(all, by, part, kind)
		}
		if len(all) > 1 {
			return all
		}
	}
	return nil
}

// endAs returns a match and those of the tables whose keys end, on every server, where the values of some
// kind of rows do.
func (c *Census) endAs(col, by Column, best match) []match {
	ends := map[string][]int64{} // by kind and server
	for i, d := range c.filled(col) {
		if columnOf(d, by) == nil {
			continue
		}
		rows := c.Rows(d, d.SQL("SELECT ", d.Kind.Quote(by.Name), ", MAX(",
			d.Kind.Quote(col.Name), ") FROM ", d.Kind.Quote(col.Table), " GROUP BY ", d.Kind.Quote(by.Name)))
		for _, row := range rows {
			if ends[row[0]] == nil {
				ends[row[0]] = make([]int64, len(c.servers))
			}
			ends[row[0]][i], _ = numberIn(row[1])
		}
	}
	rivals := []match{best}
	for _, key := range c.keys {
		for _, end := range ends {
			far := key != col && key != best.key
			for i, s := range c.spans[key] {
				far = far && s.distinct >= minValues && end[i] <= s.max && float64(end[i]) >= 0.95*float64(s.max)
			}
			if far {
				rivals = append(rivals, match{key: key})
				break
			}
		}
	}
	return rivals
}

// repeatsKey reports whether a column has, in every row, the key of that row.
func (c *Census) repeatsKey(col Column, m match) bool {
	const few = 6
	if values, _ := m.counts(); m.key.Table != col.Table || m.sampled || !m.full() || values < few {
		return false
	}
	for _, d := range c.filled(col) {
		if !whole(columnOf(d, m.key)) {
			continue
		}
		others := c.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(col.Table),
			" WHERE ", d.Kind.Quote(col.Name), " <> ", d.Kind.Quote(m.key.Name)))
		if others > 0 {
			return false
		}
	}
	return true
}

// leadsBefore reports whether each row has the key of a row of its table that comes before it, as a letter
// that answers another one does, and other numbers that are as large would not do so by chance.
func (c *Census) leadsBefore(col Column, m match) bool {
	near := func(a against) bool { return a.reach < 0.5 } // as a number that begins anew again and again
	if m.key.Table != col.Table || m.sampled || !m.full() || slices.ContainsFunc(m.servers, near) {
		return false
	}
	chance := 0.0
	for i, d := range c.filled(col) {
		keys := c.spans[m.key][i]
		if keys.distinct == 0 {
			continue
		}
		name, key := d.Kind.Quote(col.Name), d.Kind.Quote(m.key.Name)
		rows := c.Rows(d, d.SQL("SELECT ", name, ", CASE WHEN ", name, " < ", key,
			" THEN 1 ELSE 0 END FROM ", d.Kind.Quote(col.Table), " WHERE ", c.spans[col][i].some(name),
			" ORDER BY 2 LIMIT ", strconv.Itoa(sampled)))
		for _, row := range rows {
			if row[1] == "0" {
				return false
			}
			value, _ := numberIn(row[0])
			chance += math.Log10(width(value, keys.max) / width(keys.min, keys.max))
		}
	}
	return -chance >= 3
}

// takesKeys reports whether a key that no database counts may be taken from those of a table, all of which
// are there: each number is a key of the fields of a map, and so hits prove nothing.
func (c *Census) takesKeys(col Column, m match) bool {
	return slices.Contains(c.keys, col) && !c.installed[col.Table] && !c.counts(col) && c.counts(m.key) &&
		m.full() && m.reaches()
}

// differ reports whether each row has another value, with gaps between them, and all are keys of a table that
// has gaps as well. So many levels and counts would be equal in some rows, and ranks have no gaps.
func (c *Census) differ(col Column, m match) bool {
	if values, _ := m.counts(); values < minValues || !m.full() || -m.chance() < 2 {
		return false
	}
	rare := 0.0
	for i, d := range c.filled(col) {
		s, name := c.spans[col][i], d.Kind.Quote(col.Name)
		rows := c.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(col.Table),
			" WHERE ", s.some(name)))
		n, room := float64(s.distinct), width(s.min, s.max)
		if rows > s.distinct || n > 0.9*room {
			return false
		}
		rare += n * n / 2 / room // so many numbers of this range differ by chance once in e to this
	}
	return rare >= 3
}

// repeats reports whether the rows have all keys of another table on two servers that have different numbers
// of keys, and whether most rows have the same key as another row, which ranks do not. The numbers of a kind
// mean the same on all servers, so they do not end where the few worlds of each do.
func (c *Census) repeats(col Column, m match) bool {
	const few = 3
	rows, values, least, most := int64(0), int64(0), int64(math.MaxInt64), int64(0)
	for i := range c.filled(col) {
		s, keys := c.spans[col][i], c.spans[m.key][i]
		rows += c.rows[serverKey{i, Column{Table: col.Table}}]
		values += s.distinct
		if keys.distinct >= few && s.distinct == keys.distinct {
			least, most = min(least, keys.distinct), max(most, keys.distinct)
		}
	}
	return m.full() && !m.sampled && least < most && rows >= 2*values && col.Table != m.key.Table &&
		!c.installed[m.key.Table]
}

// made leaves out the keys of what is installed with a game, if the values may be keys of what players make:
// there are so many of the former that most numbers are some. What is installed itself refers to the former.
func (c *Census) made(col Column, matches []match) []match {
	certain := func(m match) bool { return c.installed[m.key.Table] && m.certain() }
	may := func(m match) bool { return !c.installed[m.key.Table] && m.possible() }
	if c.installed[col.Table] || slices.ContainsFunc(matches, certain) || !slices.ContainsFunc(matches, may) {
		return matches
	}
	return slices.DeleteFunc(matches, func(m match) bool { return c.installed[m.key.Table] })
}

// byName asks about columns that nothing but a name speaks for: all of the values are keys of a table, and
// other columns of the same name refer to it, and none to another one. So it is where only a few players have
// something, or those of one server.
func (c *Census) byName(all []Finding, matches map[Column][]match) {
	parents := c.parents
	for _, f := range all {
		if f.Verdict == Reference && !slices.Contains(parents[f.Name], f.Parent) {
			parents[f.Name] = append(parents[f.Name], f.Parent)
		}
	}
	for i, f := range all {
		open := f.Verdict == Plain || f.Verdict == Possible && c.installed[f.Parent.Table]
		if !open || f.partly || f.When != "" || len(parents[f.Name]) != 1 {
			continue
		}
		for _, m := range matches[f.Column] {
			if m.key != parents[f.Name][0] || !m.full() || m.sampled {
				continue
			}
			m.ends = true
			all[i] = c.judge(f.Column, []match{m})[0]
		}
	}
}

// numbered finds the numbers in the name of a column.
var numbered = regexp.MustCompile("[0-9]+")

// bySiblings asks about columns whose values prove nothing, such as friend3, if most of those that are called
// alike but for a number, such as friend1 and friend2, refer to one table: rows that have so many are rare.
// It also asks if only one of them may refer, and it can hardly be chance that the values of all are keys.
func (c *Census) bySiblings(all []Finding) {
	siblings := map[Column][]int{}
	for i, f := range all {
		name := Column{f.Table, numbered.ReplaceAllString(f.Name, "#")}
		if name.Name != f.Name && f.Verdict != None && !f.partly {
			siblings[name] = append(siblings[name], i)
		}
	}
	for _, some := range siblings {
		var parents []Column
		for _, i := range some {
			if all[i].Verdict >= Possible {
				parents = append(parents, all[i].Parent)
			}
		}
		n, chance, full := len(parents), 0.0, true
		if n == 0 || n == len(some) || len(slices.Compact(parents)) > 1 {
			continue
		}
		found := make([][]match, len(some))
		for k, i := range some {
			if all[i].Column == parents[0] {
				continue
			}
			found[k] = c.compare(all[i].Column, []match{{key: parents[0], named: 3}}, false)
			if full = full && len(found[k]) > 0 && found[k][0].full(); full {
				chance += found[k][0].chance()
			}
		}
		if (n < 2 || 2*n < len(some)) && (!full || -chance < 4) {
			continue
		}
		for k, i := range some {
			if all[i].Verdict != Plain || parents[0] == all[i].Column {
				continue
			}
			all[i] = c.judge(all[i].Column, found[k])[0]
			all[i].Verdict = min(all[i].Verdict, Possible)
		}
	}
}

// mostly reports whether a column may hold keys of a table of which rows were deleted. Where there are a
// few keys, a few rows hold as many values that are none, so the rows count.
func (c *Census) mostly(col Column, m match) bool {
	if m.possible() || !m.speaks() || m.sampled {
		return m.possible()
	}
	for i, d := range c.filled(col) {
		if !whole(columnOf(d, m.key)) {
			continue
		}
		name := d.Kind.Quote(col.Name)
		rows := c.Numbers(d, 2, d.SQL("SELECT COUNT(*), COUNT(CASE WHEN ",
			holds(d, m.key), " THEN 1 END) FROM (SELECT ", name, " AS x FROM ", d.Kind.Quote(col.Table), " WHERE ",
			c.spans[col][i].some(name), ") AS v"))
		if rows[1]*10 < rows[0]*8 {
			return false
		}
	}
	return true
}

// bare returns the name of a column for a condition of a plan, which every database has to understand:
// without quotes if all take it so.
func (c *Census) bare(col Column) string {
	foreign := func(form string) bool { // to one of them
		return slices.ContainsFunc(c.servers, func(d *sqldb.DB) bool {
			if columnOf(d, col) == nil {
				return false
			}
			refused := c.Refuses(d, d.SQL("SELECT 1 FROM ", d.Kind.Quote(col.Table), " WHERE ", form,
				" IS NULL AND 1 = 0"))
			return refused || d.Kind == sqldb.MySQL && form[0] == '"' // where it is a text
		})
	}
	if table := (Column{Table: col.Table}); c.bares[table] == "" { // mostly all names are taken at once
		var all []Column
		refused := slices.ContainsFunc(c.servers, func(d *sqldb.DB) bool {
			t := d.Tables[col.Table]
			if t == nil {
				return false
			}
			names := sqldb.ColumnNames(t.Columns)
			all = append(all, sqldb.Mapped(names, func(name string) Column { return Column{t.Name, name} })...)
			return c.Refuses(d, d.SQL("SELECT 1 FROM ", d.Kind.Quote(t.Name), " WHERE ",
				strings.Join(names, " IS NULL\nAND "), " IS NULL\nAND 1 = 0")) // a name may begin a comment
		})
		c.bares[table] = "asked"
		for _, known := range all {
			if !refused {
				c.bares[known] = known.Name
			}
		}
	}
	if c.bares[col] == "" {
		forms := []string{col.Name, c.servers[0].Kind.Quote(col.Name), sqldb.PostgreSQL.Quote(col.Name)}
		c.bares[col] = forms[1]
		if i := slices.IndexFunc(forms, func(form string) bool { return !foreign(form) }); i >= 0 {
			c.bares[col] = forms[i]
		}
	}
	return c.bares[col]
}

// noneOf says how the values of a column that mean none are left out, and whether 0 is among these: no key is
// less than 0, and -1 mostly means none.
func (c *Census) noneOf(col Column) (none string, zero bool) {
	for _, s := range c.spans[col] {
		zero = zero || s.zero
		if s.none || s.min < 0 {
			none = " > 0"
		} else if s.zero && none == "" {
			none = " <> 0"
		}
	}
	return none, zero
}

// counterExamples returns some values that are no keys.
func (c *Census) counterExamples(col, key Column) []string {
	var all []string
	for i, d := range c.filled(col) {
		if !whole(columnOf(d, key)) {
			continue
		}
		rows := c.Rows(d, d.SQL("SELECT v.x FROM ", values(d, col, c.spans[col][i], ""),
			" WHERE NOT ", holds(d, key), " ORDER BY v.x LIMIT 3"))
		for _, row := range rows {
			all = append(all, row[0]+" of "+d.Name)
		}
	}
	return all[:min(3, len(all))]
}

// ordinary is the condition for values of a column that may be keys, beside those that are other things:
// negative numbers, which mean none, and numbers of 64 bits.
func (c *Census) ordinary(col Column, name string) string {
	var all []string
	if slices.ContainsFunc(c.spans[col], func(s span) bool { return s.min < 0 }) {
		all = append(all, name+" > 0")
	}
	if slices.ContainsFunc(c.spans[col], func(s span) bool { return s.max >= 1<<32 }) {
		all = append(all, name+" < 4294967296")
	}
	return strings.Join(all, " AND ")
}

// conditional is a match of the rows that meet a condition.
type conditional struct {
	match
	when  string
	by    Column   // whose values select the rows
	kinds []string // these values
	// guessed: the words of a game name a table, and what else they may mean, nobody knows.
	guessed bool
	// strays: in rows of other values, too, more are keys than by chance. Then it is not what tells the rows
	// that refer, but some rows lead to what was deleted.
	strays  bool
	meeting bool     // the values in those rows end where the keys do, which tells it where these are dense
	near    []string // the values of by in whose rows most, and not all, are keys
	rest    match    // of these rows
}

// byKind returns what the names of kinds say about a column. Frameworks write a key and, in a text column of
// a like name, the class that it belongs to, which has the name of its table. That says more than the keys,
// of which a young server has few and dense ones.
func (c *Census) byKind(col Column) []conditional {
	if stem(col.Name) == "" && (slices.Contains(c.keys, col) || !strings.EqualFold(col.Name, "id")) {
		return nil // it is that of its row, of whatever kind, or tells the kind
	}
	selectors, kinds := c.kinds(col.Table, func(_ int, other *sqldb.Column) bool {
		return other.Family == sqldb.FamilyText && stem(other.Name) == stem(col.Name)
	})
	var all []conditional
	for _, by := range selectors {
		if found := c.called(col, by, slices.Sorted(maps.Keys(kinds[by]))); len(found) > len(all) {
			all = found
		}
	}
	return all
}

// called returns, for the kinds that are called like a table, the condition that selects its keys, if they
// are.
func (c *Census) called(col, by Column, kinds []string) (all []conditional) {
	var names []string
	var tables []match
	for _, kind := range kinds {
		if key, ok := c.keyOf(kind); ok && key != col {
			names, tables = append(names, kind), append(tables, match{key: key, named: 3})
		}
	}
	var found []map[string]match
	for some := range slices.Chunk(tables, maxJoined) {
		found = append(found, c.selections(col, by, some, false)...)
	}
	for n, kind := range names {
		part := found[n][kind]
		if values, hits := part.counts(); hits == 0 || hits*2 < values {
			continue
		}
		var a *conditional
		all, a = c.addKind(all, by, part, kind)
		a.guessed = !isClass(kind) && -a.chance() < minChance
	}
	return all
}

// addKind adds the rows of one more kind to the condition that selects the keys of their table.
func (c *Census) addKind(all []conditional, by Column, part match,
	kind string) ([]conditional, *conditional) {
	i := slices.IndexFunc(all, func(a conditional) bool { return a.key == part.key })
	if i < 0 {
		i, all = len(all), append(all, conditional{match: match{key: part.key, named: part.named}, by: by})
	}
	all[i].add(part)
	all[i].kinds = append(all[i].kinds, kind)
	all[i].when = c.equals(by, all[i].kinds)
	return all, &all[i]
}

// keyOf returns the key of the table that a kind is called like, without the modules before it.
func (c *Census) keyOf(kind string) (key Column, ok bool) {
	if kind = withoutModules(kind); kind == "" {
		return Column{}, false
	}
	plain := func(name string) string { return strings.Join(c.wordsOf(name), "") }
	for _, called := range c.keys {
		switch {
		case plain(called.Table) != singular(plain(kind)):
		case !ok:
			key, ok = called, true
		case called.Table != key.Table: // it may be either
			return Column{}, false
		}
	}
	for len(c.above[key]) > 0 {
		key = c.above[key][0]
	}
	return key, ok
}

// conditions looks for a column of the same table whose values tell which rows refer. It returns the best one
// for each table that some rows refer to, after those that are known.
func (c *Census) conditions(col Column, matches []match, best []conditional) []conditional {
	partial := slices.DeleteFunc(slices.Clone(matches), match.full)
	if len(partial) == 0 {
		return best
	}
	var all []conditional
	enough := fewKinds // so that a table with many short columns does not take long
	if slices.ContainsFunc(partial, match.possible) {
		enough = maxKinds
	}
	most := enough
	if remembered(c.servers, col.Table) == col.Name {
		most = manyTopics
	}
	selectors := c.selectorsOf(col, most)
	if c.ordinary(col, col.Name) != "" {
		selectors = append(selectors, col)
	}
	for _, by := range selectors {
		for some := range slices.Chunk(partial, maxJoined) {
			all = append(all, c.selected(col, by, some, enough)...)
		}
	}
	named := func(m match) bool { return m.named >= 2 && m.possible() } // so all rows may refer
	if len(all)+len(best) == 0 && !slices.ContainsFunc(partial, named) {
		for _, m := range partial {
			if m.section() {
				all = append(all, c.section(col, m)...)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b conditional) int {
		return cmp.Or(before(a.full(), b.full()), cmp.Compare(b.score(), a.score()))
	})
	for _, a := range all {
		taken := slices.ContainsFunc(best, func(b conditional) bool {
			return b.key == a.key || b.by != a.by || slices.ContainsFunc(a.kinds,
				func(v string) bool { return slices.Contains(b.kinds, v) })
		})
		if !taken {
			best = append(best, a)
		}
	}
	return best
}

// section compares the values in the range of the keys of all servers with the keys. A game may give each
// kind of its objects a range of numbers, and refer to all of them by one column. It returns no match if that
// may be chance.
func (c *Census) section(col Column, m match) []conditional {
	keys := span{min: math.MaxInt64}
	for _, s := range c.spans[m.key] {
		if s.distinct > 0 {
			keys.min, keys.max = min(keys.min, s.min), max(keys.max, s.max)
		}
	}
	if m.goesOn() {
		return nil
	}
	part := match{key: m.key, named: m.named, begins: m.begins}
	var within, around, above int64
	below := false
	for i := range c.filled(col) {
		if !c.overlaps(m.key, i, c.spans[col][i]) {
			continue
		}
		s, hits, near, next := c.sectionOf(col, i, keys, m.key)
		a := c.against(m.key, i, s, s.distinct, hits, 0)
		a.within = s.distinct
		part.servers = append(part.servers, a)
		within, around = within+s.distinct, around+near-s.distinct
		below = below || c.spans[col][i].min < keys.min
		if next > 0 && (above == 0 || next < above) {
			above = next
		}
	}
	_, hits := part.counts()
	if within < minValues || hits*10 < within*9 || around*50 > within ||
		part.excess() < 6 && !part.follows() && !m.begins {
		return nil
	}
	var when []string
	if below {
		when = append(when, fmt.Sprintf("%s >= %d", c.bare(col), keys.min))
	}
	if above > 0 {
		end := int64(0) // where the keys begin that the values above may be
		for _, key := range c.keys {
			for _, s := range c.spans[key] {
				if s.distinct > 0 && s.min > keys.max && s.min <= above {
					end = max(end, s.min)
				}
			}
		}
		when = append(when, fmt.Sprintf("%s < %d", c.bare(col), cmp.Or(end, above)))
	}
	text := strings.Join(when, " AND ")
	return []conditional{{match: part, when: text, by: col, kinds: []string{text}, guessed: true}}
}

// sectionOf returns which values of a column on a server lie in the range of keys, how many values are keys,
// how many lie in that range or near it, and the least one beyond it, which is 0 if there is none.
func (c *Census) sectionOf(col Column, server int, keys span, key Column) (s span, hits, near, next int64) {
	d, set := c.servers[server], c.setOf(server, key)
	all, held := c.hold(server, col.Table).different(col.Name, c.spans[col][server].means)
	if held && set != nil {
		for _, x := range all {
			switch {
			case keys.holds(x) && s.distinct == 0:
				s.min = x
				fallthrough
			case keys.holds(x):
				s.max = x
				s.distinct++
			case x > keys.max && next == 0:
				next = x
			}
			if set.has(x) {
				hits++
			}
		}
		return s, hits, keys.around().count(all), next
	}
	joins := joined{c: c, server: server}
	hit, inside := joins.hit(key), "CASE WHEN "+keys.covers("v.x")+" THEN "
	beyond := fmt.Sprintf("CASE WHEN v.x > %d THEN v.x END", keys.max)
	row := c.Row(d, 6, d.SQL("SELECT COUNT(", inside, "1 END), MIN(", inside, "v.x END), MAX(", inside,
		"v.x END), COUNT(", hit, "), COUNT(CASE WHEN ", keys.around().covers("v.x"), " THEN 1 END), MIN(",
		beyond, ") FROM ", values(d, col, c.spans[col][server], ""), joins.text))
	hits, _ = numberIn(row[3])
	near, _ = numberIn(row[4])
	next, _ = numberIn(row[5]) // it may be too large for a key
	return spanOf(row[0], row[1], row[2]), hits, near, next
}

// maxKinds is how many different values a column may have that tells which rows refer, and maxKind is how
// long they may be. As long as no match of all rows is a possible one, fewKinds is as many. Of the columns
// with more values than fewKinds, only the first maxTellers are tried, because a table may have many short
// columns.
const (
	fewKinds   = 8
	maxKinds   = 64
	maxTellers = 8
	maxKind    = 255
)

// teller is a column that may tell which rows of its table refer.
type teller struct {
	Column
	kinds int // how many different values it has
}

// selectorsOf returns the columns beside another one that may tell which rows refer, by so many different
// values at most.
func (c *Census) selectorsOf(col Column, most int) (some []Column) {
	if _, ok := c.selectors[col.Table]; !ok {
		limit := int64(topics(c.servers, col.Table))
		all, kinds := c.kinds(col.Table, func(server int, other *sqldb.Column) bool {
			// Frameworks give names of types 255 characters, and PostgreSQL any number.
			text := other.Family == sqldb.FamilyText && other.MaxChars <= maxKind
			spans := c.spans[Column{col.Table, other.Name}]
			many := server < len(spans) && !spans[server].atMost && spans[server].distinct > limit
			return (text || other.Family == sqldb.FamilyInt || other.Family == sqldb.FamilyBool) && !many
		})
		c.selectors[col.Table] = sqldb.Mapped(all, func(by Column) teller { return teller{by, len(kinds[by])} })
	}
	left := maxTellers
	for _, by := range c.selectors[col.Table] {
		few := by.kinds <= fewKinds
		if by.Column == col || by.kinds < 2 || !few && (by.kinds > most || left == 0) {
			continue
		}
		if some = append(some, by.Column); !few {
			left--
		}
	}
	return some
}

// kinds returns the different values of some columns of a table on all servers, of those columns that have
// few on each.
func (c *Census) kinds(table string, some func(server int, col *sqldb.Column) bool) (
	all []Column, kinds map[Column]map[string]bool) {
	kinds = map[Column]map[string]bool{}
	for i, d := range c.servers {
		if d.Tables[table] == nil {
			continue
		}
		for _, col := range d.Tables[table].Columns {
			place := Column{table, col.Name}
			if !some(i, col) {
				continue
			}
			if kinds[place] == nil {
				kinds[place], all = map[string]bool{}, append(all, place)
			}
			maps.Copy(kinds[place], c.kindsOf(d, place))
		}
	}
	return all, kinds
}

// kindsOf returns the different values of a column on a server, or none if there are too many. NULL
// is "".
func (c *Census) kindsOf(d *sqldb.DB, col Column) map[string]bool {
	name, most := d.Kind.Quote(col.Name), topics(c.servers, col.Table)
	kinds, filled, place := map[string]bool{}, map[string]bool{}, serverKey{slices.Index(c.servers, d), col}
	rows, held := c.hold(place.server, col.Table).kinds(col.Name)
	if !held || c.words[place] != nil { // whose texts only the database tells apart
		rows = c.Rows(d, d.SQL("SELECT DISTINCT ", name, ", CASE WHEN ", name,
			" IS NULL THEN 1 ELSE 0 END FROM ", d.Kind.Quote(col.Table), " LIMIT ", strconv.Itoa(most+2)))
	}
	for _, row := range rows {
		if len(row[0]) > maxKind {
			return nil // it is no name of a kind
		}
		kinds[row[0]] = true
		if row[1] == "0" {
			filled[row[0]] = true
		}
	}
	if len(filled) == 0 || len(filled) > most {
		return nil
	}
	if w := c.words[place]; w != nil {
		w.kinds = filled
	}
	return kinds
}

// selected returns, for each of several tables, the rows of which all values are keys, or many more than by
// chance, if there are any.
func (c *Census) selected(col, by Column, partial []match, expected int) []conditional {
	// A sample tells of most tables that none of the values of by selects rows that refer to them.
	sample := c.selections(col, by, partial, true)
	var left []match
	for n, m := range partial {
		tells := func(part match) bool { return part.full() || part.mostly() }
		if slices.ContainsFunc(slices.Collect(maps.Values(sample[n])), tells) {
			left = append(left, m)
		}
	}
	if len(left) == 0 {
		return nil
	}
	found := c.selections(col, by, left, false)
	var all []conditional
	for n, m := range left {
		if some, is := c.condition(col, by, m, found[n], expected); is {
			all = append(all, some)
		}
	}
	return all
}

// condition chooses the kinds whose rows refer to a table, and reports whether there are any. If there are
// more kinds than expected, only what can hardly be chance counts.
func (c *Census) condition(col, by Column, m match, found map[string]match, expected int) (
	whole conditional, is bool) {
	whole = conditional{match: match{key: m.key, named: m.named, begins: m.begins}, by: by}
	whole.rest = whole.match
	others, outside := match{key: m.key}, match{key: m.key}
	var rows match // of every kind
	for _, part := range found {
		rows.add(part)
	}
	known, keys := rows.counts()
	many := len(found) > expected
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		part := found[kind]
		values, hits := part.counts()
		// A short table proves little by chance, and more if rows of the kind have each of its keys, or go as
		// far as its keys: which begin far above 0, which the kind is called like, or of which the other rows
		// have few. Of many kinds, some have all that by chance.
		called := func() bool { key, ok := c.keyOf(kind); return ok && key == m.key }
		few := 2*(keys-hits) < known-values
		ends := !many && part.dense() && (part.begins || few || called())
		each := by != col && (ends ||
			!many && part.fills() && part.reaches() && (-part.chance() >= 3 || part.follows()))
		proven, enough := -part.chance() >= minChance, values >= minValues
		apart := !many && by != col && part.begins && -part.confined() >= minChance
		switch {
		case part.full() && (enough && (proven || each) || apart) && (by != col || kind == "1"):
			whole.guessed = whole.guessed || !proven || !enough
			whole.add(part)
			whole.kinds = append(whole.kinds, kind)
			continue
		case by != col && (ends || part.mostly()):
			whole.rest.add(part)
			whole.near = append(whole.near, kind)
		default:
			outside.add(part)
		}
		others.add(part)
	}
	values, hits := others.counts()
	othersRefer := hits*2 >= values
	if len(whole.kinds) > 0 && len(found) > fewKinds && othersRefer &&
		!whole.tellsMore(found, float64(keys)/float64(known)) {
		return whole, false
	}
	if len(whole.kinds) == 0 {
		// Unless the other rows have fewer keys than by chance, or these go as far as the keys, this is not
		// what tells the rows that refer.
		values, hits := whole.rest.counts()
		rest, alike := outside.counts()
		far := hits*10 >= values*8 && whole.rest.reaches() && alike*10 < rest*8
		if len(whole.near) == 0 || outside.overall() > -3 && !far {
			return whole, false
		}
		whole.match, whole.kinds, whole.near, whole.guessed = whole.rest, whole.near, nil, true
	} else {
		whole.meeting = othersRefer && others.follows() && others.meets()
		whole.strays = whole.meeting || othersRefer && others.overall() >= 3
	}
	whole.when = c.equals(by, whole.kinds)
	if by == col {
		whole.when = c.ordinary(col, c.bare(col))
	}
	return whole, true
}

// tellsMore reports whether the chosen kinds of rows, among many, tell which rows refer. The rate is the part
// of all values that are keys. Where a few rows of any kind lead to what was deleted, some kinds have no such
// row by chance, and these tell nothing, as some hours of a log.
func (a conditional) tellsMore(kinds map[string]match, rate float64) bool {
	expected := 0.0 // values in the kinds that have no such row by chance
	for _, part := range kinds {
		n, _ := part.counts()
		expected += float64(n) * math.Pow(rate, float64(n))
	}
	chosen, _ := a.counts()
	return float64(chosen) >= 1.5*expected
}

// selections compares the values that a column has in the rows of each value of another column with the keys
// of tables. It returns the matches of each table by that value.
func (c *Census) selections(col, by Column, rivals []match, sample bool) []map[string]match {
	found := make([]map[string]match, len(rivals))
	for n := range found {
		found[n] = map[string]match{}
	}
	for i, d := range c.filled(col) {
		selector := columnOf(d, by)
		if selector == nil {
			continue
		}
		rows, s, n := [][]string(nil), c.spans[col][i], 0
		kinds, few := c.hold(i, col.Table).byKind(col.Name, by.Name, s.means)
		if w := c.words[serverKey{i, by}]; few && w != nil {
			kinds, few = w.named(kinds)
		}
		for kind, all := range kinds {
			if sample && len(all) > 2*sampled { // a sample of all values has too few of those of other kinds
				kinds[kind] = slices.DeleteFunc(all, func(x int64) bool { return !s.samples(x) })
			}
			n += len(kinds[kind])
		}
		if few = few && by != col && c.compares(i, rivals, n); !few {
			kinds, few = c.readKinds(i, col, by, sample)
		}
		if few {
			rows = c.grouped(i, col, rivals, kinds)
		} else {
			q, joins := d.SQL("SELECT v.c, COUNT(*), MIN(v.x), MAX(v.x)"), joined{c: c, server: i}
			for _, m := range rivals {
				q.Add(", COUNT(", joins.hit(m.key), ")")
			}
			q.Add(" FROM (")
			c.addPairs(q, i, col, by, sample)
			rows = c.Rows(d, q.Add(") AS v", joins.text, " GROUP BY v.c"))
		}
		for _, row := range rows {
			s := spanOf(row[1], row[2], row[3])
			for n, m := range rivals {
				hits, _ := numberIn(row[4+n])
				hits, near := min(hits, s.distinct), int64(0) // none, if SQLite has a text there
				if hits == s.distinct && !sample {            // only then its chance counts
					near = c.keysWithin(i, m.key, s)
				}
				part, ok := found[n][row[0]]
				if !ok {
					part = match{key: m.key, named: m.named, begins: m.begins, endsAlike: true}
				}
				part.servers = append(part.servers, c.against(m.key, i, s, s.distinct, hits, near))
				found[n][row[0]] = part
			}
		}
	}
	return found
}

// readKinds reads the different values of a column in the rows of each value of another one, or a sample of
// them. It reports whether they are few, and nothing but numbers.
func (c *Census) readKinds(server int, col, by Column, sample bool) (map[string][]int64, bool) {
	d, s := c.servers[server], c.spans[col][server]
	if c.limits.values == 0 || !sample && s.distinct > c.limits.values || s.max == math.MaxInt64 ||
		!whole(columnOf(d, col)) || by != col && !whole(columnOf(d, by)) {
		return nil, false
	}
	q := d.SQL()
	c.addPairs(q, server, col, by, sample)
	pairs, _ := read(c.Asker, d, q, math.MaxInt, nil, "c", "x")
	return pairs.byKind("x", "c", s.means)
}

// addPairs adds SQL for the pairs c, x of the different values of two columns, or of a sample of them.
func (c *Census) addPairs(q *sqldb.Statement, server int, col, by Column, sample bool) {
	d, s := c.servers[server], c.spans[col][server]
	name, kind, family := d.Kind.Quote(col.Name), d.Kind.Quote(by.Name), columnOf(d, by).Family
	if by == col {
		kind = "CASE WHEN " + c.ordinary(col, name) + " THEN 1 ELSE 0 END"
	}
	part, from := s.sample(name), " FROM "+d.Kind.Quote(col.Table)+" WHERE "+s.some(name)+" AND "+
		d.Kind.Quote(by.Name)+" IS NOT NULL"
	q.Add("SELECT DISTINCT ", kind, " AS c, ", name, " AS x", from)
	if !sample || part == "" {
		return
	}
	rare := c.Rows(d, d.SQL("SELECT ", kind, ", COUNT(DISTINCT ", name, ")",
		from, " GROUP BY ", kind, " HAVING COUNT(DISTINCT ", name, ") <= ", strconv.Itoa(2*sampled)))
	q.Add(" AND (", part)
	before, after := " OR "+kind+" IN (", "" // which is looked up, and not tried one after another
	for _, row := range rare {               // a sample of all values has too few of theirs
		q.Add(before)
		before, after = ", ", ")"
		if family == sqldb.FamilyText {
			q.Bind(row[0])
		} else {
			q.Add(constant(family, row[0]))
		}
	}
	q.Add(after, ")")
}

// grouped counts the values of each kind, and how many of them are keys of each table, as a database would.
func (c *Census) grouped(server int, col Column, rivals []match, kinds map[string][]int64) (rows [][]string) {
	hits := c.hitsAmong(server, col, rivals, slices.Concat(slices.Collect(maps.Values(kinds))...))
	for kind, values := range kinds {
		if len(values) == 0 {
			continue
		}
		row := []string{kind, strconv.Itoa(len(values)), decimal(slices.Min(values)), decimal(slices.Max(values))}
		for n := range rivals {
			count := int64(0)
			for _, x := range values {
				if hits[n](x) {
					count++
				}
			}
			row = append(row, decimal(count))
		}
		rows = append(rows, row)
	}
	return rows
}

// keysWithin returns how many keys of a table lie among some values, of which each is a key. Columns of one
// table, and the rows of their kinds, have the same few ranges again and again.
func (c *Census) keysWithin(server int, key Column, s span) int64 {
	d := c.servers[server]
	if s.distinct == 1 && identifies(d.Tables[key.Table], key.Name) {
		return 1
	}
	if c.setOf(server, key) != nil {
		return c.keysIn(server, key, s)
	}
	const enough = 50_000 // so that memory does not grow with the rows
	part := stretch{key, server, s.min, s.max}
	n, known := c.within[part]
	if !known {
		if len(c.within) == enough {
			clear(c.within)
		}
		n = c.keysIn(server, key, s)
		c.within[part] = n
	}
	return n
}

// equals returns the condition that a column has one of some values. A backslash in a text is one on most
// databases and none on MySQL, so where both have to read it, any letter may stand there.
func (c *Census) equals(by Column, kinds []string) string {
	name, quoted := c.bare(by), slices.Clone(kinds)
	other := func(d *sqldb.DB) bool { return d.Kind != c.servers[0].Kind }
	if strings.Contains(strings.Join(kinds, ""), `\`) && slices.ContainsFunc(c.servers, other) {
		for i, v := range kinds {
			quoted[i] = name + " LIKE '" + strings.NewReplacer(`\`, "_", "'", "''").Replace(v) + "'"
		}
		return "(" + strings.Join(quoted, " OR ") + ")"
	}
	family := sqldb.FamilyInt
	for _, other := range []sqldb.Family{sqldb.FamilyText, sqldb.FamilyBool} {
		if c.is(by, other) {
			family = other
		}
	}
	for i, v := range quoted {
		if c.servers[0].Kind == sqldb.MySQL {
			v = strings.ReplaceAll(v, `\`, `\\`)
		}
		quoted[i] = constant(family, v)
	}
	if len(quoted) == 1 {
		return name + " = " + quoted[0]
	}
	return fmt.Sprintf("%s IN (%s)", name, strings.Join(quoted, ", "))
}

// constant writes a value of a column of a family as it stands in SQL: a truth as every database reads it,
// though MySQL reads a BIT as a byte.
func constant(family sqldb.Family, value string) string {
	switch family {
	case sqldb.FamilyBool:
		return strings.ToUpper(strconv.FormatBool(value == "1" || value == "\x01"))
	case sqldb.FamilyText:
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return value
}

// fewAlike is how many rows may be the same on all servers by chance, as those that a game begins with.
const fewAlike = 5

// sampledAlike is how many rows of each server are compared.
const sampledAlike = 1000

// Alike reports whether a table has nearly the same rows on all servers, which are at least two.
func Alike(ctx context.Context, servers []*sqldb.DB, table string) (bool, error) {
	c := newCensus(ctx, servers, 0, limits{})
	c.countRows(table)
	same := c.alike(table)
	return same, c.Err
}

// alike reports whether a table has the same rows on all servers, as what is installed with a game has. If no
// database counts their key, some may differ, for somebody may have changed an item on one server, and keys
// with the same gaps mean the same, however many prices were changed.
func (c *Census) alike(table string) bool {
	t, tenths, byKey := c.servers[0].Tables[table], 9, false
	if t == nil || len(t.Primary) == 0 || slices.ContainsFunc(t.Columns, (*sqldb.Column).Counts) {
		tenths = 10
	} else if s := c.spans[Column{table, t.Primary[0]}]; len(t.Primary) == 1 && len(s) > 0 &&
		float64(s[0].distinct) < 0.8*width(s[0].min, s[0].max) {
		byKey = true
	}
	for i := range c.servers {
		n, first := c.rows[serverKey{i, Column{Table: table}}], c.rows[serverKey{0, Column{Table: table}}]
		if n <= fewAlike || 10*min(n, first) < int64(tenths)*max(n, first) {
			return false
		}
	}
	for _, limit := range []string{" LIMIT 100", ""} { // The first rows of most other tables differ.
		var first []uint64
		for i, d := range c.servers {
			var names []string // all of them
			if byKey {
				names = d.Tables[table].Primary // which may be called otherwise here
			}
			sample := c.sampleOf(d, d.Tables[table], names, limit)
			if i == 0 {
				first = sample
			}
			all, same := leastOf(slices.Concat(first, sample)), 0
			for _, hash := range all {
				_, before := slices.BinarySearch(first, hash)
				if _, here := slices.BinarySearch(sample, hash); before && here {
					same++
				}
			}
			if 10*same < tenths*len(all) || same < len(all) && !byKey && !c.various(t) {
				return false
			}
		}
	}
	return len(c.servers) > 1
}

// various reports whether most rows of a table differ in more than their key. What each player begins with
// does not, and is nearly the same on all servers that count their players from 1 on.
func (c *Census) various(t *sqldb.Table) bool {
	key := func(name string) bool { return slices.Contains(t.Primary, name) }
	beside := slices.DeleteFunc(sqldb.ColumnNames(t.Writable()), key)
	if len(t.Primary) > 1 || len(beside) == 0 {
		return len(t.Primary) > 1
	}
	sample := c.sampleOf(c.servers[0], t, beside, " LIMIT 100")
	return 2*int64(len(sample)) >= min(100, c.rows[serverKey{0, Column{Table: t.Name}}])
}

// sampleOf returns the least hashes of what the rows of a table have in some columns, or in all. They are of
// the same rows on servers that have these, and do not depend on the order of rows or on that of columns.
func (c *Census) sampleOf(d *sqldb.DB, t *sqldb.Table, names []string, limit string) (least []uint64) {
	if len(names) == 0 {
		names = slices.Sorted(slices.Values(sqldb.ColumnNames(t.Writable())))
	}
	if len(t.Primary) > 0 {
		limit = " ORDER BY " + d.Kind.QuoteAll(t.Primary) + limit
	} else {
		limit = "" // The first rows of such a table are any.
	}
	q := d.SQL("SELECT ", d.Kind.QuoteAll(names), " FROM ", d.Kind.Quote(t.Name), limit)
	c.EachSteady(d, q, func(values []any) bool {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(sqldb.KeyText(values)))
		if least = append(least, hash.Sum64()); len(least) == 2*sampledAlike {
			least = leastOf(least)
		}
		return true
	})
	return leastOf(least)
}

// leastOf returns the least of some numbers in their order.
func leastOf(all []uint64) []uint64 {
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), sampledAlike)]
}
