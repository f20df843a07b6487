package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// place is a column of a table.
type place struct{ table, column string }

// link says that a column holds keys of another table, which may change: because the other table is
// renumbered, or because its rows may become one with others.
type link struct {
	column string // of the child
	of     string // the table whose primary key, of one column, the column holds
	when   string // a condition in SQL; "" for all rows
	path   string // where the keys are in a JSON column
	list   string // what separates the keys of a list
	bits   bits   // where the key is in a number
}

// inside reports whether keys are only a part of what the column holds.
func (l link) inside() bool { return l.path+l.list != "" || l.bits.used() }

// wholeLink is a reference of several columns to the primary key of a table whose rows may become one.
type wholeLink struct {
	columns []string // in the order of the primary key
	of      string
	when    string
}

// nameLink says that a column repeats the name of a row of another table, which may get a new name.
type nameLink struct {
	column string
	of     string
	// key are, for each column of the primary key of that table, SQL for its value in the row that is referred
	// to, with the alias s for the row that refers.
	key []func(s selection) string
	as  string // how the column is computed from the name
}

// follows are all columns of a table that have to follow the rows of other tables.
type follows struct {
	links []link
	whole []wholeLink
	names []nameLink
}

// follow finds for every table what has to follow. A column may follow over several tables: the key of a
// profile is that of its role, and the key of a page that of its profile.
func (ws *workspace) follow() {
	origins := map[place][]link{}
	for _, j := range ws.jobs {
		if j.key() != nil && (j.plan.Renumber != "" || j.plan.Policy.collapses()) {
			p := place{j.name, j.key().Name}
			origins[p] = append(origins[p], link{column: p.column, of: j.name})
		}
	}
	named := map[place][]nameLink{}
	for changed := true; changed; {
		changed = false
		for _, j := range ws.order {
			for _, ref := range j.refs {
				for i, column := range ref.Columns {
					at, from := place{j.name, column}, place{ref.Parent, ref.Target[i]}
					for _, o := range origins[from] {
						l := link{column: column, of: o.of, when: both(ref.When, o.when, ref.Parent == j.name),
							path: ref.Path, list: ref.List}
						if ref.Bits != "" { // it can be read, since the plan is valid
							l.bits, _ = parseBits(ref.Bits, append([]string{column}, ref.Rest...))
						}
						if o.inside() || o.when != "" && ref.Parent != j.name ||
							slices.Contains(origins[at], l) || at == from {
							continue
						}
						origins[at] = append(origins[at], l)
						changed = true
					}
				}
			}
		}
	}
	for _, j := range ws.order {
		f := &follows{}
		for _, c := range j.to.Columns {
			f.links = append(f.links, ws.linksOf(j, c.Name, origins[place{j.name, c.Name}])...)
		}
		for _, ref := range j.refs {
			if parent := ws.jobs[ref.Parent]; parent != nil && parent.plan.Policy.collapses() &&
				len(ref.Columns) > 1 && sameNames(ref.Target, parent.to.Primary) {
				w := wholeLink{of: parent.name, when: ref.When}
				for _, name := range parent.to.Primary {
					w.columns = append(w.columns, ref.Columns[slices.Index(ref.Target, name)])
				}
				f.whole = append(f.whole, w)
			}
		}
		j.follows = f
	}
	ws.followNames(named)
}

// both joins two conditions. One that belongs to another table cannot be joined.
func both(a, b string, same bool) string {
	if !same || b == "" || a == b {
		return a
	}
	if a == "" {
		return b
	}
	return "(" + a + ") AND (" + b + ")"
}

// linksOf checks that no key of a column always follows two tables, wherever it is in the column.
func (ws *workspace) linksOf(j *tableJob, column string, links []link) []link {
	for n, l := range links {
		for _, o := range links[:n] {
			if l.when+o.when != "" || !o.meets(l) || o.repeats(l) {
				continue
			}
			p := Problem{Code: CodePlan, Table: j.name, Column: column,
				Message: "its values would have to follow " + disputants(o, l),
				Remedy:  "tell the two apart by when: on the references, or keep the keys of one of the tables"}
			switch {
			case o.of == l.of:
				p.Remedy = "remove one of the references, or tell the two apart by when:"
			case slices.Contains([]string{o.of, l.of}, j.name):
				others := strings.Trim(strings.Replace(o.of+" "+l.of, j.name, "", 1), " ")
				p.Message = "its values are keys of " + others +
					", which change, so they cannot be renumbered or collapsed by themselves"
				p.Remedy = "remove renumber: from the table, or give it the policy copy: its keys follow those " +
					"that it refers to"
			}
			ws.problems = append(ws.problems, p)
			return nil
		}
	}
	return links
}

