package verify

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// stream reads a whole table in one statement, with the parents of its rows beside them. The program puts
// those of short tables there.
type stream struct {
	*side
	columns   []*column
	positions map[string]int // by name, where a column is in a row
	forms     []form

	edges   []edge            // the links
	key     []int             // where the key is by which lists name the row
	set     map[string]string // by column that the plan sets, the expression
	renamed map[int]int       // by column that is another one in rows with a new name, where that is
	named   int               // where it says whether a row may get a new name; -1 if every row may
	width   int               // of a row, with what the program knows of its parents

	tell func(rows int) // of rows that were read
}

// edge is a link, and where more of it is in a row.
type edge struct {
	reference
	applies int    // whether its condition holds; -1 if it has none
	there   int    // whether the parent is there; -1 if it is not looked up
	known   []int  // by what the parent is known
	forms   []form // of these columns of the parent

	parents *parents // if the program finds them, by the value at a position
	by      int
}

func newStream(s *side, columns []*column) *stream {
	r := &stream{side: s, columns: columns, positions: map[string]int{}}
	for i, c := range columns {
		r.positions[c.name], r.forms = i, append(r.forms, s.form(c))
	}
	r.tell = func(rows int) { s.v.progress(s.name, s.d.Name, rows) }
	return r
}

// indexes returns where columns are in a row, or nil if it lacks one of them.
func (s *stream) indexes(names []string) (all []int) {
	for _, name := range names {
		pos, has := s.positions[name]
		if !has {
			return nil
		}
		all = append(all, pos)
	}
	return all
}

// each calls fn for every row. It is called once.
func (s *stream) each(ctx context.Context, fn func(values []any)) {
	rows, text := 0, s.text(ctx)
	row := make([]any, s.width)
	s.d.steadily(ctx, text, func(values []any) {
		if rows++; rows == 1000 {
			s.tell(rows)
			rows = 0
		}
		copy(row, values)
		for _, e := range s.edges {
			if e.parents != nil {
				e.parents.put(row[e.there:e.there+1+len(e.known)], row[e.by])
			}
		}
		fn(row)
	})
	s.tell(rows)
}

