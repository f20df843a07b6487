package verify

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// renamed is an entry of the list of renames.
type renamed struct {
	number                string // of the server
	server                int    // its position, or -1
	key, old, now, newKey string
}

// formed reports whether a new name is what the plan makes of an old one: the beginning of the old name in
// the form of the plan, perhaps with a number behind.
func (r *Rename) formed(old, now string, server int64, declared string) bool {
	form := r.Format
	if form == "" {
		form = "{name}.s{server}"
	}
	begin, end, _ := strings.Cut(strings.ReplaceAll(form, "{server}", strconv.FormatInt(server, 10)), "{name}")
	limit := r.Max
	if m := lengthOf.FindStringSubmatch(declared); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && (limit == 0 || n < limit) {
			limit = n
		}
	}
	if limit > 0 && utf8.RuneCountInString(now) > limit || !strings.HasPrefix(now, begin) {
		return false
	}
	rest := now[len(begin):]
	for _, kept := range []string{rest, number.ReplaceAllString(rest, "")} {
		if kept, ok := strings.CutSuffix(kept, end); ok && kept != "" && strings.HasPrefix(old, kept) {
			return true
		}
	}
	return false
}

var (
	lengthOf = regexp.MustCompile(`char[a-z ]*\(\s*(\d+)\s*\)`)
	number   = regexp.MustCompile(`-[0-9]+$`)
)

// readNames reads the list of renames, which the players are told by. That each entry is right, and that no
// row has another name, is checked later.
func readNames(ctx context.Context, j *job) {
	v, r := j.v, j.plan.Rename
	if r == nil {
		return
	}
	j.names = newIndex(v.fail)
	entries, malformed, first := 0, int64(0), ""
	eachRename(ctx, j, "", nil, func(n renamed) {
		if n.server < 0 {
			v.compare("names", j.name, "", "an entry of a server that the plan does not name", "", n.number)
			return
		}
		entries++
		if !r.formed(n.old, n.now, v.plan.Servers[n.server].Number, j.target.column(r.Column).declared) {
			if malformed++; malformed == 1 {
				first = fmt.Sprintf("%s: row %s: %q from %q", v.plan.Servers[n.server].Name, n.key, n.now, n.old)
			}
		}
		for _, key := range []string{n.key, j.identified(n.key)} {
			if key != "" {
				j.names.set(rowAt(n.server, key), n.newKey+"\x00"+n.old+"\x00"+n.now)
			}
		}
		j.names.set(sumOf([]byte("name "+strconv.Itoa(n.server)+" "+n.old)), n.now)
	})
	if entries > 0 {
		v.none("names", j.name, "new names of another form than the plan's "+first, malformed)
	}
}

// eachRename calls fn for entries of the list of renames for one table.
func eachRename(ctx context.Context, j *job, rest string, args []any, fn func(renamed)) {
	t := j.v.target
	text := "SELECT server, row_key, old_name, new_name, new_key FROM " + t.kind.quote(listOfRenames) +
		" WHERE tbl = " + t.kind.placeholder(1) + rest
	t.each(ctx, text, append([]any{j.name}, args...), func(values []any) {
		row := textsOf(values)
		fn(renamed{number: row[0], server: j.v.position(row[0]), key: row[1], old: row[2], now: row[3],
			newKey: row[4]})
	})
}

// renamesAfter reads a page of the list.
func renamesAfter(ctx context.Context, j *job, last renamed) (page []renamed) {
	number := int64(-1)
	if last.server >= 0 {
		number = j.v.plan.Servers[last.server].Number
	}
	p := j.v.target.kind.placeholder
	eachRename(ctx, j, " AND (server > "+p(2)+" OR server = "+p(3)+" AND row_key > "+p(4)+
		") ORDER BY server, row_key LIMIT 1000", []any{number, number, last.key}, func(n renamed) {
		if n.server >= 0 {
			page = append(page, n)
		}
	})
	return page
}

