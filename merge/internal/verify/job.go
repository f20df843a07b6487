package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// job is a table that is copied.
type job struct {
	name string
	plan *Table
	to   *relation
	from []*relation // by server; nil where the server has no such table

	columns []*column   // of the target; those that every source has
	extra   [][]*column // by server; those that it has besides
	links   []reference

	offsets []int64 // by server: what is added to counted keys
	upper   []int64 // by server: the greatest counted key after that, or -1
	zeros   []bool  // by server: a row has the key 0
	moved   *index  // keys of rows that became others: see moveKey
	names   *index  // new names by server and key, and by server and old name
	refused *index  // rows that the target has refused, by server and key

	metNames []int64 // by server: rows that have an entry in the list of renames
}

// reference is a link with what only a plan says of it.
type reference struct {
	link
	when       string
	passed     []string // the tables over which another reference has led here
	path, list string
	enforced   bool     // the target declares it
	natural    []string // columns of the parent that tell its rows apart and stay as they are
	joinable   bool     // no database has two parents for one child
	far        far
}

// relate finds the tables, their columns and their references.
func (v *verifier) relate() error {
	v.leaveOutComputed()
	for _, name := range slices.Sorted(maps.Keys(v.plan.Tables)) {
		p := v.plan.Tables[name]
		if !p.copied() {
			continue
		}
		j := &job{name: name, plan: p, to: v.target.tables[name], from: make([]*relation, len(v.sources))}
		if j.to == nil {
			return fmt.Errorf("table %s: the target has none", name)
		}
		for i, d := range v.sources {
			j.from[i] = d.tables[name]
		}
		j.divide()
		for i, d := range v.sources {
			if lost := j.lost(i); lost != "" {
				v.compare("columns", name, d.Name, "columns that the target lacks", "", lost)
			}
		}
		v.jobs[name] = j
	}
	for i, d := range v.sources {
		for _, name := range slices.Sorted(maps.Keys(d.tables)) {
			if v.plan.Tables[name] == nil && !slices.Contains(v.plan.Own, name) {
				v.compare("tables", name, v.sources[i].Name, "tables that the plan does not name", "", name)
			}
		}
	}
	for _, j := range v.jobs {
		j.links = v.references(j)
	}
	for _, j := range v.jobs {
		for i := range j.links {
			v.describe(j, &j.links[i])
		}
	}
	return nil
}

// leaveOutComputed leaves out the columns that the target computes, and those of a source that are computed
// there and that the target does not store. What a source computes and the target stores is copied like any
// other value.
func (v *verifier) leaveOutComputed() {
	for _, t := range v.target.tables {
		t.columns = slices.DeleteFunc(t.columns, func(c column) bool { return c.computed })
	}
	for _, d := range v.sources {
		for name, t := range d.tables {
			to := v.target.tables[name]
			t.columns = slices.DeleteFunc(t.columns, func(c column) bool {
				return c.computed && (to == nil || to.column(c.name) == nil)
			})
		}
	}
}

// divide tells the columns that all sources have from those that only some have.
func (j *job) divide() {
	j.extra = make([][]*column, len(j.from))
	for i := range j.to.columns {
		c := &j.to.columns[i]
		everywhere := true
		for _, f := range j.from {
			everywhere = everywhere && (f == nil || f.column(c.name) != nil || j.plan.Set[c.name] != "")
		}
		if everywhere {
			j.columns = append(j.columns, c)
			continue
		}
		for server, f := range j.from {
			if f != nil && f.column(c.name) != nil {
				j.extra[server] = append(j.extra[server], c)
			}
		}
	}
}

