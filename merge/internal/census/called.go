package census

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// caller asks about columns that nothing but a name speaks for, and nothing in the data against: a few
// players have an heir, the heads of three clans are known, or most of what a log names was deleted.
type caller struct {
	c       *Census
	parents map[string][]Column // by what a column is called, the keys that columns called so hold
	ends    map[string][]Column // by its last word, the keys that columns hold almost certainly
	refers  map[Column]int      // how many columns hold a key, or may
	beyond  map[string]Finding  // by name, columns whose numbers are sums of a key and another number
	glued   bool                // names of columns that refer end in id without a mark before it
	tails   map[Column][]string // by key, the words to which that of its table adds something
}

// find asks about columns of the tables for which looks is true. The findings about other columns say which
// keys are in columns that are called alike.
func (l *caller) find(all []Finding, looks func(table string) bool) []Finding {
	l.parents, l.ends, l.refers = map[string][]Column{}, map[string][]Column{}, map[Column]int{}
	l.beyond, l.tails = map[string]Finding{}, l.tailsOf(l.c.keys)
	settled, inRange := map[Column]bool{}, map[Column][]Column{}
	add := func(to map[string][]Column, name string, key Column) {
		if !slices.Contains(to[name], key) {
			to[name] = append(to[name], key)
		}
	}
	for _, f := range all {
		// What may only be a key of what is installed may be that of something else.
		perhaps := f.weak() ||
			f.Verdict == Possible && l.c.installed[f.Parent.Table] && !l.c.installed[f.Table]
		settled[f.Column] = settled[f.Column] || f.Verdict >= Possible && !perhaps
		if f.inRange {
			inRange[f.Column] = append(inRange[f.Column], f.Parent)
		}
		if _, known := l.beyond[f.Name]; strings.HasPrefix(f.As, isBeyond) && !known {
			l.beyond[f.Name] = f
		}
		if f.Verdict < Possible || f.As != "" || f.byEnd || l.c.installed[f.Parent.Table] {
			continue
		}
		words := wordsIn(f.Name)
		l.refers[f.Parent]++
		if f.Verdict == Reference {
			l.glued = l.glued || len(unglued(words)) > len(words)
			add(l.ends, words[len(words)-1], f.Parent)
		}
		if f.Verdict == Reference || l.speaks(f.Column) {
			add(l.parents, strings.Join(words, ""), f.Parent)
		}
	}
	for _, key := range l.c.keys { // a log has the names of the keys of what it is about
		words := wordsIn(key.Name)
		if len(words) > 1 && l.c.counts(key) && !l.c.installed[key.Table] && len(l.c.above[key]) == 0 {
			add(l.parents, strings.Join(words, ""), key)
		}
	}
	var found []Finding
	for _, table := range l.c.tables {
		if !looks(table) {
			continue
		}
		for _, col := range l.columns(table) {
			if settled[col] {
				continue
			}
			f := l.ask(col)
			if f.Verdict < Possible {
				f = l.askBeyond(col)
			}
			alike := slices.Contains(l.parents[strings.Join(wordsIn(col.Name), "")], f.Parent)
			known := len(inRange[col]) > 0 && (!alike || slices.Contains(inRange[col], f.Parent))
			if f.Verdict == Possible && !known {
				found = append(found, f)
			}
		}
	}
	return found
}

