package merge

import (
	"slices"
	"strings"
)

// selection builds the statements that read a table of a source. They say which rows are copied: those
// that meet the condition of the plan and, if orphans are dropped, whose parents are copied too.
type selection struct {
	m      *Merge
	kind   Kind
	server int
	prefix string // the schema, where the statement runs in the target's connection
	// literally has keys written into the text, for the one statement that cannot bind.
	literally bool
}

func (m *Merge) selection(server int) selection {
	return selection{m: m, kind: m.servers[server].kind, server: server}
}

// table is the name of a table, with its schema if need be.
func (s selection) table(name string) string { return s.prefix + s.kind.quote(name) }

// kept is the condition that a row is copied, or "".
func (s selection) kept(w *work, alias string, above ...string) string {
	var conditions []string
	if w.plan.Where != "" {
		conditions = append(conditions, "("+w.plan.Where+")")
	}
	if w.plan.Orphans == "drop" && !slices.Contains(above, w.name) {
		for _, ref := range w.refs {
			if missing := s.orphan(w, ref, alias, above...); missing != "" {
				conditions = append(conditions, "NOT ("+missing+")")
			}
		}
	}
	return strings.Join(conditions, " AND ")
}

// orphan is the condition that a row refers to one that is not copied. It is "" where that cannot be told:
// the parent is a table that the target has by itself.
func (s selection) orphan(w *work, ref reference, alias string, above ...string) string {
	f := w.feeds[s.server]
	if f == nil || slices.ContainsFunc(ref.columns,
		func(name string) bool { return f.from.column(name) == nil }) {
		return ""
	}
	var refers []string
	for _, name := range ref.columns {
		refers = append(refers, alias+"."+s.kind.quote(name)+" IS NOT NULL")
	}
	condition := strings.Join(refers, " AND ")
	parent := s.m.works[ref.parent]
	switch {
	case parent == nil && s.m.policy(ref.parent) == Rebuild:
		return condition
	case parent == nil:
		return ""
	case parent.feeds[s.server] == nil: // absent, so nobody is there to be referred to
		return condition
	}
	other := alias + "p"
	var joins []string
	for i, name := range ref.columns {
		joins = append(joins, other+"."+s.kind.quote(ref.target[i])+" = "+alias+"."+s.kind.quote(name))
	}
	if kept := s.kept(parent, other, append(above, w.name)...); kept != "" {
		joins = append(joins, kept)
	}
	return condition + " AND NOT EXISTS (SELECT 1 FROM " + s.table(ref.parent) + " AS " + other +
		" WHERE " + strings.Join(joins, " AND ") + ")"
}

// expressions are what to select for the pairs of a feed: as the program reads it or, if plain, as another
// database of the same kind does. Those named in empty come as NULL.
func (s selection) expressions(f *feed, plain bool, empty ...string) []string {
	list := make([]string, len(f.pairs))
	for i, p := range f.pairs {
		list[i] = s.kind.readExpression(p.from)
		if plain {
			list[i] = "s." + s.kind.quote(p.from.name)
		}
		if slices.Contains(empty, p.to.name) {
			list[i] = "NULL"
			continue
		}
		if f.work.plan.Orphans != "null" {
			continue
		}
		for _, ref := range f.work.refs {
			if !slices.Contains(ref.columns, p.from.name) || !p.to.nullable {
				continue
			}
			if missing := s.orphan(f.work, ref, "s"); missing != "" {
				list[i] = "CASE WHEN " + missing + " THEN NULL ELSE " + list[i] + " END"
			}
		}
	}
	return list
}

// from is the table and the condition, up to where a key comes in.
func (s selection) from(q *statement, f *feed, condition ...string) {
	q.add(" FROM ", s.table(f.from.name), " AS s")
	all := slices.DeleteFunc(append([]string{s.kept(f.work, "s")}, condition...),
		func(c string) bool { return c == "" })
	q.add(" WHERE ", strings.Join(append([]string{"1 = 1"}, all...), " AND "))
}

// behind appends the condition that the key comes after another one, or before it and itself. It is spelled
// so that every database can use the index: the first column alone bounds the range.
func (s selection) behind(q *statement, f *feed, key []any, operator string) {
	if key == nil {
		return
	}
	names := make([]string, len(f.key))
	for i, at := range f.key {
		names[i] = "s." + s.kind.quote(f.pairs[at].from.name)
	}
	value := func(v any) {
		if s.literally {
			q.add(literal(v))
		} else {
			q.bind(v)
		}
	}
	strict := operator[:1]
	if len(names) > 1 {
		q.add(" AND ", names[0], " ", strict, "= ")
		value(key[0])
		q.add(" AND (")
	} else {
		q.add(" AND (")
	}
	for i := range names {
		if i > 0 {
			q.add(" OR ")
		}
		q.add("(")
		for j := range i {
			q.add(names[j], " = ")
			value(key[j])
			q.add(" AND ")
		}
		last := strict
		if i == len(names)-1 {
			last = operator
		}
		q.add(names[i], " ", last, " ")
		value(key[i])
		q.add(")")
	}
	q.add(")")
}

// order appends the order of the primary key, or of all columns where there is none: rows that are equal
// in all of them may change places.
func (s selection) order(q *statement, f *feed) {
	var names []string
	for _, at := range f.key {
		names = append(names, "s."+s.kind.quote(f.pairs[at].from.name))
	}
	if len(f.key) == 0 {
		for _, p := range f.pairs {
			names = append(names, s.kind.readExpression(p.from))
		}
	}
	q.add(" ORDER BY ", strings.Join(names, ", "))
}
