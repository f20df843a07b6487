package verify

import (
	"context"
	"strconv"
	"strings"
)

// stream reads a whole table in one statement, with the parents of its rows beside them.
type stream struct {
	v       *verifier
	d       *database
	j       *job
	from    *relation
	server  int // -1 for the target
	columns []*column
	links   []reference

	// The positions in a row.
	key     []int
	when    []int             // by link; -1 if it has no condition
	there   []int             // by link; -1 if it is not looked up
	natural [][]int           // by link
	set     map[string]string // by column that the plan sets, the expression

	tell func(rows int) // of rows that were read
}

// newStream returns the stream of a source or, with server -1, of the target.
func (v *verifier) newStream(j *job, server int, columns []*column) *stream {
	s := &stream{v: v, d: v.target, j: j, from: j.to, server: server, columns: columns, links: j.links}
	if server >= 0 {
		s.d, s.from = v.sources[server], j.from[server]
	}
	s.tell = func(rows int) { v.progress(j.name, s.d.Name, rows) }
	return s
}

// each calls fn for every row.
func (s *stream) each(ctx context.Context, fn func(values []any) error) error {
	text := s.text()
	rows := 0
	err := s.d.steadily(ctx, text, func(values []any) error {
		if rows++; rows == 1000 {
			s.tell(rows)
			rows = 0
		}
		return fn(values)
	})
	s.tell(rows)
	return err
}