// lastWords returns the words of four letters or more in the names of tables, and those that names of columns
// end with.
func (l *caller) lastWords() (all []string) {
	const short = 3
	for _, d := range l.c.servers {
		for name, t := range d.Tables {
			all = append(all, wordsOf(name)...)
			for _, col := range t.Columns {
				words := wordsIn(col.Name)
				all = append(all, singular(words[len(words)-1]))
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(w string) bool { return len(w) <= short })
}

// tailsOf returns the words of the names here to which the tables of keys add a word, as usergroups does to
// group, and topicprefixes to prefix, but not accounts to count.
func (l *caller) tailsOf(keys []Column) map[Column][]string {
	words, all := l.lastWords(), map[Column][]string{}
	for _, key := range keys {
		called := l.c.wordsOf(key.Table)
		table := called[len(called)-1]
		for _, end := range words {
			if before, ends := strings.CutSuffix(table, end); ends && len(before) > 2 {
				all[key] = append(all[key], end)
			}
		}
	}
	return all
}

// columns returns the columns of a table on any server that may hold a key: whole numbers, and texts, which
// may be written as numbers.
func (l *caller) columns(table string) (all []Column) {
	for _, d := range l.c.servers {
		if d.Tables[table] == nil {
			continue
		}
		for _, own := range d.Tables[table].Columns {
			col := Column{table, own.Name}
			fits := usable(own) && !own.Counts() && l.c.spans[col] != nil || own.Family == sqldb.FamilyText
			if fits && !slices.Contains(all, col) {
				all = append(all, col)
			}
		}
	}
	return all
}

// speaks reports whether a name is that of a key, of a person, or mentions a table.
func (l *caller) speaks(col Column) bool {
	words := wordsIn(col.Name)
	return isKey(words) || isPerson(words) || slices.ContainsFunc(l.c.keys, func(key Column) bool {
		says, _ := l.c.named(col, key)
		return says > 0
	})
}

// clue is what the name of a column says about whose keys it has.
type clue struct {
	col                   Column
	words                 []string
	alike, ends           []Column // keys in columns that are called the same, and that end alike
	key, person           bool     // it is called like a key, and like a person
	own, isText, isUnique bool     // it is a key of its own table, a text, and unique
}

// clueOf reads the name of a column. Few texts and few keys are what they are called, so theirs say less.
func (l *caller) clueOf(col Column) clue {
	words := wordsIn(col.Name)
	if l.glued {
		words = unglued(words)
	}
	last := words[len(words)-1]
	c := clue{col: col, words: words, alike: l.parents[strings.Join(words, "")],
		own:    last == "parent" || isKey(words) && words[len(words)-2] == "parent",
		isText: l.c.is(col, sqldb.FamilyText), isUnique: slices.Contains(l.c.keys, col)}
	if !c.isText && !c.isUnique {
		c.ends = l.ends[last]
		c.key = isKey(words) || len(words) == 1 && last == "id" // of something else than its row
		c.person = isPerson(words)
		if c.key && !c.person && !isYesOrNo(words) { // gm alone may be a flag, and mod a modifier
			who := words[:len(words)-1]
			c.person = isPerson(who) ||
				len(who) > 0 && slices.Contains([]string{"gm", "mod", "staff"}, who[len(who)-1])
		}
	}
	return c
}

// endsLike reports whether a name ends like that of a table, as oldgroup does where there are usergroups.
func (l *caller) endsLike(c clue, parent Column) bool {
	ends := func(tail string) bool { return strings.HasSuffix(c.words[len(c.words)-1], tail) }
	return !c.isText && !c.isUnique && !isYesOrNo(c.words) && slices.ContainsFunc(l.tails[parent], ends)
}

// says reports whether a name means a table, and whether it only ends like it.
func (l *caller) says(c clue, parent Column) (says, ending bool) {
	says = slices.Contains(c.alike, parent) || c.own && parent.Table == c.col.Table
	return says, !c.key && (slices.Contains(c.ends, parent) && len(c.words) > 1 || l.endsLike(c, parent))
}

// ask returns a finding with the verdict Possible if the values of a column may be keys.
func (l *caller) ask(col Column) (f Finding) {
	c := l.clueOf(col)
	endsLike := func(parent Column) bool { return l.endsLike(c, parent) }
	none := len(c.alike)+len(c.ends) == 0 && !slices.ContainsFunc(l.c.keys, endsLike)
	// Keys that are the same on all servers are those of no player.
	installed := c.isUnique && l.c.installed[col.Table]
	if none && !c.key && !c.person && !c.own || installed {
		return f
	}
	values := l.values(col)
	if values == nil {
		return f
	}
	var best match
	for _, parent := range l.c.keys {
		m, fits := l.weigh(c, parent, values)
		if fits && (len(best.servers) == 0 || l.compareBest(m, best, c.person) < 0) {
			best = m
		}
	}
	if len(best.servers) == 0 {
		return f
	}
	f = Finding{Column: col, Verdict: Possible, Parent: best.key, Hits: hitsOf(nil, []match{best}),
		Evidence: best.evidence(false, nil) + "; what the column is called speaks for it"}
	f.Values, _ = best.counts()
	if c.isText {
		f.When = l.noText(col)
	} else if none, _ := l.c.noneOf(col); none != "" {
		f.When = l.c.bare(col) + none
	}
	return f
}

// weigh compares the values of a column with keys, and reports whether they may be those.
func (l *caller) weigh(c clue, parent Column, values [][]int64) (m match, fits bool) {
	says, ending := l.says(c, parent)
	if parent == c.col || l.c.installed[parent.Table] || len(l.c.above[parent]) > 0 ||
		!says && !ending && !c.person && !c.key || c.isUnique && !l.c.counts(parent) {
		return m, false
	}
	m = l.compare(c.col, parent, values)
	m.ends = says
	short := isKey(c.words) && l.shortens(c.words[:len(c.words)-1], parent)
	if !says && !ending && !c.person && !short && !differ(values) && (!m.full() || l.common(parent, values)) {
		return m, false // id may be that of anything
	}
	// A few of the newest rows may be deleted, which are a large part on a new server.
	reaches := func(a against) bool {
		return a.values > 0 && (a.greatest == 0 || (a.reach-1.05)*a.greatest > 3)
	}
	all, hits := m.counts()
	return m, hits > 0 && !slices.ContainsFunc(m.servers, reaches) &&
		(says || hits*2 >= all && (!ending || m.full()))
}

// noText returns the condition that leaves out a text that means none, if one does.
func (l *caller) noText(col Column) string {
	for _, none := range []string{"0", ""} {
		for _, d := range l.c.servers {
			if own := columnOf(d, col); own == nil || none == "" && own.Family != sqldb.FamilyText {
				continue // PostgreSQL does not compare a number with no digits
			}
			rows := l.c.Rows(d, d.SQL("SELECT 1 FROM ", d.Kind.Quote(col.Table), " WHERE ",
				d.Kind.Quote(col.Name), " = '"+none+"' LIMIT 1"))
			if len(rows) > 0 {
				return l.c.bare(col) + " <> '" + none + "'"
			}
		}
	}
	return ""
}

// askBeyond asks about a column that is called like one whose numbers are the sum of a key and another
// number, if it has values beyond that.
func (l *caller) askBeyond(col Column) (f Finding) {
	other, known := l.beyond[col.Name]
	if !known || l.c.is(col, sqldb.FamilyText) || slices.Contains(l.c.keys, col) {
		return f
	}
	base := strings.TrimPrefix(other.As, isBeyond)
	for i, d := range l.c.filled(col) {
		if l.c.spans[other.Parent][i].distinct == 0 {
			continue
		}
		name := d.Kind.Quote(col.Name)
		n := l.c.Number(d, d.SQL("SELECT COUNT(*) FROM ", d.Kind.Quote(col.Table), " WHERE ", name,
			" > ", base, " AND ", name, " - ", base, " <= ", strconv.FormatInt(l.c.spans[other.Parent][i].max, 10)))
		if n > 0 {
			return Finding{Column: col, Verdict: Possible, Parent: other.Parent, As: other.As,
				Evidence: "the column " + other.String() + " is called so, too"}
		}
	}
	return f
}

// compareBest orders matches: those that other columns of the name speak for, those whose key it ends like,
// those without values that are no keys, those whose keys end where the values do, and those of a table that
// many refer to come first. Whose name is that of a person refers to those to whom most others refer.
func (l *caller) compareBest(a, b match, person bool) int {
	often, people := cmp.Compare(l.refers[b.key], l.refers[a.key]), 0
	if person {
		people = often
	}
	return cmp.Or(before(a.ends, b.ends), before(a.called, b.called), people, before(a.full(), b.full()),
		before(a.reaches(), b.reaches()), often, cmp.Compare(b.score(), a.score()), a.key.Compare(b.key))
}

// values returns some of the different values of a column on each server, and nothing if a text is no number.
func (l *caller) values(col Column) [][]int64 {
	all, filled := make([][]int64, len(l.c.servers)), false
	for i, d := range l.c.servers {
		own := columnOf(d, col)
		text := own != nil && own.Family == sqldb.FamilyText
		if s := l.c.spans[col]; !text && (len(s) == 0 || s[i].distinct == 0) {
			continue
		}
		name := d.Kind.Quote(col.Name)
		condition := name + " > 0"
		if text {
			condition = name + " <> '0' AND " + name + " <> ''"
		}
		for _, text := range l.c.some(i, col, condition, func(x int64) bool { return x > 0 }) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil // no key of the servers is so long, and no word is one
			}
			all[i], filled = append(all[i], n), true
		}
		slices.Sort(all[i]) // texts have another order
	}
	if !filled {
		return nil
	}
	return all
}

