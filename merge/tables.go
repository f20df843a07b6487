package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// tableJob is a table of the target and the source tables that are copied to it.
type tableJob struct {
	name     string
	plan     *TablePlan
	to       *sqldb.Table
	refs     []sqldb.Reference // foreign keys of the target, and those of the plan
	circular []sqldb.Reference // the refs that are part of a circle
	sources  []*sourceTable    // by position of the server; nil where the server lacks the table
	follows  *follows
}

// sourceTable is a table of one server that is copied to the target.
type sourceTable struct {
	ws     *workspace
	job    *tableJob
	server int // position in the plan
	from   *sqldb.Table
	pairs  []pair
	key    []int // the positions in pairs of the primary key
	order  []sqldb.OrderTerm
	raw    bool // from SQLite to SQLite values are not converted
	// What has to follow the rows of other tables, and the expressions that are read for it.
	links   []sourceLink
	whole   []sourceWhole
	repeats []sourceName
	extras  []extra
	// competes is where the extras have the condition under which a row may get a new name, or -1.
	competes int
	// flags are the columns that the plan sets to another value in rows with a new name.
	flags []sourceFlag
}

// pair is a column of a source and the column of the target that it is copied to.
type pair struct {
	from, to *sqldb.Column
	set      bool // the plan sets it to an expression
	native   bool // both have the same type on the same kind of database
}

// key returns the column that identifies rows: the primary key, if it consists of one column, or, of a table
// whose keys are renumbered, the one unique column of whole numbers. It is nil without one.
func (j *tableJob) key() *sqldb.Column {
	if len(j.to.Primary) == 1 || j.plan.Renumber != "" && !j.plan.Policy.collapses() {
		return identityOf(j.to)
	}
	return nil
}

// identityOf returns the column that identifies the rows of a table, or nil if there are none or several.
func identityOf(t *sqldb.Table) (found *sqldb.Column) {
	if len(t.Primary) == 1 {
		return t.Column(t.Primary[0])
	}
	for _, k := range t.Unique {
		if !k.Simple() || len(k.Parts) != 1 {
			continue
		}
		switch c := t.Column(k.Parts[0].Column); {
		case c == nil || c.Family != sqldb.FamilyInt || c == found:
		case found != nil:
			return nil
		default:
			found = c
		}
	}
	return found
}

// nullable returns a column of a reference that can be NULL until the parent row exists, or "".
func (j *tableJob) nullable(ref sqldb.Reference) string {
	for _, name := range ref.Columns {
		if c := j.to.Column(name); c != nil && c.Nullable && !slices.Contains(j.to.Primary, name) {
			return name
		}
	}
	return ""
}

// computed reports whether a key contains a value that only the database computes, by an expression that is
// not known.
func (j *tableJob) computed(k sqldb.UniqueKey) bool {
	return slices.ContainsFunc(k.Parts, func(p sqldb.KeyPart) bool {
		return p.Column == "" && p.Expression == "" ||
			p.Column != "" && (j.to.Column(p.Column) == nil || j.to.Column(p.Column).Generated)
	})
}

// refers reports whether a column is part of a known reference.
func (j *tableJob) refers(column string) bool {
	return slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
		return slices.Contains(ref.Columns, column) || slices.Contains(ref.Rest, column)
	})
}

// counted reports whether the primary key of a table is one integer column.
func (j *tableJob) counted() bool {
	return len(j.to.Primary) == 1 && j.to.Column(j.to.Primary[0]).Family == sqldb.FamilyInt
}

// collapseKey returns the key of the plan by which rows become one.
func (j *tableJob) collapseKey() sqldb.UniqueKey {
	for _, k := range j.to.Keys() {
		if k.Simple() && sameNames(k.Columns(), j.plan.Key) {
			return k // this one has the collations of the index
		}
	}
	key := sqldb.UniqueKey{Name: "the key of the plan"}
	for _, name := range j.plan.Key {
		key.Parts = append(key.Parts, sqldb.KeyPart{Column: name})
	}
	return key
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// exempts reports whether the plan has a condition for the rows that may get a new name.
func (j *tableJob) exempts() bool { return j.plan.Rename != nil && j.plan.Rename.When != "" }

// renameLimit returns how many characters a name may have; 0: any number.
func (j *tableJob) renameLimit() int {
	p := j.plan.Rename
	limit := j.to.Column(p.Column).MaxChars
	if p.Max > 0 && (limit == 0 || p.Max < limit) {
		limit = p.Max
	}
	return limit
}

// has reports whether the source has a column.
func (src *sourceTable) has(name string) bool { return src.at(name) >= 0 }

// at returns the position of a column in the rows of the source, or -1.
func (src *sourceTable) at(name string) int {
	return slices.IndexFunc(src.pairs, func(p pair) bool { return p.to.Name == name })
}

// positions returns the positions of several columns.
func (src *sourceTable) positions(names []string) []int {
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = src.at(name)
	}
	return at
}

func (src *sourceTable) names() []string {
	names := make([]string, len(src.pairs))
	for i, p := range src.pairs {
		names[i] = p.to.Name
	}
	return names
}

