package verify

import (
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

// contest finds out who has the name that a row lost.
type contest struct {
	v *verifier
	j *job
}

// readNames reads the list of renames, which the players are told by. That each entry is right, and that no
// row has another name, is checked later.
func (c *contest) readNames(ctx context.Context) error {
	v, j := c.v, c.j
	r := j.plan.Rename
	if r == nil {
		return nil
	}
	j.names = newIndex()
	entries, malformed, first := 0, 0, ""
	err := c.eachRename(ctx, func(n renamed) error {
		entries++
		if !r.formed(n.old, n.now, v.plan.Servers[n.server].Number, j.to.column(r.Column).declared) {
			if malformed++; malformed == 1 {
				first = fmt.Sprintf("%s: row %s: %q from %q", v.plan.Servers[n.server].Name, n.key, n.now, n.old)
			}
		}
		if err := j.names.set(rowAt(n.server, n.key), n.newKey+"\x00"+n.old+"\x00"+n.now); err != nil {
			return err
		}
		if part := j.identified(n.key); part != "" {
			if err := j.names.set(rowAt(n.server, part), n.newKey+"\x00"+n.old+"\x00"+n.now); err != nil {
				return err
			}
		}
		return j.names.set(sumOf([]byte("name "+strconv.Itoa(n.server)+" "+n.old)), n.now)
	})
	if entries > 0 {
		v.compare("names", j.name, "", strings.TrimSpace("new names of another form than the plan's "+first), "0",
			strconv.Itoa(malformed))
	}
	return err
}

// entries reads entries of the list of renames for one table.
func (c *contest) entries(ctx context.Context, rest string, args []any, fn func(renamed) error) error {
	v := c.v
	k, newKey := v.target.kind, "new_key"
	if v.keyless {
		newKey = "''"
	}
	return v.target.each(ctx, "SELECT server, row_key, old_name, new_name, "+newKey+" FROM "+
		k.quote(listOfRenames)+" WHERE tbl = "+k.placeholder(1)+rest, args, func(values []any) error {
		number := textOf(values[0])
		return fn(renamed{number: number, server: v.position(number), key: textOf(values[1]),
			old: textOf(values[2]), now: textOf(values[3]), newKey: textOf(values[4])})
	})
}

// eachRename calls fn for the entries of one table.
func (c *contest) eachRename(ctx context.Context, fn func(renamed) error) error {
	return c.entries(ctx, "", []any{c.j.name}, func(n renamed) error {
		if n.server < 0 {
			c.v.compare("names", c.j.name, "", "an entry of a server that the plan does not name", "", n.number)
			return nil
		}
		return fn(n)
	})
}

// renamesAfter reads a page of the list.
func (c *contest) renamesAfter(ctx context.Context, last renamed) (page []renamed, err error) {
	v, j := c.v, c.j
	number := int64(-1)
	if last.server >= 0 {
		number = v.plan.Servers[last.server].Number
	}
	p := v.target.kind.placeholder
	rest := " AND (server > " + p(2) + " OR server = " + p(3) + " AND row_key > " + p(4) +
		") ORDER BY server, row_key LIMIT 1000"
	err = c.entries(ctx, rest, []any{j.name, number, number, last.key}, func(n renamed) error {
		if n.server >= 0 {
			page = append(page, n)
		}
		return nil
	})
	return page, err
}

// keeperBatch is how many names one statement looks up.
const keeperBatch = 50

// keepers checks that whoever has a new name lost the old one to a row that comes first by the plan, and that
// the list names rows of the sources only.
func (c *contest) keepers(ctx context.Context) error {
	v, j := c.v, c.j
	r := j.plan.Rename
	if r == nil || j.names.len() == 0 {
		return nil
	}
	listed := make([]int64, len(v.sources))
	var wrong int64
	first := ""
	for last := (renamed{server: -1}); ; {
		batch, err := c.renamesAfter(ctx, last)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		for _, n := range batch {
			listed[n.server]++
		}
		last = batch[len(batch)-1]
		if r.Keep == "none" {
			continue
		}
		for some := range slices.Chunk(batch, keeperBatch) {
			n, example, err := c.decide(ctx, some)
			if err != nil {
				return err
			}
			if wrong += n; first == "" {
				first = example
			}
		}
	}
	for i, s := range v.plan.Servers {
		met := int64(0)
		if j.metNames != nil {
			met = j.metNames[i]
		}
		if listed[i] > 0 || met > 0 {
			v.compare("names", j.name, s.Name, "entries of the list that a row of the source has",
				fmt.Sprint(listed[i]), fmt.Sprint(met))
		}
	}
	if r.Keep != "none" {
		v.compare("keeper", j.name, "",
			strings.TrimSpace("rows that lost their name to no row before them "+first), "0", fmt.Sprint(wrong))
	}
	return nil
}

// decide returns how many of the entries have lost their name to no row that comes before them.
func (c *contest) decide(ctx context.Context, batch []renamed) (wrong int64, example string, err error) {
	k, j := c.v.target.kind, c.j
	r := j.plan.Rename
	// Where the name is the key, the row of an old name cannot be told from the row that kept it.
	if len(j.to.primary) != 1 || j.to.primary[0] == r.Column {
		return 0, "", nil
	}
	primary := j.to.column(j.to.primary[0])
	keys := c.nameKeys()
	by := "NULL"
	if r.By != "" {
		by = c.v.target.expression("k", j.to.column(r.By))
	}
	var parts []string
	var args []any
	own := make([]any, len(batch))
	bind := func(value any, column *column) string {
		args = append(args, value)
		if k == postgres && column != nil {
			return "CAST(" + k.placeholder(len(args)) + " AS " + column.declared + ")"
		}
		return k.placeholder(len(args))
	}
	// The key of the row itself, and what it has in the column by which one is preferred.
	for i, n := range batch {
		if own[i] = c.ownKey(n); k == postgres {
			own[i] = typed(own[i], primary)
		}
		parts = append(parts, fmt.Sprintf("SELECT %d AS i, 0 AS w, %s, %s FROM %s AS k WHERE k.%s = %s", i,
			c.v.target.expression("k", primary), by, k.quote(j.name), k.quote(primary.name), bind(own[i], primary)))
		for _, key := range keys {
			var on []string
			for at, name := range key.columns {
				side := key.term(k, at, "k.")
				if name == r.Column {
					on = append(on, side+" = "+bind(n.old, j.to.column(name)))
					continue
				}
				on = append(on, side+" = (SELECT r."+k.quote(name)+" FROM "+k.quote(j.name)+" AS r WHERE r."+
					k.quote(primary.name)+" = "+bind(own[i], primary)+")")
			}
			parts = append(parts, fmt.Sprintf("SELECT %d AS i, 1 AS w, %s, %s FROM %s AS k WHERE %s", i,
				c.v.target.expression("k", primary), by, k.quote(j.name), strings.Join(on, " AND ")))
		}
	}
	type side struct{ key, by string }
	mine, theirs := make([]*side, len(batch)), make([][]side, len(batch))
	err = c.v.target.each(ctx, strings.Join(parts, " UNION ALL "), args, func(values []any) error {
		i, err := strconv.Atoi(textOf(values[0]))
		if err != nil {
			return err
		}
		s := side{textOf(values[2]), textOf(values[3])}
		if textOf(values[1]) == "0" {
			mine[i] = &s
		} else {
			theirs[i] = append(theirs[i], s)
		}
		return nil
	})
	for i, n := range batch {
		if err != nil || mine[i] == nil {
			continue // the comparison of rows finds that the row is missing
		}
		// Which rows a key with a condition or an expression tells apart, only the database knows.
		before := slices.ContainsFunc(j.to.opaque, func(text string) bool {
			return text == "*" || strings.Contains(strings.ToLower(text), strings.ToLower(r.Column))
		}) || slices.ContainsFunc(theirs[i], func(s side) bool {
			return s.key != mine[i].key && c.before(n.server, s.key, s.by, mine[i].key, mine[i].by)
		})
		if !before {
			if wrong++; example == "" {
				example = fmt.Sprintf("%s: row %s: %q", c.v.plan.Servers[n.server].Name, n.key, n.old)
			}
		}
	}
	return wrong, example, err
}

// typed returns a key as PostgreSQL takes it for a column, or nil if no row can have it, because the list may
// be wrong.
func typed(key any, c *column) any {
	n, whole := key.(int64)
	switch {
	case whole && c.class != classNumber:
		return strconv.FormatInt(n, 10)
	case !whole && c.class == classNumber && !number.MatchString("-"+textOf(key)):
		return nil
	}
	return key
}

// nameKeys returns the unique keys that the name is part of; without one, the name alone is it.
func (c *contest) nameKeys() (keys []uniqueKey) {
	for _, k := range c.j.to.unique {
		if slices.Contains(k.columns, c.j.plan.Rename.Column) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		keys = []uniqueKey{{columns: []string{c.j.plan.Rename.Column}}}
	}
	return keys
}

// ownKey returns the key that a renamed row has in the target.
func (c *contest) ownKey(n renamed) any {
	switch {
	case !c.v.keyless:
		return keyValue(n.newKey)
	case c.j.offsets != nil:
		return c.v.shifted(c.j, n.server, n.key)
	}
	return keyValue(n.key)
}

// before reports whether a row keeps its name rather than another one of a server.
func (c *contest) before(server int, key, by, otherKey, otherBy string) bool {
	switch c.j.plan.Rename.Keep {
	case "first":
		owner := c.v.owner(c.j, key)
		return owner < 0 || owner <= server
	case "highest":
		return otherBy == "" || by != "" && compareTexts(by, otherBy) >= 0
	}
	if !c.j.counted() {
		return true
	}
	return compareTexts(key, otherKey) < 0
}