// compare counts how many of some values are keys.
func (l *caller) compare(col, key Column, values [][]int64) match {
	named, ends := l.c.named(col, key)
	m := match{key: key, named: named, called: ends, begins: l.c.begins(key)}
	for i, some := range values {
		if len(some) > 0 {
			m.servers = append(m.servers, l.c.among(key, i, some))
		}
	}
	return m
}

// shortens reports whether a name is the beginning of that of a table, and of no other one, as char of
// characters.
func (l *caller) shortens(words []string, parent Column) bool {
	begins := func(key Column) bool {
		called := l.c.wordsOf(key.Table)
		return strings.HasPrefix(called[len(called)-1], strings.Join(words, "")) && len(l.c.above[key]) == 0
	}
	return begins(parent) && !slices.ContainsFunc(l.c.keys, func(key Column) bool {
		return key.Table != parent.Table && begins(key)
	})
}

// common reports whether it may be chance that values, which are all keys of their server, are no keys of
// others: what means something in every world does not end on each server where its keys do.
func (l *caller) common(key Column, values [][]int64) bool {
	chance := 0.0
	for i, d := range l.c.servers {
		for _, others := range values {
			hits := l.c.keysAmong(d, key, others)
			chance += float64(len(values[i])) * math.Log10(float64(hits+1)/float64(len(others)+1))
		}
	}
	return chance > -4
}