// text is the statement. Conditions of the plan see one table only, so their columns need no prefix.
func (s *stream) text(ctx context.Context) string {
	var list, joins []string
	put := func(expression string) int {
		list = append(list, expression)
		return len(list) - 1
	}
	var inner []string // by name, because * leaves invisible columns out
	for _, c := range s.table.columns {
		inner = append(inner, "s."+s.d.kind.quote(c.name))
	}
	s.set, s.renamed, s.named = map[string]string{}, map[int]int{}, -1
	computed := func(expression string) string {
		name := "merge_v" + strconv.Itoa(len(inner))
		inner = append(inner, "("+s.fill(expression)+") AS "+name)
		return "c." + name
	}
	for _, c := range s.columns {
		own := s.table.column(c.name)
		switch set := s.sets(c.name); {
		case set != "":
			s.set[c.name] = computed(set)
			put(s.plain(s.set[c.name]))
		case s.writes(own, c):
			put(s.d.expression("c", own) + "::" + c.declared + "::text")
		case own != nil:
			put(s.d.expression("c", own))
		default:
			put("NULL")
		}
	}
	if r := s.plan.Rename; s.server >= 0 && r != nil {
		if r.When != "" {
			s.named = put(s.plain(computed("CASE WHEN " + r.When + " THEN 1 ELSE 0 END")))
		}
		for i, c := range s.columns {
			if set := s.plan.Set[c.name]; strings.Contains(set, ofRenamed) {
				s.renamed[i] = put(s.plain(computed(strings.ReplaceAll(set, ofRenamed, "1"))))
			}
		}
	}
	for _, name := range s.rowKey() {
		if pos, has := s.positions[name]; has && s.plan.Set[name] == "" {
			s.key = append(s.key, pos)
		} else if own := s.table.column(name); own != nil {
			s.key = append(s.key, put(s.d.expression("c", own)))
		}
	}
	if len(s.key) != len(s.rowKey()) {
		s.key = nil
	}
	for n, r := range s.links {
		e := edge{reference: r, applies: -1, there: -1}
		if r.when != "" && s.server >= 0 {
			e.applies = put(s.plain(computed("CASE WHEN " + r.when + " THEN 1 ELSE 0 END")))
		}
		expression, join := s.parent(n, r)
		if join != "" {
			e.parents, e.by = s.beside(ctx, n, r, join)
		}
		if expression != "" && e.parents == nil {
			if e.there = put(expression); join != "" {
				joins = append(joins, join)
				for _, name := range r.natural {
					parent := s.v.jobs[r.parent]
					e.known = append(e.known, put(s.d.expression(parentAlias(n), s.d.tables[r.parent].column(name))))
					e.forms = append(e.forms, parent.form(parent.target.column(name)))
				}
			}
		}
		s.edges = append(s.edges, e)
	}
	if len(list) == 0 { // somebody has renamed all columns of the target
		list = []string{"1"}
	}
	s.width = len(list)
	for i := range s.edges {
		e := &s.edges[i]
		if e.parents == nil {
			continue
		}
		parent := s.v.jobs[e.parent]
		e.there, s.width = s.width, s.width+1
		for _, name := range e.natural {
			e.known, e.forms = append(e.known, s.width), append(e.forms, parent.form(parent.target.column(name)))
			s.width++
		}
	}
	from, kept := s.d.kind.quote(s.name), ""
	if s.server >= 0 {
		kept = s.kept()
	}
	if kept != "" || len(inner) > len(s.table.columns) {
		from = "(SELECT " + strings.Join(inner, ", ") + " FROM " + from + " AS s" + where(kept) + ")"
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + from + " AS c" + strings.Join(joins, "")
}

// writes reports whether the text of a server that becomes a span of time or an array is first written as
// PostgreSQL writes these. A text can say both in several ways.
func (s *stream) writes(own, c *column) bool {
	return own != nil && s.server >= 0 && s.d.kind == postgres && slices.Contains(s.plan.Convert, c.name) &&
		(strings.HasPrefix(c.declared, "interval") || strings.HasSuffix(c.declared, "[]"))
}

// rowKey returns the columns by which the lists of the merge name a row: the primary key that it has on its
// server.
func (s *stream) rowKey() []string {
	if s.server < 0 || len(s.table.primary) == 0 ||
		slices.ContainsFunc(s.table.primary, func(name string) bool { return s.target.column(name) == nil }) {
		return s.target.primary
	}
	return s.table.primary
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

func parentAlias(n int) string { return "p" + strconv.Itoa(n) }

// parent returns an expression that is 1 if the parent of a row is there, and the join that finds it. The
// join is "" if nobody asks what is in the parent, and both are if it is not looked up.
func (s *stream) parent(n int, r reference) (expression, join string) {
	p, table := s.v.plan.Tables[r.parent], s.d.tables[r.parent]
	// In the target, no condition of the plan tells which rows have the reference.
	if r.inside() || r.when != "" && s.server < 0 || p == nil || p.Policy == policySkip && !r.enforced {
		return "", ""
	}
	listed := s.listed(r, "c")
	switch {
	case s.server >= 0 && p.Policy == policySkip && listed != "":
		return "CASE WHEN " + listed + " THEN 0 ELSE 1 END", ""
	case s.server >= 0 && p.Policy == policySkip:
		return "", ""
	case s.server >= 0 && (p.Policy == policyRebuild || table == nil):
		return "CASE WHEN " + cmp.Or(listed, "1 = 0") + " THEN 1 ELSE 0 END", ""
	case table == nil:
		return "", ""
	}
	from, condition, key := s.parents(r, parentAlias(n), func(name string) (string, *column) {
		if set := s.set[name]; set != "" {
			return set, s.target.column(name)
		}
		return "c." + s.d.kind.quote(name), s.table.column(name)
	}, r.natural)
	if from == "" {
		return "", ""
	}
	found := "EXISTS (SELECT 1 FROM " + from + " WHERE " + condition + ")"
	if len(r.natural) > 0 {
		found, join = key+" IS NOT NULL", " LEFT JOIN "+from+" ON "+condition
	}
	if listed != "" { // what the own server does not have, another one may
		found += " OR " + listed
	}
	return "CASE WHEN " + found + " THEN 1 ELSE 0 END", join
}