// text is the statement. Conditions of the plan see one table only, so their columns need no prefix.
func (s *stream) text() string {
	k := s.d.kind
	var list, joins []string
	put := func(expression string) int {
		list = append(list, expression)
		return len(list) - 1
	}
	inner := []string{"s.*"}
	s.set = map[string]string{}
	computed := func(expression string) string {
		name := "merge_v" + strconv.Itoa(len(inner))
		inner = append(inner, "("+expression+") AS "+name)
		return "c." + name
	}
	for _, c := range s.columns {
		if set := s.j.plan.Set[c.name]; set != "" && s.server >= 0 {
			s.set[c.name] = computed(s.fill(set))
			put(s.plain(s.set[c.name]))
			continue
		}
		if own := s.from.column(c.name); own != nil {
			put(s.d.expression("c", own))
		} else {
			put("NULL")
		}
	}
	s.key = s.key[:0]
	for _, name := range s.j.to.primary {
		at := -1
		for i, c := range s.columns {
			if c.name == name && s.j.plan.Set[name] == "" {
				at = i
			}
		}
		if own := s.from.column(name); at < 0 && own != nil {
			at = put(s.d.expression("c", own))
		}
		if at >= 0 {
			s.key = append(s.key, at)
		}
	}
	if len(s.key) != len(s.j.to.primary) {
		s.key = nil
	}
	s.when, s.there, s.natural = nil, nil, nil
	for n, r := range s.links {
		when, there, natural := -1, -1, []int(nil)
		if r.when != "" && s.server >= 0 {
			when = put(s.plain(computed("CASE WHEN " + s.fill(r.when) + " THEN 1 ELSE 0 END")))
		}
		if expression, join, alias := s.parent(n, r); expression != "" {
			there = put(expression)
			if join != "" {
				joins = append(joins, join)
				for _, name := range r.natural {
					natural = append(natural, put(s.d.expression(alias, s.relation(r.parent).column(name))))
				}
			}
		}
		s.when, s.there, s.natural = append(s.when, when), append(s.there, there), append(s.natural, natural)
	}
	from := k.quote(s.from.name) + " AS c"
	kept := ""
	if s.server >= 0 {
		kept = s.v.kept(s.j, s.server, "s")
	}
	if kept != "" || len(inner) > 1 {
		if kept != "" {
			kept = " WHERE " + kept
		}
		from = "(SELECT " + strings.Join(
			inner,
			", ",
		) + " FROM " + k.quote(
			s.from.name,
		) + " AS s" + kept + ") AS c"
	}
	if len(list) == 0 {
		list = []string{"1"}
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + from + strings.Join(joins, "")
}

// plain hides the type of an expression from drivers.
func (s *stream) plain(expression string) string {
	switch s.d.kind {
	case postgres:
		return expression + "::text"
	case sqlite:
		return "+" + expression
	}
	return expression
}

// fill puts the numbers of the servers into an expression of the plan.
func (s *stream) fill(expression string) string { return s.d.fill(s.v, expression) }

func (d *database) fill(v *verifier, expression string) string {
	return strings.NewReplacer("{server}", strconv.FormatInt(d.Number, 10),
		"{target}", strconv.FormatInt(v.plan.Target.Number, 10)).Replace(expression)
}

func (s *stream) relation(name string) *relation { return s.d.tables[name] }

// parent returns an expression that is 1 if the parent of a row is there, and the join that finds it. Both
// are "" if it is not looked up.
func (s *stream) parent(n int, r reference) (expression, join, alias string) {
	k := s.d.kind
	// In the target, no condition of the plan tells which rows have the reference.
	if r.path != "" || r.list != "" || r.when != "" && s.server < 0 {
		return "", "", ""
	}
	p := s.v.plan.Tables[r.parent]
	if p == nil || p.Policy == policySkip && !r.enforced {
		return "", "", ""
	}
	table := s.relation(r.parent)
	here := "c." + k.quote(r.columns[0])
	// What the own server does not have, another one may.
	there := in(here, at(r.far.there, s.server))
	if s.server >= 0 {
		gone := in(here, at(r.far.gone, s.server))
		switch {
		case (p.Policy == policyRebuild || table == nil && p.Policy != policySkip) && there == "":
			return "0", "", ""
		case p.Policy == policyRebuild || table == nil && p.Policy != policySkip:
			return "CASE WHEN " + there + " THEN 1 ELSE 0 END", "", ""
		case p.Policy == policySkip && gone == "":
			return "", "", ""
		case p.Policy == policySkip:
			return "CASE WHEN " + gone + " THEN 0 ELSE 1 END", "", ""
		}
	}
	if there != "" {
		there = " OR " + there
	}
	if table == nil {
		return "", "", ""
	}
	alias = "p" + strconv.Itoa(n)
	var on, keys []string
	inner := []string{"*"}
	for i, name := range r.columns {
		child, parent := s.from.column(name), table.column(r.targets[i])
		value, key := s.set[name], ""
		if set := p.Set[r.targets[i]]; set != "" && s.server >= 0 {
			// The expression is computed where it sees the columns of its own table only.
			key = alias + ".merge_k" + strconv.Itoa(len(inner))
			inner = append(inner, "("+s.fill(set)+") AS merge_k"+strconv.Itoa(len(inner)))
			parent = s.v.jobs[r.parent].to.column(r.targets[i])
		}
		if value != "" {
			child = s.j.to.column(name)
		}
		if child == nil || parent == nil {
			return "", "", ""
		}
		if value == "" && key == "" {
			keys, on = append(keys, alias+"."+k.quote(parent.name)), append(on, equal(k, alias, parent, "c", child))
			continue
		}
		if value == "" {
			value = "c." + k.quote(name)
		}
		if key == "" {
			key = alias + "." + k.quote(parent.name)
		}
		keys, on = append(keys, key), append(on, same(k, key, parent, value, child))
	}
	kept := ""
	if s.server >= 0 && s.v.jobs[r.parent] != nil {
		kept = s.v.kept(s.v.jobs[r.parent], s.server, "s")
	}
	from := k.quote(r.parent)
	if kept != "" || len(inner) > 1 {
		if kept != "" {
			kept = " WHERE " + kept
		}
		inner[0] = "s.*"
		from = "(SELECT " + strings.Join(inner, ", ") + " FROM " + k.quote(r.parent) + " AS s" + kept + ")"
	}
	if r.joinable && len(r.natural) > 0 {
		return "CASE WHEN " + keys[0] + " IS NOT NULL" + there + " THEN 1 ELSE 0 END",
			" LEFT JOIN " + from + " AS " + alias + " ON " + strings.Join(on, " AND "), alias
	}
	return "CASE WHEN EXISTS (SELECT 1 FROM " + from + " AS " + alias + " WHERE " + strings.Join(
		on,
		" AND ",
	) +
		")" + there + " THEN 1 ELSE 0 END", "", alias
}

// same compares two values of which the plan sets at least one. Only PostgreSQL minds their types, which may
// be others than those of their columns. A number is the same in every type that holds it.
func same(k kind, key string, x *column, value string, y *column) string {
	number := func(c *column) bool {
		return (c.class == classNumber || c.class == classFloat) && c.declared != "boolean"
	}
	switch {
	case k != postgres:
		return key + " = " + value
	case number(x) && number(y):
		return key + "::numeric = " + value + "::numeric"
	}
	return key + "::text = " + value + "::text"
}

// equal compares two columns. PostgreSQL does not compare columns of different types.
func equal(k kind, a string, x *column, b string, y *column) string {
	left, right := a+"."+k.quote(x.name), b+"."+k.quote(y.name)
	if k == postgres && x.class != y.class {
		return left + "::text = " + right + "::text"
	}
	return left + " = " + right
}

// kept returns the condition under which a row of a source is copied, or "".
func (v *verifier) kept(j *job, server int, alias string, above ...string) string {
	var all []string
	if j.plan.Where != "" {
		all = append(all, "("+j.plan.Where+")")
	}
	if j.plan.Orphans == "drop" {
		for _, name := range above {
			if name == j.name {
				return strings.Join(all, " AND ") // a circle is followed for one step
			}
		}
		for _, r := range j.links {
			if missing := v.missing(j, r, server, alias, above...); missing != "" {
				all = append(all, "NOT ("+missing+")")
			}
		}
	}
	return strings.Join(all, " AND ")
}

// missing returns the condition under which the target will not have the parent of a row, or "" if nobody
// looks.
func (v *verifier) missing(j *job, r reference, server int, alias string, above ...string) string {
	d, p := v.sources[server], v.plan.Tables[r.parent]
	refers := v.refers(j, r, server, alias)
	if p == nil || refers == "" {
		return ""
	}
	value, _ := v.given(j, server, r.columns[0], alias)
	if p.Policy == policySkip {
		gone := in(value, at(r.far.gone, server))
		if gone == "" {
			return ""
		}
		return refers + " AND " + gone
	}
	if parent := v.jobs[r.parent]; parent != nil && d.tables[r.parent] != nil {
		other := alias + "p"
		kept := v.kept(parent, server, other, append(above, j.name)...)
		refers += " AND NOT EXISTS (SELECT 1 FROM " + v.found(j, r, server, alias, other, kept) + ")"
	}
	if there := in(value, at(r.far.there, server)); there != "" {
		refers += " AND NOT (" + there + ")"
	}
	return refers
}

// refers returns the condition under which a row of a source has a reference, or "" if nobody looks.
func (v *verifier) refers(j *job, r reference, server int, alias string) string {
	if r.path != "" || r.list != "" {
		return ""
	}
	var all []string
	for _, name := range r.columns {
		value, c := v.given(j, server, name, alias)
		if c == nil {
			return ""
		}
		all = append(all, value+" IS NOT NULL")
	}
	if r.when != "" { // the whole is negated, and a condition that is NULL must not make that NULL
		all = append(all, "CASE WHEN "+r.when+" THEN 1 ELSE 0 END = 1")
	}
	return strings.Join(all, " AND ")
}

// found returns the rest of a statement that finds the parents of a row among those that meet a condition.
// They are known by the values that the plan gives to both, because the target holds those.
func (v *verifier) found(j *job, r reference, server int, alias, other, kept string) string {
	d, parent := v.sources[server], v.jobs[r.parent]
	set := false
	for i, name := range r.columns {
		set = set || j.plan.Set[name] != "" || parent.plan.Set[r.targets[i]] != ""
	}
	from := d.kind.quote(r.parent) + " AS " + other
	var on, keys []string
	for i, name := range r.columns {
		value, c := v.given(j, server, name, alias)
		key, to := v.given(parent, server, r.targets[i], other)
		switch {
		case to == nil:
		case set:
			// Beside an expression, the other table shows nothing but its keys, so that each expression sees the
			// columns of its own table.
			n := ".merge_k" + strconv.Itoa(i)
			keys = append(keys, key+" AS "+n[1:])
			on = append(on, same(d.kind, other+"k"+n, to, value, c))
		default:
			on = append(on, equal(d.kind, other, to, alias, c))
		}
	}
	if !set {
		if kept != "" {
			on = append(on, kept)
		}
		return from + " WHERE " + strings.Join(on, " AND ")
	}
	if kept != "" {
		from += " WHERE " + kept
	}
	return "(SELECT " + strings.Join(keys, ", ") + " FROM " + from + ") AS " + other + "k WHERE " +
		strings.Join(on, " AND ")
}

// given returns the value that the plan gives to a column of a source, and the column that tells its type.
// The column is nil if the server has none.
func (v *verifier) given(j *job, server int, name, alias string) (string, *column) {
	d := v.sources[server]
	if set := j.plan.Set[name]; set != "" {
		return "(" + d.fill(v, set) + ")", j.to.column(name)
	}
	return alias + "." + d.kind.quote(name), j.from[server].column(name)
}