// differ reports whether the values of the two servers that have most are not mostly the same ones, as those
// are that mean something in every world, nor one on each, which is the number of the server.
func differ(values [][]int64) bool {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b []int64) int { return cmp.Compare(len(b), len(a)) })
	if len(sorted) < 2 || len(sorted[1]) == 0 {
		return len(sorted[0]) > 1
	}
	equal := 0
	for _, v := range sorted[1] {
		if slices.Contains(sorted[0], v) {
			equal++
		}
	}
	return len(sorted[0]) > 1 && equal*2 <= len(sorted[1])
}

// unglued returns the words of a name with the id at its end as a word, as in reporterid.
func unglued(words []string) []string {
	last := len(words) - 1
	if stem, ends := strings.CutSuffix(words[last], "id"); ends && len(stem) > 2 {
		return append(slices.Clone(words[:last]), stem, "id")
	}
	return words
}

// isKey reports whether the last word of a name says that it is that of a key.
func isKey(words []string) bool {
	last := words[len(words)-1]
	return len(words) > 1 && (last == "id" || last == "uid" || last == "guid" || last == "ref")
}

// isPerson reports whether a name ends with what people are called who own something or do something, but
// for those of columns that say yes or no.
func isPerson(words []string) bool {
	if len(words) == 0 || isYesOrNo(words) {
		return false
	}
	last := words[len(words)-1]
	return strings.Contains(people, " "+last+" ") || strings.HasSuffix(last, "edby") // as issuedby
}

// isYesOrNo reports whether a name is one of a column that says yes or no, or of a limit.
func isYesOrNo(words []string) bool {
	return slices.Contains([]string{"is", "has", "can", "no", "max", "min"}, words[0])
}

// people are the last words of the names of such columns.
const people = " account acct admin attacker author banner bidder buyer by captain character creator " +
	"defender editor friend founder giver heir holder husband inviter killer leader lover member moderator " +
	"owner partner player poster receiver recipient recruiter referer referrer seller sender spouse target " +
	"user victim who whom wife winner writer "

// idFirst finds the id at the beginning of a name.
var idFirst = regexp.MustCompile("^(?:[iI][dD]_+|[iI]d([A-Z]))(.+)$")

// idLast returns the name of a column with the id at its end, as house_id for id_house.
func idLast(name string) string { return idFirst.ReplaceAllString(name, "${1}${2}_id") }

// wordsIn returns the words of the name of a column in small letters, without the digits behind them, as in
// first_owner, OwnerID and owner2.
func wordsIn(name string) []string {
	var words []string
	var before rune
	for i, r := range idLast(name) {
		switch begins := i == 0 || unicode.IsUpper(r) && !unicode.IsUpper(before) || before == '_'; {
		case r == '_' || unicode.IsDigit(r) || r == ' ':
		case begins || len(words) == 0:
			words = append(words, string(unicode.ToLower(r)))
		default:
			words[len(words)-1] += string(unicode.ToLower(r))
		}
		before = r
	}
	if len(words) == 0 {
		return []string{name}
	}
	return words
}

// isCalled reports whether a column is called like a table, as guild1 and last_guild_id are like guilds.
func isCalled(col, key Column) bool {
	column, words := wordsIn(col.Name), wordsOf(key.Table)
	if len(column) > 1 && column[len(column)-1] == "id" {
		column = column[:len(column)-1]
	}
	last := column[max(0, len(column)-len(words)):]
	called := strings.Join(column, "") == strings.Join(words, "") || slices.Equal(last, words)
	return called && col.Table != key.Table
}

// isClass reports whether a kind is written as frameworks write the names of classes, and not as a word.
func isClass(kind string) bool {
	kind = withoutModules(kind)
	return strings.ToLower(kind[:1]) != kind[:1] && strings.ToUpper(kind) != kind
}

// withoutModules returns the name of a class without the modules before it.
func withoutModules(kind string) string { return kind[strings.LastIndexAny(kind, `.:\/`)+1:] }

// stem returns what the names of a column of keys and of the column of their kinds have in common.
func stem(name string) string {
	name = "_" + strings.ToLower(name)
	if i := strings.LastIndex(name, "_"); i >= 0 {
		switch name[i+1:] {
		case "id", "key", "type", "kind", "class", "model", "table":
			return name[:i]
		}
	}
	return name
}
