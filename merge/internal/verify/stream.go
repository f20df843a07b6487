package verify

import (
	"context"
	"slices"
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
	renamed map[int]int       // by column that is another one in rows with a new name, where that is
	named   int               // where it says whether a row may get a new name; -1 if every row may

	tell func(rows int) // of rows that were read
}

// newStream returns the stream of a source or, with server -1, of the target.
func newStream(v *verifier, j *job, server int, columns []*column) *stream {
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
	s.set, s.renamed, s.named = map[string]string{}, map[int]int{}, -1
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
	if r := s.j.plan.Rename; s.server >= 0 && r != nil {
		if r.When != "" {
			s.named = put(s.plain(computed("CASE WHEN " + s.fill(r.When) + " THEN 1 ELSE 0 END")))
		}
		for i, c := range s.columns {
			if set := s.j.plan.Set[c.name]; strings.Contains(set, ofRenamed) {
				s.renamed[i] = put(s.plain(computed(s.fill(strings.ReplaceAll(set, ofRenamed, "1")))))
			}
		}
	}
	s.key = s.key[:0]
	for _, name := range s.rowKey() {
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
	if len(s.key) != len(s.rowKey()) {
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
		from = "(SELECT " + strings.Join(inner, ", ") + " FROM " + k.quote(
			s.from.name,
		) + " AS s" + kept + ") AS c"
	}
	if len(list) == 0 {
		list = []string{"1"}
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + from + strings.Join(joins, "")
}

// rowKey returns the columns by which the lists of the merge name a row: the primary key that it has on its
// server.
func (s *stream) rowKey() []string {
	if s.server < 0 || len(s.from.primary) == 0 ||
		slices.ContainsFunc(s.from.primary, func(name string) bool { return s.j.to.column(name) == nil }) {
		return s.j.to.primary
	}
	return s.from.primary
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
func (s *stream) fill(expression string) string { return s.v.fill(s.d, expression) }

func (s *stream) relation(name string) *relation { return s.d.tables[name] }

// parent returns an expression that is 1 if the parent of a row is there, and the join that finds it. Both
// are "" if it is not looked up.
func (s *stream) parent(n int, r reference) (expression, join, alias string) {
	k := s.d.kind
	// In the target, no condition of the plan tells which rows have the reference.
	if r.inside() || r.when != "" && s.server < 0 {
		return "", "", ""
	}
	p := s.v.plan.Tables[r.parent]
	if p == nil || p.Policy == policySkip && !r.enforced {
		return "", "", ""
	}
	table := s.relation(r.parent)
	// What the own server does not have, another one may.
	there := r.listed(s.d, s.from, "c", r.far.there, s.server)
	if s.server >= 0 {
		gone := r.listed(s.d, s.from, "c", r.far.gone, s.server)
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
			keys, on = append(keys, alias+"."+k.quote(parent.name)),
				append(on, s.v.compared(r, i, s.server, alias, parent, "c", child))
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
	return "CASE WHEN EXISTS (SELECT 1 FROM " + from + " AS " + alias + " WHERE " + strings.Join(on, " AND ") +
		")" + there + " THEN 1 ELSE 0 END", "", alias
}
