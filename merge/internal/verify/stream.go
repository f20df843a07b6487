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
}

// newStream returns the stream of a source or, with server -1, of the target.
func (v *verifier) newStream(j *job, server int, columns []*column) *stream {
	s := &stream{v: v, d: v.target, j: j, from: j.to, server: server, columns: columns, links: j.links}
	if server >= 0 {
		s.d, s.from = v.sources[server], j.from[server]
	}
	return s
}

// each calls fn for every row.
func (s *stream) each(ctx context.Context, fn func(values []any) error) error {
	text := s.text()
	rows := 0
	err := s.d.each(ctx, text, nil, func(values []any) error {
		if rows++; rows == 1000 {
			s.v.progress(s.j.name, s.d.Name, rows)
			rows = 0
		}
		return fn(values)
	})
	s.v.progress(s.j.name, s.d.Name, rows)
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
	if r.path != "" || r.list != "" || r.when != "" {
		return "", "", ""
	}
	p := s.v.plan.Tables[r.parent]
	if p == nil || p.Policy == policySkip && !r.enforced {
		return "", "", ""
	}
	table := s.relation(r.parent)
	if s.server >= 0 {
		if p.Policy == policyRebuild || table == nil {
			return "0", "", ""
		}
		if p.Policy == policySkip {
			return "", "", ""
		}
	}
	if table == nil {
		return "", "", ""
	}
	alias = "p" + strconv.Itoa(n)
	var on []string
	for i, name := range r.columns {
		child, parent := s.from.column(name), table.column(r.targets[i])
		if set := s.set[name]; set != "" && parent != nil {
			on = append(on, s.plain(alias+"."+k.quote(parent.name))+" = "+s.plain(set))
			continue
		}
		if child == nil || parent == nil {
			return "", "", ""
		}
		on = append(on, equal(k, alias, parent, "c", child))
	}
	kept := ""
	if s.server >= 0 && s.v.jobs[r.parent] != nil {
		kept = s.v.kept(s.v.jobs[r.parent], s.server, "s")
	}
	from := k.quote(r.parent)
	if kept != "" {
		from = "(SELECT * FROM " + k.quote(r.parent) + " AS s WHERE " + kept + ")"
	}
	if r.joinable && len(r.natural) > 0 {
		return "CASE WHEN " + alias + "." + k.quote(r.targets[0]) + " IS NULL THEN 0 ELSE 1 END",
			" LEFT JOIN " + from + " AS " + alias + " ON " + strings.Join(on, " AND "), alias
	}
	return "CASE WHEN EXISTS (SELECT 1 FROM " + from + " AS " + alias + " WHERE " + strings.Join(
		on,
		" AND ",
	) +
		") THEN 1 ELSE 0 END", "", alias
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

// missing returns the condition under which the parent of a row is not copied, or "" if nobody looks.
func (v *verifier) missing(j *job, r reference, server int, alias string, above ...string) string {
	d, from := v.sources[server], j.from[server]
	p := v.plan.Tables[r.parent]
	if p == nil || p.Policy == policySkip || r.path != "" || r.list != "" {
		return ""
	}
	var all, on []string
	other := alias + "p"
	table := d.tables[r.parent]
	if j.plan.Set[r.columns[0]] != "" && len(r.columns) == 1 && table != nil && v.jobs[r.parent] != nil {
		return v.missingSet(j, r, server, other, above...)
	}
	for i, name := range r.columns {
		c := from.column(name)
		if c == nil {
			return ""
		}
		all = append(all, alias+"."+d.kind.quote(name)+" IS NOT NULL")
		if table != nil && table.column(r.targets[i]) != nil {
			on = append(on, equal(d.kind, other, table.column(r.targets[i]), alias, c))
		}
	}
	if r.when != "" {
		all = append(all, "("+r.when+")")
	}
	if parent := v.jobs[r.parent]; parent != nil && table != nil {
		if kept := v.kept(parent, server, other, append(above, j.name)...); kept != "" {
			on = append(on, kept)
		}
		all = append(all, "NOT EXISTS (SELECT 1 FROM "+d.kind.quote(r.parent)+" AS "+other+" WHERE "+
			strings.Join(on, " AND ")+")")
	}
	return strings.Join(all, " AND ")
}

// missingSet is missing for a reference that the plan sets. The expression stays outside of the parent, which
// may have columns of the same names.
func (v *verifier) missingSet(j *job, r reference, server int, other string, above ...string) string {
	d := v.sources[server]
	set := "(" + d.fill(v, j.plan.Set[r.columns[0]]) + ")"
	key := other + "." + d.kind.quote(r.targets[0])
	held := key + " IS NOT NULL"
	if kept := v.kept(v.jobs[r.parent], server, other, append(above, j.name)...); kept != "" {
		held += " AND " + kept
	}
	missing := set + " IS NOT NULL AND " + set + " NOT IN (SELECT " + key + " FROM " +
		d.kind.quote(r.parent) + " AS " + other + " WHERE " + held + ")"
	if r.when != "" {
		missing += " AND (" + r.when + ")"
	}
	return missing
}