// keepers checks that whoever has a new name lost the old one to a row that comes first by the plan, and that
// the list names rows of the sources only.
func keepers(ctx context.Context, j *job) {
	v, r := j.v, j.plan.Rename
	if r == nil || j.names.len() == 0 {
		return
	}
	listed := make([]int64, len(v.sources))
	var wrong int64
	first := ""
	last := renamed{server: -1}
	for batch := renamesAfter(ctx, j, last); len(batch) > 0; batch = renamesAfter(ctx, j, last) {
		for _, n := range batch {
			listed[n.server]++
		}
		last = batch[len(batch)-1]
		if r.Keep == "none" {
			continue
		}
		for some := range slices.Chunk(batch, lookupBatch) {
			n, example := decide(ctx, j, some)
			wrong, first = wrong+n, cmp.Or(first, example)
		}
	}
	for i, s := range v.plan.Servers {
		met := int64(0)
		if own := j.side(i); own != nil {
			met = own.met
		}
		if listed[i] > 0 || met > 0 {
			v.compare("names", j.name, s.Name, "entries of the list that a row of the source has",
				fmt.Sprint(listed[i]), fmt.Sprint(met))
		}
	}
	if r.Keep != "none" {
		v.none("keeper", j.name, "rows that lost their name to no row before them "+first, wrong)
	}
}

// decide returns how many of the entries have lost their name to no row that comes before them.
func decide(ctx context.Context, j *job, batch []renamed) (wrong int64, example string) {
	t, r := j.v.target, j.plan.Rename
	// Where the name is the key, the row of an old name cannot be told from the row that kept it.
	if len(j.target.primary) != 1 || j.target.primary[0] == r.Column {
		return 0, ""
	}
	primary := j.target.column(j.target.primary[0])
	quoted := t.kind.quote(primary.name)
	by := "NULL"
	if r.By != "" {
		by = t.expression("k", j.target.column(r.By))
	}
	list := func(whose int) string { return fmt.Sprintf("%d, %s, %s", whose, t.expression("k", primary), by) }
	const own, other = 0, 1
	l := lookup{d: t}
	for i, n := range batch {
		// The key of the row itself, and what it has in the column by which one is preferred.
		key := keyValue(n.newKey)
		l.add(i, list(own), j.name, []string{l.equal("k."+quoted, primary, key)})
		for _, unique := range nameKeys(j) {
			var conditions []string
			for pos, name := range unique.columns {
				held := unique.term(t.kind, pos, "k.")
				if name == r.Column {
					conditions = append(conditions, l.equal(held, j.target.column(name), n.old))
				} else {
					conditions = append(conditions, held+" = (SELECT r."+t.kind.quote(name)+" FROM "+
						t.kind.quote(j.name)+" AS r WHERE "+l.equal("r."+quoted, primary, key)+")")
				}
			}
			l.add(i, list(other), j.name, conditions)
		}
	}
	type side struct{ key, by string }
	mine, theirs := make([]*side, len(batch)), make([][]side, len(batch))
	l.each(ctx, func(i int, values []any) {
		s := side{textOf(values[1]), textOf(values[2])}
		if textOf(values[0]) == "0" {
			mine[i] = &s
		} else {
			theirs[i] = append(theirs[i], s)
		}
	})
	for i, n := range batch {
		if mine[i] == nil {
			continue // the comparison of rows finds that the row is missing
		}
		// Which rows a key with a condition or an expression tells apart, only the database knows.
		before := j.target.mentions(r.Column) || slices.ContainsFunc(theirs[i], func(s side) bool {
			return s.key != mine[i].key && keeps(j, n.server, s.key, s.by, mine[i].key, mine[i].by)
		})
		if !before {
			wrong++
			example = cmp.Or(example, fmt.Sprintf("%s: row %s: %q", j.v.plan.Servers[n.server].Name, n.key, n.old))
		}
	}
	return wrong, example
}

// nameKeys returns the unique keys that the name is part of; without one, the name alone is it.
func nameKeys(j *job) (keys []uniqueKey) {
	for _, k := range j.target.unique {
		if slices.Contains(k.columns, j.plan.Rename.Column) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		keys = []uniqueKey{{columns: []string{j.plan.Rename.Column}}}
	}
	return keys
}

// keeps reports whether a row keeps its name rather than another one of a server.
func keeps(j *job, server int, key, by, otherKey, otherBy string) bool {
	switch j.plan.Rename.Keep {
	case "first":
		owner := j.owner(key)
		return owner < 0 || owner <= server
	case "highest":
		return otherBy == "" || by != "" && compareTexts(by, otherBy) >= 0
	}
	return !j.counted() || compareTexts(key, otherKey) < 0
}