// followNames finds the columns that repeat names: those that the plan lists as copies, and foreign keys to
// the column of the name.
func (ws *workspace) followNames(named map[place][]nameLink) {
	for _, parent := range ws.order {
		r := parent.plan.Rename
		if r == nil {
			continue
		}
		for _, c := range r.Copies {
			j := ws.jobs[c.Table]
			if j == nil || j.to.Column(c.Column) == nil || j.to.Column(c.Ref) == nil {
				continue
			}
			if id := identityOf(parent.to); len(parent.to.Primary) != 1 {
				if id == nil || !slices.Contains(parent.to.Primary, id.Name) {
					ws.problems = append(ws.problems, Problem{Code: CodeNameCopy, Table: parent.name, Column: r.Column,
						Message: "copies: no one column of the primary key tells its rows apart, so " + c.Table + "." +
							c.Ref + " does not say whose name is beside it",
						Remedy: "remove the entry, and change such copies on their server; or another policy"})
					continue
				}
				j.follows.names = append(j.follows.names, nameLink{column: c.Column, of: parent.name,
					key: keyOfNamed(parent, sqldb.Reference{Columns: []string{c.Ref}, Target: []string{id.Name}})})
				continue
			}
			j.follows.names = append(j.follows.names, nameLink{column: c.Column, of: parent.name,
				key: []func(s selection) string{func(s selection) string { return "s." + s.kind.Quote(c.Ref) }}})
		}
		for _, j := range ws.order {
			for _, ref := range j.refs {
				at := slices.Index(ref.Target, r.Column)
				if ref.Parent != parent.name || at < 0 {
					continue
				}
				if ref.When != "" || ref.Inside() {
					ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[at],
						Message: "a reference to a name that may change cannot have when:, path:, list: or bits:",
						Remedy:  "list the column under copies: of the rename"})
					continue
				}
				named[place{j.name, ref.Columns[at]}] = nil
				j.follows.names = append(j.follows.names, nameLink{column: ref.Columns[at], of: parent.name,
					key: keyOfNamed(parent, ref)})
			}
		}
	}
	for _, j := range ws.order {
		for _, ref := range j.refs {
			for i, column := range ref.Target {
				if _, follows := named[place{ref.Parent, column}]; follows {
					ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[i],
						Message: fmt.Sprintf("it refers to %s.%s, which itself repeats a name that may change",
							ref.Parent, column),
						Remedy: "declare it under copies: of the rename, or let it refer to the table of the names"})
				}
			}
		}
	}
}

// repeatsNames reports whether a column of any table repeats the names of a table.
func (ws *workspace) repeatsNames(of *tableJob) bool {
	return slices.ContainsFunc(ws.order, func(j *tableJob) bool {
		return slices.ContainsFunc(j.follows.names, func(n nameLink) bool { return n.of == of.name })
	})
}

// keyOfNamed returns SQL for the primary key of the row whose name a row has. The server itself compares the
// names, by its collation.
func keyOfNamed(parent *tableJob, ref sqldb.Reference) []func(s selection) string {
	var all []func(s selection) string
	for _, name := range parent.to.Primary {
		all = append(all, func(s selection) string {
			var joins []string
			for i, column := range ref.Columns {
				joins = append(joins, "pn."+s.kind.Quote(ref.Target[i])+" = s."+s.kind.Quote(column))
			}
			list := "pn." + s.kind.Quote(name)
			if src := parent.sources[s.server]; src != nil {
				if c := src.from.Column(name); c != nil {
					list = strings.ReplaceAll(c.ReadExpression(s.kind), "s."+s.kind.Quote(name), list)
				}
			}
			return "(SELECT " + list + " FROM " + s.table(parent.name) + " AS pn WHERE " +
				strings.Join(joins, " AND ") + ")"
		})
	}
	return all
}

// extra is an expression that is read beside the columns of a table.
type extra func(s selection) string

// sourceLink, sourceWhole and sourceName are links of a source table, with the positions of what they need. A
// sourceFlag has the position of a column, and that of its value in a row with a new name.
type (
	sourceLink struct {
		link
		at, when int
		all      []int // the positions of all columns that hold parts of the key
		own      bool  // it is the primary key itself
		rivals   []int // links before it that may lead to the same keys
	}
	sourceWhole struct {
		wholeLink
		at   []int
		when int
	}
	sourceName struct {
		nameLink
		at  int
		key []int
	}
	sourceFlag struct{ at, extra int }
)

// holds reports whether the condition at a position of the extras holds for a row.
func (r row) holds(at int) bool { return at < 0 || sqldb.Text(r.extra[at]) == "1" }

// identity returns a value in the form in which the tables of a merge name the rows of a table by a column of
// its primary key, whatever the type of the column is that refers to it.
func identity(v any, c *sqldb.Column, raw bool) any {
	if n, number := v.(int64); number && raw && c.Family == sqldb.FamilyText {
		return sqldb.Text(n) // A column of texts has no numbers in it, and equals those of other columns.
	}
	if raw && c.Family != sqldb.FamilyInt {
		return v
	}
	same, err := sqldb.Canonical(v, c, false)
	if err != nil && c.Family == sqldb.FamilyInt {
		// A column with decimals shows the key 2 as 2.00.
		if whole, decimals, ok := strings.Cut(sqldb.Text(v), "."); ok && strings.Trim(decimals, "0") == "" {
			same, err = sqldb.Canonical(whole, c, false)
		}
	}
	if err != nil {
		return v
	}
	if c.Family == sqldb.FamilyDecimal || c.Family == sqldb.FamilyUUID {
		return sqldb.ComparableText(same, c)
	}
	return same
}

// A key changes at most once in a row. Several references may lead out of one column, so this file says which
// of them may lead to the same key there, and refuses rows in which two such references hold.

// meets reports whether two references out of one column may lead to the same key. Only different paths never
// do: no key of a document is in two places.
func (l link) meets(o link) bool {
	shared := slices.ContainsFunc(l.bits.columns(l.column), func(name string) bool {
		return slices.Contains(o.bits.columns(o.column), name)
	})
	return shared && l.bits.meets(o.bits) &&
		(l.path == "" || o.path == "" || slices.Equal(l.steps(), o.steps()))
}

// repeats reports whether two references say the same of every key: that it is a key of one table, in one
// place.
func (l link) repeats(o link) bool {
	return l.of == o.of && l.list == o.list && l.bits == o.bits &&
		(l.path == "") == (o.path == "") && l.meets(o)
}

// steps returns the steps of the path, so that a path is the same however it is written.
func (l link) steps() []jsonStep {
	steps, err := parsePath(l.path)
	if err != nil { // The plan is refused for it.
		return []jsonStep{{name: l.path}}
	}
	return steps
}