// columns returns the columns of the target that the source has.
func (src *sourceTable) columns() []*sqldb.Column {
	columns := make([]*sqldb.Column, len(src.pairs))
	for i, p := range src.pairs {
		columns[i] = p.to
	}
	return columns
}

// value converts what a driver returned to the value that is copied.
func (src *sourceTable) value(v any, p pair) (any, error) {
	if p.native && !src.raw {
		return sqldb.Native(v, p.to)
	}
	if !src.raw || p.from.Family == p.to.Family {
		return sqldb.Canonical(v, p.to, src.raw)
	}
	v, err := sqldb.Canonical(v, p.to, false)
	return sqldb.Adapt(sqldb.SQLite, v, p.to, false), err
}

// part returns a source table with some of its columns.
func (src *sourceTable) part(names []string) *sourceTable {
	part := &sourceTable{ws: src.ws, job: src.job, server: src.server, from: src.from, order: src.order,
		raw: src.raw}
	key := make([]string, len(src.key))
	for i, at := range src.key {
		key[i] = src.pairs[at].to.Name
	}
	for _, p := range src.pairs {
		if slices.Contains(names, p.to.Name) || slices.Contains(key, p.to.Name) {
			part.pairs = append(part.pairs, p)
		}
	}
	for _, name := range key {
		part.key = append(part.key, part.at(name))
	}
	return part.prepared(src.ws)
}

// renamed returns the position of the column that the policy rename changes, or -1.
func (src *sourceTable) renamed() int {
	if src.job.plan.Rename == nil {
		return -1
	}
	return src.at(src.job.plan.Rename.Column)
}

// prepared notes what has to follow, and which expressions have to be read for that besides the columns.
func (src *sourceTable) prepared(ws *workspace) *sourceTable {
	need := func(e extra) int {
		src.extras = append(src.extras, e)
		return len(src.extras) - 1
	}
	j := src.job
	exists := func(of string) bool { return ws.jobs[of] != nil && ws.jobs[of].sources[src.server] != nil }
	condition := func(when string) int {
		if when == "" {
			return -1
		}
		return need(func(selection) string { return "CASE WHEN " + when + " THEN 1 ELSE 0 END" })
	}
	if src.competes = -1; j.exempts() {
		src.competes = condition(j.plan.Rename.When)
	}
	for at, p := range src.pairs {
		if set := j.plan.Set[p.to.Name]; strings.Contains(set, wordRenamed) {
			value := need(func(s selection) string { return s.shown(p.to, s.setFor(set, "1")) })
			src.flags = append(src.flags, sourceFlag{at, value})
		}
	}
	for _, l := range j.follows.links {
		if !slices.Contains(src.positions(l.bits.columns(l.column)), -1) && exists(l.of) {
			src.links = append(src.links, sourceLink{link: l, at: src.at(l.column), when: condition(l.when),
				all: src.positions(l.bits.columns(l.column)),
				own: l.of == j.name && j.key() != nil && j.key().Name == l.column})
		}
	}
	for n := range src.links {
		src.links[n].rivals = src.rivals(n)
	}
	for _, w := range j.follows.whole {
		at := src.positions(w.columns)
		if exists(w.of) && !slices.Contains(at, -1) {
			src.whole = append(src.whole, sourceWhole{wholeLink: w, at: at, when: condition(w.when)})
		}
	}
	for _, n := range j.follows.names {
		if !src.has(n.column) || !exists(n.of) {
			continue
		}
		s := sourceName{nameLink: n, at: src.at(n.column)}
		for _, fn := range n.key {
			s.key = append(s.key, need(fn))
		}
		src.repeats = append(src.repeats, s)
	}
	return src
}

// rivals returns the positions of the links before the n-th that may lead to the same keys.
func (src *sourceTable) rivals(n int) []int {
	var all []int
	for m, o := range src.links[:n] {
		if o.meets(src.links[n].link) {
			all = append(all, m)
		}
	}
	return all
}

// settled reports whether an earlier reference changes the keys of the n-th reference of a row. It is an
// error if that one would change them in another way.
func (src *sourceTable) settled(n int, r row) (bool, error) {
	l := src.links[n]
	for _, m := range l.rivals {
		o := src.links[m]
		if !r.holds(o.when) {
			continue
		}
		if !o.repeats(l.link) {
			return false, fmt.Errorf("it would have to follow the keys of both %s and %s", o.of, l.of)
		}
		return true, nil
	}
	return false, nil
}

// nameBeside changes what stands beside the name of a row that gets a new one.
func (src *sourceTable) nameBeside(r row, name string) (err error) {
	for _, d := range src.job.plan.Rename.Derived {
		if at := src.at(d.Column); at >= 0 {
			r.values[at] = derive(d.As, name)
		}
	}
	for _, f := range src.flags {
		if r.values[f.at], err = src.value(r.extra[f.extra], src.pairs[f.at]); err != nil {
			return fmt.Errorf("%w: %s: table %s, row %s: set: %w", ErrRow, src.ws.servers[src.server].Name,
				src.job.name, sqldb.KeyText(r.key), err)
		}
	}
	return nil
}
