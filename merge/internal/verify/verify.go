package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// verifier is a verification under way.
type verifier struct {
	plan     *Plan
	sources  []*database
	target   *database
	jobs     map[string]*job
	findings []Finding
	// What an older version did not store: the new keys of renamed rows; whether rows that became one with
	// others differed from these; what the target had besides rows, together with what the plan gives up.
	keyless, undiffered, older bool
	// Rows of the target that were read beside the sources, and of which nobody was told.
	ahead atomic.Int64
}

// Run compares the target with the sources. The error is about the comparison itself.
func Run(ctx context.Context, p *Plan) (_ []Finding, err error) {
	v := &verifier{plan: p, jobs: map[string]*job{}}
	defer func() { err = errors.Join(err, v.close()) }()
	if v.target, err = open(ctx, p.Target); err != nil {
		return nil, err
	}
	if err := v.unchanged(ctx); err != nil {
		return nil, err
	}
	for _, s := range p.Servers {
		d, err := open(ctx, s)
		if err != nil {
			return nil, err
		}
		v.sources = append(v.sources, d)
	}
	if err := v.relate(); err != nil {
		return nil, err
	}
	order := v.order()
	for _, prepare := range []func(context.Context, *job) error{
		v.readRefused, v.findOffsets, v.readNames, v.findFar,
	} {
		for _, j := range order {
			if err := prepare(ctx, j); err != nil {
				return nil, fmt.Errorf("table %s: %w", j.name, err)
			}
		}
	}
	// Where rows became one, references follow, so these tables come first.
	for _, joined := range []bool{true, false} {
		for _, j := range order {
			if j.plan.joins() != joined {
				continue
			}
			if err := v.table(ctx, j); err != nil {
				return nil, fmt.Errorf("table %s: %w", j.name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tables)) {
		for _, step := range []func(context.Context, string) error{v.empty, v.balanced} {
			if err := step(ctx, name); err != nil {
				return nil, fmt.Errorf("table %s: %w", name, err)
			}
		}
	}
	if err := (&lists{v: v}).servers(ctx); err != nil {
		return nil, err
	}
	for _, w := range p.Watched {
		if err := (&shifts{v}).watched(ctx, w); err != nil {
			return nil, fmt.Errorf("table %s: %w", w.Table, err)
		}
	}
	for _, s := range p.Sums {
		if err := v.sum(ctx, s); err != nil {
			return nil, fmt.Errorf("conserve %s: %w", s.Name, err)
		}
	}
	return v.findings, nil
}

func (v *verifier) close() error {
	var err error
	for _, j := range v.jobs {
		j.moved.close()
		j.names.close()
		j.refused.close()
	}
	for _, d := range append(v.sources, v.target) {
		if d != nil {
			err = errors.Join(err, d.close())
		}
	}
	return err
}

// compare notes a comparison.
func (v *verifier) compare(what, table, server, detail, want, got string) {
	v.findings = append(v.findings, Finding{What: what, Table: table, Server: server, Detail: detail,
		Want: want, Got: got, OK: want == got})
}

// progress tells of rows that were read. All calls come from the goroutine of Run, as the plan may rely on.
func (v *verifier) progress(table, server string, rows int) {
	if v.plan.Progress == nil {
		return
	}
	if rows > 0 {
		v.plan.Progress(table, server, rows)
	}
	if beside := v.ahead.Swap(0); beside > 0 {
		v.plan.Progress(table, v.target.Name, int(beside))
	}
}

// table does all that there is to compare about a table.
func (v *verifier) table(ctx context.Context, j *job) error {
	compareRows := v.rows
	if j.plan.joins() {
		compareRows = v.joined
	}
	l := &lists{v: v}
	for _, step := range []func(context.Context, *job) error{
		compareRows, v.duplicates, v.keepers, v.counters, (&shifts{v}).left, l.offsets, l.copies,
	} {
		if err := step(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// empty checks that a table which the game computes anew has no rows.
func (v *verifier) empty(ctx context.Context, name string) error {
	if v.plan.Tables[name].Policy != policyRebuild || v.target.tables[name] == nil {
		return nil
	}
	n, err := v.target.text(ctx, "SELECT COUNT(*) FROM "+v.target.kind.quote(name))
	v.compare("empty", name, "", "rows of a table that is computed anew", "0", n)
	return err
}

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
	lowest  int64   // the least counted key of the target, if the keys of the first server move, too
	counts  []bool  // by server: it has counted keys
	zeros   []bool  // by server: a row has the key 0
	moved   *index  // keys of rows that became others: see moveKey
	names   *index  // new names by server and key, and by server and old name
	refused *index  // rows that the target has refused, by server and key

	metNames []int64 // by server: rows that have an entry in the list of renames

	read      []int64 // by server: the rows that the plan takes
	left      int64   // those of them that are not in the target
	present   int64   // the rows of the target
	differing int64   // rows that became one with a row that has other values
}

// reference is a link with what only a plan says of it.
type reference struct {
	link
	when       string
	passed     []string // the tables over which another reference has led here
	path, list string
	bits       string   // the first and the last bit of the key in the column
	rest       []string // the columns that have more of the key in these bits
	enforced   bool     // the target declares it
	natural    []string // columns of the parent that tell its rows apart and stay as they are
	joinable   bool     // no database has two parents for one child
	means      bool     // a value is the same row for all servers and in the target
	far        far
}

// inside reports whether keys are only a part of what the column holds.
func (r reference) inside() bool { return r.path+r.list+r.bits != "" }

// relate finds the tables, their columns and their references.
func (v *verifier) relate() error {
	v.leaveOutComputed()
	for _, name := range slices.Sorted(maps.Keys(v.plan.Tables)) {
		p := v.plan.Tables[name]
		if !p.copied() {
			continue
		}
		j := &job{name: name, plan: p, to: v.target.tables[name], from: make([]*relation, len(v.sources)),
			read: make([]int64, len(v.sources))}
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

// describe decides by what the parent of a reference is known before and after.
func (v *verifier) describe(j *job, r *reference) {
	parent := v.jobs[r.parent]
	r.means = v.means(j, *r)
	if parent == nil || r.inside() || r.when != "" {
		return
	}
	r.joinable = parent.to.identifies(r.targets)
	for i, f := range parent.from {
		r.joinable = r.joinable && (j.from[i] == nil || f != nil && f.identifies(r.targets))
	}
	if !r.joinable || parent.plan.joins() {
		return
	}
	r.natural = v.natural(parent)
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

// references returns every reference that any database or the plan declares, each once.
func (v *verifier) references(j *job) []reference {
	var all []reference
	add := func(r reference) {
		if j.to.column(r.columns[0]) == nil || slices.ContainsFunc(all, func(o reference) bool {
			return o.parent == r.parent && o.when == r.when && o.path == r.path && o.list == r.list &&
				o.bits == r.bits && slices.Equal(o.rest, r.rest) && slices.Equal(o.columns, r.columns) &&
				slices.Equal(o.targets, r.targets)
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
		full := reference{link: l, when: r.When, path: r.Path, list: r.List, bits: r.Bits}
		if r.Bits != "" {
			full.columns, full.rest = l.columns[:1], l.columns[1:]
		}
		if len(l.targets) == len(full.columns) {
			add(full)
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

// naturalColumns is how many columns of a parent are compared at most.
const naturalColumns = 3

// natural returns the columns of a table that no merge changes: first those of unique keys, then short ones.
func (v *verifier) natural(j *job) []string {
	changes := map[string]bool{}
	if c := j.identity(); j.plan.Renumber && c != nil {
		changes[c.name] = true
	}
	for _, r := range j.links {
		for _, name := range slices.Concat(r.columns, r.rest) {
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

// counted reports whether the primary key is one whole number.
func (j *job) counted() bool { return len(j.to.primary) == 1 && j.identity() != nil }

// identity is the column whose numbers were counted: the primary key, or the one other unique column of whole
// numbers. It is nil without one.
func (j *job) identity() (found *column) {
	if len(j.to.primary) == 1 {
		found = j.to.column(j.to.primary[0])
	} else {
		for _, k := range j.to.unique {
			c := j.to.column(k.columns[0])
			if len(k.columns) == 1 && c != nil && c.class == classNumber && c != found {
				if found != nil {
					return nil
				}
				found = c
			}
		}
	}
	if found == nil || found.class != classNumber {
		return nil
	}
	return found
}

// findFar finds the values of the references of a table that lead to rows of other servers, and those that
// lead to no row of a skipped table. The target itself says which it has: its rows are compared elsewhere
// with those of all servers.
func (v *verifier) findFar(ctx context.Context, j *job) error {
	for n := range j.links {
		r := &j.links[n]
		if !r.means {
			continue
		}
		f := far{there: make([]string, len(v.sources)), gone: make([]string, len(v.sources)),
			any: map[string]bool{}}
		for i := range v.sources {
			if j.from[i] == nil {
				continue
			}
			if err := v.findFarOf(ctx, j, *r, i, &f); err != nil {
				return err
			}
		}
		r.far = f
	}
	return nil
}

// findFarOf is findFar for one reference of one server.
func (v *verifier) findFarOf(ctx context.Context, j *job, r reference, server int, f *far) error {
	d, skipped := v.sources[server], v.jobs[r.parent] == nil
	where := v.missing(j, r, server, "s")
	if skipped {
		where = v.refers(j, r, server, "s")
	}
	if where == "" {
		return nil
	}
	if j.plan.Where != "" {
		where += " AND (" + j.plan.Where + ")"
	}
	var list, asked []string
	flush := func() error {
		held, err := v.targetHolds(ctx, r, j.from[server], asked)
		if err != nil {
			return err
		}
		for n, text := range asked {
			if held[n] == skipped {
				continue
			}
			list = append(list, "'"+text+"'")
			if !skipped {
				f.any[r.key(v, unspelled(r.columnsOf(j.from[server]), text))] = true
			}
		}
		asked = nil
		return nil
	}
	many := false
	err := d.each(ctx, "SELECT DISTINCT "+d.spelled(j.from[server], r.columns, "s")+" FROM "+
		d.kind.quote(j.name)+" AS s WHERE "+where, nil, func(values []any) error {
		text := textOf(values[0])
		if many = many || len(list) > farMost; many || unspelled(r.columnsOf(j.from[server]), text) == nil {
			return nil
		}
		if asked = append(asked, text); len(asked) < farBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	if many {
		v.compare("orphans", j.name, d.Name, r.String()+": values that lead to rows of other servers",
			"at most "+strconv.Itoa(farMost), "more")
	}
	lists := f.there
	if skipped {
		lists = f.gone
	}
	lists[server] = strings.Join(list, ", ")
	return nil
}

// targetHolds tells which of some values a row of the target has, as the target compares them.
func (v *verifier) targetHolds(ctx context.Context, r reference, from *relation,
	asked []string) ([]bool, error) {
	held := make([]bool, len(asked))
	k, parent := v.target.kind, v.target.tables[r.parent]
	var parts []string
	var args []any
	for n, text := range asked {
		values := unspelled(r.columnsOf(from), text)
		var on []string
		var bound []any
		for i, value := range values {
			c := parent.column(r.targets[i])
			value, possible := v.target.asked(c, value)
			if !possible {
				break
			}
			bound = append(bound, value)
			on = append(on, v.target.is("k", c, k.placeholder(len(args)+len(bound))))
		}
		if len(on) == len(r.columns) {
			parts = append(parts, fmt.Sprintf("SELECT %d FROM %s AS k WHERE %s", n, k.quote(r.parent),
				strings.Join(on, " AND ")))
			args = append(args, bound...)
		}
	}
	if len(parts) == 0 {
		return held, nil
	}
	return held, v.target.each(ctx, strings.Join(parts, " UNION ALL "), args, func(values []any) error {
		n, err := strconv.Atoi(textOf(values[0]))
		if err == nil {
			held[n] = true
		}
		return err
	})
}

// means reports whether a value of a reference means the same row for all servers and in the target.
func (v *verifier) means(j *job, r reference) bool {
	table, parent := v.target.tables[r.parent], v.jobs[r.parent]
	if r.inside() || table == nil {
		return false
	}
	for i, name := range r.columns {
		c, target := j.to.column(name), table.column(r.targets[i])
		if j.plan.Set[name] != "" || target == nil || c.class != target.class || !target.holdsKeys() ||
			v.pulled(j, r, i) || parent != nil && !v.steady(parent, r.targets[i]) {
			return false
		}
		alike := func(own *column) bool {
			text := func(c *column) bool { return c.class == classText || c.class == classUUID }
			return own == nil || own.holdsKeys() && (own.class == target.class || text(own) && text(target))
		}
		for server := range v.sources {
			if j.from[server] != nil && !alike(j.from[server].column(name)) ||
				parent != nil && parent.from[server] != nil && !alike(parent.from[server].column(r.targets[i])) {
				return false
			}
		}
	}
	if parent == nil {
		p := v.plan.Tables[r.parent]
		return p != nil && p.Policy == policySkip && r.enforced
	}
	return !parent.plan.joins() || sameColumns(parent.plan.Key, r.targets)
}

// pulled reports whether a column of a reference repeats a name that may change, or follows rows of another
// table than that of the reference.
func (v *verifier) pulled(j *job, r reference, i int) bool {
	if v.repeatsName(j, r.columns[i]) {
		return true
	}
	return slices.ContainsFunc(j.links, func(o reference) bool {
		at, parent := slices.Index(o.columns, r.columns[i]), v.jobs[o.parent]
		return at >= 0 && parent != nil && o.parent != r.parent && !o.inside() &&
			(o.when == "" || o.when == r.when) && (parent.plan.joins() || !v.steady(parent, o.targets[at], j.name))
	})
}

// repeatsName reports whether a column is a copy of names that may change.
func (v *verifier) repeatsName(j *job, column string) bool {
	for _, p := range v.plan.Tables {
		if p.Rename != nil && slices.ContainsFunc(p.Rename.Copies,
			func(c NameCopy) bool { return c.Table == j.name && c.Column == column }) {
			return true
		}
	}
	return false
}

// steady reports whether every row of a table keeps what it has in a column, as long as it becomes one with
// no other row.
func (v *verifier) steady(j *job, column string, above ...string) bool {
	p := j.plan
	if c := j.identity(); p.Renumber && c != nil && c.name == column || p.Set[column] != "" ||
		slices.Contains(above, j.name) || v.repeatsName(j, column) {
		return false
	}
	if p.Rename != nil && (p.Rename.Column == column || slices.ContainsFunc(p.Rename.Derived,
		func(d Derived) bool { return d.Column == column })) {
		return false
	}
	return !slices.ContainsFunc(j.links, func(r reference) bool {
		at, parent := slices.Index(r.columns, column), v.jobs[r.parent]
		if slices.Contains(r.rest, column) {
			at = 0
		}
		return at >= 0 && parent != nil && parent != j &&
			(parent.plan.joins() || !v.steady(parent, r.targets[at], append(above, j.name)...))
	})
}

// findOffsets finds out by how much the counted keys of each server were moved: from where its keys begin in
// the target, behind those of the servers before it.
func (v *verifier) findOffsets(ctx context.Context, j *job) error {
	if !j.plan.Renumber || j.identity() == nil || j.plan.joins() {
		return nil
	}
	j.offsets, j.upper = make([]int64, len(v.sources)), slices.Repeat([]int64{-1}, len(v.sources))
	j.zeros, j.counts = make([]bool, len(v.sources)), make([]bool, len(v.sources))
	name := j.identity().name
	last := int64(-1)
	for i, d := range v.sources {
		if j.from[i] == nil || j.from[i].column(name) == nil {
			continue
		}
		least, greatest, err := v.span(ctx, j, i, d)
		if err != nil {
			return err
		}
		if greatest < 0 {
			continue
		}
		j.counts[i], j.zeros[i] = true, least == 0
		if i > 0 || j.plan.First {
			key := v.target.kind.quote(name)
			text, err := v.target.text(
				ctx,
				"SELECT MIN("+key+") FROM "+v.target.kind.quote(j.name)+" WHERE "+key+" > "+
					strconv.FormatInt(last, 10)+" AND "+key+" < "+strconv.FormatInt(v.plan.Counted, 10),
			)
			if err != nil {
				return err
			}
			if first, err := strconv.ParseInt(text, 10, 64); err == nil {
				if j.offsets[i] = first - least; last < 0 {
					j.lowest = first
				}
			}
		}
		last = max(last, greatest+j.offsets[i])
		j.upper[i] = last
	}
	return nil
}

// span returns the least and the greatest counted key of the rows of a source that are in the target, or -1.
func (v *verifier) span(ctx context.Context, j *job, server int,
	d *database) (least, greatest int64, err error) {
	key := "s." + d.kind.quote(j.identity().name)
	where := " AND " + key + " < " + strconv.FormatInt(v.plan.Counted, 10)
	if kept := v.kept(j, server, "s"); kept != "" {
		where += " AND " + kept
	}
	for above := int64(-1); ; above = least {
		rows, err := d.texts(
			ctx,
			"SELECT MIN("+key+"), MAX("+key+") FROM "+d.kind.quote(j.name)+" AS s WHERE "+key+" > "+
				strconv.FormatInt(above, 10)+where,
		)
		if err != nil || rows[0][0] == "" {
			return -1, -1, err
		}
		if least, err = strconv.ParseInt(rows[0][0], 10, 64); err != nil {
			return 0, 0, err
		}
		if greatest, err = strconv.ParseInt(rows[0][1], 10, 64); err != nil {
			return 0, 0, err
		}
		_, refused, err := j.refused.get(rowAt(server, rows[0][0]))
		if err != nil || !refused {
			return least, greatest, err
		}
	}
}

// readRefused reads which rows the target has refused.
func (v *verifier) readRefused(ctx context.Context, j *job) error {
	k := v.target.kind
	return v.target.each(
		ctx,
		"SELECT server, row_key FROM "+k.quote(listOfRefused)+" WHERE tbl = "+k.placeholder(1),
		[]any{j.name},
		func(values []any) error {
			server := v.position(textOf(values[0]))
			if server < 0 {
				return nil
			}
			if j.refused == nil {
				j.refused = newIndex()
			}
			return j.refused.set(rowAt(server, textOf(values[1])), "")
		},
	)
}

// position returns which server has a number, or -1.
func (v *verifier) position(number string) int {
	return slices.IndexFunc(v.plan.Servers,
		func(s Server) bool { return strconv.FormatInt(s.Number, 10) == number })
}

// duplicates counts the groups of rows of the target that are equal in a key. A database prevents them, but
// its checks of unique indexes can be switched off. Those of a primary key cannot, except on TiDB, into which
// whole files can be imported.
func (v *verifier) duplicates(ctx context.Context, j *job) error {
	k := v.target.kind
	keys := append(slices.Clone(j.to.unique), uniqueKey{name: "the key of the plan", columns: j.plan.Key})
	if v.target.tidb {
		keys = append(keys, uniqueKey{name: "the primary key", columns: j.to.primary})
	}
	for _, key := range keys {
		var by, held []string
		for i, name := range key.columns {
			by = append(by, key.term(k, i, ""))
			held = append(held, k.quote(name)+" IS NOT NULL")
		}
		if len(by) == 0 {
			continue
		}
		n, err := v.target.text(
			ctx,
			"SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM "+k.quote(j.name)+" WHERE "+
				strings.Join(held, " AND ")+" GROUP BY "+strings.Join(by, ", ")+" HAVING COUNT(*) > 1) AS x",
		)
		if err != nil {
			return err
		}
		v.compare("duplicates", j.name, "", key.name, "0", n)
	}
	return v.doubledNames(ctx, j)
}

// doubledNames counts the names that several rows have, where no index of the target keeps them apart.
func (v *verifier) doubledNames(ctx context.Context, j *job) error {
	r, k := j.plan.Rename, v.target.kind
	if r == nil || !j.unguarded(r.Column) {
		return nil
	}
	name, where := k.quote(r.Column), ""
	if r.When != "" {
		// It is a condition over rows of the sources. For those of the target it means the same if they are of
		// one kind and the plan sets nothing that it names.
		named := func(column string) bool { return strings.Contains(r.When, column) }
		if slices.ContainsFunc(v.sources, func(d *database) bool { return d.kind != k }) ||
			slices.ContainsFunc(slices.Collect(maps.Keys(j.plan.Set)), named) {
			return nil
		}
		where = " AND (" + r.When + ")"
	}
	n, err := v.target.text(ctx, "SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM "+k.quote(j.name)+
		" AS s WHERE "+name+" IS NOT NULL"+where+" GROUP BY "+name+" HAVING COUNT(*) > 1) AS x")
	v.compare("duplicates", j.name, "", "names that several rows have", "0", n)
	return err
}

// unguarded reports whether no index of the target keeps the values of a column apart.
func (j *job) unguarded(column string) bool {
	if slices.Contains(j.to.primary, column) || slices.ContainsFunc(j.to.opaque, func(text string) bool {
		return text == "*" || strings.Contains(strings.ToLower(text), strings.ToLower(column))
	}) {
		return false
	}
	covers := func(k uniqueKey) bool { return slices.Contains(k.columns, column) }
	return !slices.ContainsFunc(j.to.unique, covers)
}

// term returns the i-th column of a key as the index compares it.
func (u uniqueKey) term(k kind, i int, alias string) string {
	text := alias + k.quote(u.columns[i])
	if i < len(u.collations) && u.collations[i] != "" {
		text += " COLLATE " + u.collations[i]
	}
	return text
}

// counters checks that sequences count on behind the greatest key, whether they belong to a column or only
// give it its default. Where there is none, the database looks at the keys itself.
func (v *verifier) counters(ctx context.Context, j *job) error {
	for _, c := range j.to.columns {
		if c.class != classNumber {
			continue
		}
		var behind string
		var err error
		switch v.target.kind {
		case postgres:
			behind, err = v.postgresCounter(ctx, j, c.name)
		case mysql:
			behind, err = v.mysqlCounter(ctx, j, c.name)
		}
		if err != nil {
			return err
		}
		if behind != "" {
			v.compare("counter", j.name, "", c.name, behindGreatest, behind)
		}
	}
	return nil
}

const behindGreatest = "behind the greatest key"

// postgresCounter says where the sequence of a column stands, or "" if it has none.
func (v *verifier) postgresCounter(ctx context.Context, j *job, column string) (string, error) {
	k := v.target.kind
	sequence, err := v.target.text(ctx, `SELECT COALESCE((SELECT min(s.seqrelid)::regclass::text
			FROM pg_attribute a JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
			JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
				AND d.refclassid = 'pg_class'::regclass
			JOIN pg_sequence s ON s.seqrelid = d.refobjid
			WHERE a.attrelid = $1::text::regclass AND a.attname = $2::text),
		pg_get_serial_sequence($1::text, $2::text))`, k.quote(j.name), column)
	if err != nil || sequence == "" {
		return "", err
	}
	return v.target.text(
		ctx,
		"SELECT CASE WHEN seqincrement > 0 AND last_value + CASE WHEN is_called THEN 1 ELSE 0 END > "+
			"(SELECT COALESCE(MAX("+k.quote(column)+"), 0) FROM "+k.quote(j.name)+") "+
			"OR seqincrement < 0 AND last_value - CASE WHEN is_called THEN 1 ELSE 0 END < "+
			"(SELECT COALESCE(MIN("+k.quote(column)+"), seqmax) FROM "+k.quote(j.name)+") "+
			"THEN '"+behindGreatest+"' ELSE 'at ' || last_value END FROM "+sequence+
			", pg_sequence WHERE seqrelid = '"+strings.ReplaceAll(sequence, "'", "''")+"'::regclass",
	)
}

// mysqlCounter is postgresCounter for MariaDB. Numbers that a session keeps for itself count as given out.
func (v *verifier) mysqlCounter(ctx context.Context, j *job, column string) (string, error) {
	def, err := v.target.text(ctx, "SELECT COALESCE(MAX(column_default), '') FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?", j.name, column)
	sequence, ok := strings.CutPrefix(strings.Trim(def, "()"), "nextval(")
	if err != nil || !ok || v.target.tidb {
		return "", err
	}
	of := v.target.kind.quote(column) + ") FROM " + v.target.kind.quote(j.name)
	return v.target.text(ctx, "SELECT CASE WHEN increment > 0 AND "+
		"next_not_cached_value > COALESCE((SELECT MAX("+of+"), 0) OR increment < 0 AND "+
		"next_not_cached_value < COALESCE((SELECT MIN("+of+"), maximum_value + 1) "+
		"THEN '"+behindGreatest+"' ELSE CONCAT('at ', next_not_cached_value) END FROM "+sequence)
}

// sum compares a sum over all sources with that of the target.
func (v *verifier) sum(ctx context.Context, s Sum) error {
	j := v.jobs[s.Table]
	if j == nil {
		return nil
	}
	want := new(big.Rat)
	for i, d := range v.sources {
		if j.from[i] == nil {
			continue
		}
		n, err := d.total(ctx, s, v.kept(j, i, "s"))
		if err != nil {
			return err
		}
		want.Add(want, n)
	}
	got, err := v.target.total(ctx, s, "")
	if err != nil {
		return err
	}
	v.compare("sum", s.Table, "", s.Name, ratText(want), ratText(got))
	return nil
}

func ratText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(6), "0")
}

// identified returns by what others refer to a row whose key has several columns, out of this key.
func (j *job) identified(key string) string {
	var parts []string
	if len(j.to.primary) < 2 || j.identity() == nil || json.Unmarshal([]byte(key), &parts) != nil {
		return ""
	}
	if at := slices.Index(j.to.primary, j.identity().name); at >= 0 && at < len(parts) {
		return parts[at]
	}
	return ""
}

// readNames reads the list of renames, which the players are told by. That each entry is right, and that no
// row has another name, is checked later.
func (v *verifier) readNames(ctx context.Context, j *job) error {
	r := j.plan.Rename
	if r == nil {
		return nil
	}
	j.names = newIndex()
	entries, malformed, first := 0, 0, ""
	err := v.eachRename(ctx, j, func(n renamed) error {
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
func (v *verifier) entries(ctx context.Context, rest string, args []any, fn func(renamed) error) error {
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
func (v *verifier) eachRename(ctx context.Context, j *job, fn func(renamed) error) error {
	return v.entries(ctx, "", []any{j.name}, func(n renamed) error {
		if n.server < 0 {
			v.compare("names", j.name, "", "an entry of a server that the plan does not name", "", n.number)
			return nil
		}
		return fn(n)
	})
}

// renamesAfter reads a page of the list.
func (v *verifier) renamesAfter(ctx context.Context, j *job, last renamed) (page []renamed, err error) {
	number := int64(-1)
	if last.server >= 0 {
		number = v.plan.Servers[last.server].Number
	}
	p := v.target.kind.placeholder
	rest := " AND (server > " + p(2) + " OR server = " + p(3) + " AND row_key > " + p(4) +
		") ORDER BY server, row_key LIMIT 1000"
	err = v.entries(ctx, rest, []any{j.name, number, number, last.key}, func(n renamed) error {
		if n.server >= 0 {
			page = append(page, n)
		}
		return nil
	})
	return page, err
}

// named checks that every entry of the list for a server was met.
func (v *verifier) named(j *job, server int, e *expecter) {
	if j.names == nil || j.names.len() == 0 {
		return
	}
	v.metNames(j, server, e.met)
}

func (v *verifier) metNames(j *job, server int, met int64) {
	if j.metNames == nil {
		j.metNames = make([]int64, len(v.sources))
	}
	j.metNames[server] = met
}

// keeperBatch is how many names one statement looks up.
const keeperBatch = 50

// keepers checks that whoever has a new name lost the old one to a row that comes first by the plan, and that
// the list names rows of the sources only.
func (v *verifier) keepers(ctx context.Context, j *job) error {
	r := j.plan.Rename
	if r == nil || j.names.len() == 0 {
		return nil
	}
	listed := make([]int64, len(v.sources))
	c := &contest{v: v, j: j}
	var wrong int64
	first := ""
	for last := (renamed{server: -1}); ; {
		batch, err := v.renamesAfter(ctx, j, last)
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

// unchanged compares what the target has besides rows with what it had before the merge. Only counters may
// have moved, and only forward.
func (v *verifier) unchanged(ctx context.Context) error {
	if r := v.target.tables[listOfRenames]; r != nil {
		v.keyless = r.column("new_key") == nil
	}
	if r := v.target.tables[listOfDrops]; r != nil {
		v.undiffered = r.column(columnDiffers) == nil
	}
	if v.older = v.target.tables[tableOfCatalog] == nil && v.keyless; v.older {
		v.compare("catalog", "", "", "what the target has besides rows is not compared, because the version "+
			"that merged it did not store what it had before", "", "")
		return nil
	}
	if v.target.tables[tableOfCatalog] == nil {
		v.compare("catalog", tableOfCatalog, "", "what the target had before the merge", "stored", "lost")
		return nil
	}
	before, after := map[thing]string{}, map[thing]string{}
	err := v.target.each(ctx, "SELECT kind, tbl, name, definition FROM "+tableOfCatalog, nil,
		func(values []any) error {
			t, text := thing{textOf(values[0]), textOf(values[1]), textOf(values[2])}, textOf(values[3])
			if kind, copied := strings.CutPrefix(t.kind, afterCopying); copied {
				t.kind = kind
				after[t] = text
			} else {
				before[t] = text
			}
			return nil
		})
	if err != nil {
		return err
	}
	now, err := v.target.things(ctx)
	if err != nil {
		return err
	}
	for t := range now {
		if slices.Contains(v.plan.Own, t.table) {
			delete(now, t)
		}
	}
	for _, all := range []map[thing]string{before, after, now} {
		takeCounters(all)
	}
	for t, text := range after { // a counter that the merge has moved must not go back behind its new place
		if t.kind == kindCounter {
			before[t] = text
		}
	}
	found := len(v.findings)
	for _, t := range sorted(before, now) {
		was, had := before[t]
		is, has := now[t]
		switch {
		case was == is && had == has:
		case t.kind == kindCounter && reached(was, is):
		case !had:
			v.compare("catalog", t.table, "", t.String(), "none", "added: "+is)
		case !has:
			v.compare("catalog", t.table, "", t.String(), was, "lost")
		default:
			v.differ(t, was, is)
		}
	}
	if len(v.findings) == found {
		n := fmt.Sprintf("%d things", len(before))
		v.compare("catalog", "", "", "what the target has besides rows, as before the merge", n, n)
	}
	return nil
}

// differ notes how a thing differs. Of the statement that makes a table it notes only the parts that do.
func (v *verifier) differ(t thing, was, is string) {
	if !strings.HasPrefix(strings.ToUpper(was), "CREATE TABLE") {
		v.compare("catalog", t.table, "", t.String(), was, is)
		return
	}
	lost, added := parts(was), parts(is)
	for _, part := range parts(was) {
		if at := slices.Index(added, part); at >= 0 {
			added = slices.Delete(added, at, at+1)
			at = slices.Index(lost, part)
			lost = slices.Delete(lost, at, at+1)
		}
	}
	for _, part := range lost {
		at := slices.IndexFunc(added, func(other string) bool { return subject(other) == subject(part) })
		if at < 0 {
			v.compare("catalog", t.table, "", subject(part), part, "lost")
			continue
		}
		v.compare("catalog", t.table, "", subject(part), part, added[at])
		added = slices.Delete(added, at, at+1)
	}
	for _, part := range added {
		v.compare("catalog", t.table, "", subject(part), "none", "added: "+part)
	}
	if slices.Equal(parts(was), parts(is)) { // but for blanks
		v.compare("catalog", t.table, "", t.String(), was, is)
	}
}