// lost returns the columns of a source that are not in the target although the plan does not ignore them.
func (j *job) lost(server int) string {
	var names []string
	if f := j.from[server]; f != nil {
		for _, c := range f.columns {
			if j.to.column(c.name) == nil && !slices.Contains(j.plan.Ignore, c.name) {
				names = append(names, c.name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// references returns every reference that any database or the plan declares, each once.
func (v *verifier) references(j *job) []reference {
	var all []reference
	add := func(r reference) {
		if j.to.column(r.columns[0]) == nil || slices.ContainsFunc(all, func(o reference) bool {
			return o.parent == r.parent && o.when == r.when && o.path == r.path && o.list == r.list &&
				slices.Equal(o.columns, r.columns) && slices.Equal(o.targets, r.targets)
		}) {
			return
		}
		for _, name := range r.columns {
			if j.to.column(name) == nil {
				return
			}
		}
		all = append(all, r)
	}
	for _, l := range j.to.links {
		add(reference{link: l, enforced: true})
	}
	for _, r := range j.plan.References {
		l := link{columns: r.Columns, parent: r.Table, targets: r.Target}
		if parent := v.target.tables[r.Table]; len(l.targets) == 0 && parent != nil {
			l.targets = parent.primary
		}
		if len(l.targets) == len(l.columns) {
			add(reference{link: l, when: r.When, path: r.Path, list: r.List})
		}
	}
	for _, f := range j.from {
		if f != nil {
			for _, l := range f.links {
				add(reference{link: l})
			}
		}
	}
	return all
}

// describe decides by what the parent of a reference is known before and after.
func (v *verifier) describe(j *job, r *reference) {
	parent := v.jobs[r.parent]
	if parent == nil || r.path != "" || r.list != "" || r.when != "" {
		return
	}
	r.joinable = parent.to.identifies(r.targets)
	for i, f := range parent.from {
		r.joinable = r.joinable && (j.from[i] == nil || f != nil && f.identifies(r.targets))
	}
	if !r.joinable || parent.plan.joins() || parent.plan.Policy == policyCustom {
		return
	}
	r.natural = v.natural(parent)
}

// naturalColumns is how many columns of a parent are compared at most.
const naturalColumns = 3

// natural returns the columns of a table that no merge changes: first those of unique keys, then short ones.
func (v *verifier) natural(j *job) []string {
	changes := map[string]bool{}
	if j.plan.Renumber && len(j.to.primary) == 1 {
		changes[j.to.primary[0]] = true
	}
	for _, r := range j.links {
		for _, name := range r.columns {
			changes[name] = true
		}
	}
	for name := range j.plan.Set {
		changes[name] = true
	}
	for _, name := range j.plan.Convert {
		changes[name] = true
	}
	if r := j.plan.Rename; r != nil {
		changes[r.Column] = true
		for _, d := range r.Derived {
			changes[d.Column] = true
		}
	}
	for _, p := range v.plan.Tables {
		if p.Rename != nil {
			for _, c := range p.Rename.Copies {
				if c.Table == j.name {
					changes[c.Column] = true
				}
			}
		}
	}
	var names []string
	take := func(c *column) {
		long := c.class == classBytes || c.class == classJSON || strings.Contains(c.declared, "text") &&
			v.target.kind == mysql
		if c != nil && !changes[c.name] && !long && len(names) < naturalColumns &&
			slices.Contains(j.columns, c) {
			changes[c.name] = true
			names = append(names, c.name)
		}
	}
	for _, k := range j.to.unique {
		for _, name := range k.columns {
			take(j.to.column(name))
		}
	}
	for _, want := range []class{classText, classNumber, classInstant} {
		for _, c := range j.columns {
			if c.class == want {
				take(c)
			}
		}
	}
	return names
}

// order returns the jobs, parents first as far as there are no circles.
func (v *verifier) order() (all []*job) {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		j := v.jobs[name]
		if j == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, r := range j.links {
			visit(r.parent)
		}
		all = append(all, j)
	}
	for _, name := range slices.Sorted(maps.Keys(v.jobs)) {
		visit(name)
	}
	return all
}

// form returns how values of a column are compared, between a source and the target.
func (v *verifier) form(j *job, c *column, exact bool) form {
	f := form{class: c.class, digits: -1, exact: exact}
	if slices.Contains(j.plan.Convert, c.name) {
		f.exact = false
		if c.digits >= 0 {
			f.digits = c.digits
		}
	}
	for _, r := range j.links {
		if r.path != "" && slices.Contains(r.columns, c.name) {
			f.class, f.exact = classJSON, false
		}
	}
	return f
}

// exact reports whether values are compared with the types that SQLite stores them in.
func (v *verifier) exact() bool {
	return v.target.kind == sqlite &&
		!slices.ContainsFunc(v.sources, func(d *database) bool { return d.kind != sqlite })
}

// exactly reports whether the merge reads the values of a server as SQLite stores them.
func (v *verifier) exactly(server int) bool {
	return v.target.kind == sqlite && v.sources[server].kind == sqlite
}

// forms returns the forms of columns.
func (v *verifier) forms(j *job, columns []*column) []form {
	all := make([]form, len(columns))
	for i, c := range columns {
		all[i] = v.form(j, c, v.exact())
	}
	return all
}

// counted reports whether the primary key is one whole number.
func (j *job) counted() bool {
	return len(j.to.primary) == 1 && j.to.column(j.to.primary[0]) != nil &&
		j.to.column(j.to.primary[0]).class == classNumber
}
