package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
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

// position returns which server has a number, or -1.
func (v *verifier) position(number string) int {
	return slices.IndexFunc(v.plan.Servers,
		func(s Server) bool { return strconv.FormatInt(s.Number, 10) == number })
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

// far are values of a reference that the own server of a row does not decide about, as statements list them.
type far struct {
	there []string        // by server: they lead to a row that only another server has; "" if there are none
	gone  []string        // by server: they lead to no row of a table that the plan skips
	any   map[string]bool // those of there, of all servers
}

const (
	// farMost is how many of these values there may be, and farBatch how many the target is asked for at once.
	farMost, farBatch = 20_000, 40
)

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

// listed returns the condition that a row has one of the listed values of a reference, or "" if there are
// none. A value is one text: numbers stay as they are, and of other columns it has the digits of the bytes.
func (r reference) listed(d *database, from *relation, alias string, lists []string, server int) string {
	if server < 0 || server >= len(lists) || lists[server] == "" {
		return ""
	}
	return d.spelled(from, r.columns, alias) + " IN (" + lists[server] + ")"
}

// unspelled returns the values of columns out of the text of [database.spelled]. It returns nil if a number
// is none that a key has.
func unspelled(columns []*column, text string) []any {
	var values []any
	for i, part := range strings.Split(text, ",") {
		if columns[i].class == classNumber {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return nil
			}
			values = append(values, n)
			continue
		}
		b, err := hex.DecodeString(part)
		switch {
		case err != nil:
			return nil
		case columns[i].class == classBytes:
			values = append(values, b)
		default:
			values = append(values, string(b))
		}
	}
	return values
}

func (r reference) columnsOf(from *relation) (all []*column) {
	for _, name := range r.columns {
		all = append(all, from.column(name))
	}
	return all
}

// key returns the values of a reference in one form for all databases.
func (r reference) key(v *verifier, values []any) string {
	var b []byte
	for i, value := range values {
		b = form{class: v.target.tables[r.parent].column(r.targets[i]).class, digits: -1}.append(b, value)
	}
	return string(b)
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
	if p.Policy == policySkip {
		gone := r.listed(d, j.from[server], alias, r.far.gone, server)
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
	if there := r.listed(d, j.from[server], alias, r.far.there, server); there != "" {
		refers += " AND NOT (" + there + ")"
	}
	return refers
}

// refers returns the condition under which a row of a source has a reference, or "" if nobody looks.
func (v *verifier) refers(j *job, r reference, server int, alias string) string {
	if r.inside() {
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
			on = append(on, v.compared(r, i, server, other, to, alias, c))
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

// fill puts the numbers of the servers into an expression of the plan.
func (v *verifier) fill(d *database, expression string) string {
	return strings.NewReplacer("{server}", strconv.FormatInt(d.Number, 10), ofRenamed, "0",
		"{target}", strconv.FormatInt(v.plan.Target.Number, 10)).Replace(expression)
}

// given returns the value that the plan gives to a column of a source, and the column that tells its type.
// The column is nil if the server has none.
func (v *verifier) given(j *job, server int, name, alias string) (string, *column) {
	d := v.sources[server]
	if set := j.plan.Set[name]; set != "" {
		return "(" + v.fill(d, set) + ")", j.to.column(name)
	}
	return alias + "." + d.kind.quote(name), j.from[server].column(name)
}

// compared returns the condition that two columns of a reference are equal, on a server. Where the target may
// compare them in another way, the same bytes are equal for both, and the target is asked for the others.
func (v *verifier) compared(r reference, i, server int, a string, x *column, b string, y *column) string {
	d := v.target
	if server >= 0 {
		d = v.sources[server]
	}
	text := equal(d.kind, a, x, b, y)
	if server < 0 || !r.means || x.class != classText && x.class != classUUID {
		return text
	}
	rule := v.target.tables[r.parent].column(r.targets[i]).rule
	if d.kind != sqlite && d.kind == v.target.kind && x.rule == rule {
		return text
	}
	return text + " AND " + d.digits(x, a) + " = " + d.digits(y, b)
}

// equal compares two columns. PostgreSQL does not compare columns of different types.
func equal(k kind, a string, x *column, b string, y *column) string {
	left, right := a+"."+k.quote(x.name), b+"."+k.quote(y.name)
	if k == postgres && x.class != y.class {
		return left + "::text = " + right + "::text"
	}
	return left + " = " + right
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

func sameColumns(a, b []string) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
}

func (v *verifier) count(ctx context.Context, d *database, table, where string) (int64, error) {
	text, err := d.text(ctx, "SELECT COUNT(*) FROM "+d.kind.quote(table)+" AS s"+where)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// keyText returns a primary key as the lists of the merge name it, by the columns of the target: the number
// of an integer, and otherwise a JSON array. In the array 0n stands for NULL, 0x is before the digits of
// bytes, and 0t before those of a text that is not UTF-8 or begins like one of these marks. A hash stands for
// the end of a long key. If exact, a value counts as what SQLite stores it as.
func keyText(values []any, columns []*column, exact bool) string {
	parts := make([]string, len(values))
	for i, v := range values {
		c, text := columns[i], textOf(v)
		_, binary := v.([]byte)
		switch {
		case v == nil:
			parts[i] = "0n"
		case integer(v, c, exact):
			if parts[i] = text; len(values) == 1 {
				return text
			}
		case binary && (exact || c.class == classBytes):
			parts[i] = "0x" + hex.EncodeToString([]byte(text))
		case !utf8.ValidString(text) || marked(text):
			parts[i] = "0t" + hex.EncodeToString([]byte(text))
		case c.class == classUUID && !exact:
			parts[i] = strings.ToLower(text)
		case c.class == classNumber && !exact && strings.Contains(text, "."):
			parts[i] = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		default:
			parts[i] = text
		}
	}
	list, err := json.Marshal(parts)
	if err != nil {
		return strings.Join(parts, "|")
	}
	return shortened(string(list))
}

// integer reports whether a value is a whole number by its column, and not only a decimal without a fraction.
func integer(v any, c *column, exact bool) bool {
	decimal := strings.Contains(c.declared, "dec") || strings.Contains(c.declared, "num")
	switch v.(type) {
	case int64, uint64:
		return exact && c.class != classText || !exact && c.class == classNumber && !decimal
	case []byte, string:
		return !exact && c.class == classNumber && !decimal && !strings.Contains(textOf(v), ".")
	}
	return false
}

// marked reports whether a text begins like one of the marks.
func marked(text string) bool {
	return len(text) > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 't' || text[1] == 'n')
}

func shortened(text string) string {
	const most, kept = 400, 60
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return string([]rune(text)[:kept]) + "#" + hex.EncodeToString(sum[:])
}

// keyValue returns the value of a key of one column that a list names.
func keyValue(text string) any {
	var parts []string
	if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) != 1 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return text
	}
	if !marked(parts[0]) {
		return parts[0]
	}
	raw, err := hex.DecodeString(parts[0][2:])
	switch {
	case parts[0] == "0n":
		return nil
	case err != nil:
		return parts[0]
	case parts[0][1] == 'x':
		return raw
	}
	return string(raw)
}

// at identifies a row of a server in an index.
func rowAt(server int, key string) sum {
	return sumOf([]byte("row " + strconv.Itoa(server) + " " + key))
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
				"SELECT MIN("+key+") FROM "+v.target.kind.quote(j.name)+" WHERE "+key+" >= "+
					strconv.FormatInt(last+1, 10)+" AND "+key+" < "+strconv.FormatInt(v.plan.Counted, 10),
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
// It asks for keys from a number on and not above the one before: in a column without a sign, MariaDB takes 1
// for the least key above -1.
func (v *verifier) span(ctx context.Context, j *job, server int,
	d *database) (least, greatest int64, err error) {
	key := "s." + d.kind.quote(j.identity().name)
	where := " AND " + key + " < " + strconv.FormatInt(v.plan.Counted, 10)
	if kept := v.kept(j, server, "s"); kept != "" {
		where += " AND " + kept
	}
	for from := int64(0); ; from = least + 1 {
		rows, err := d.texts(
			ctx,
			"SELECT MIN("+key+"), MAX("+key+") FROM "+d.kind.quote(j.name)+" AS s WHERE "+key+" >= "+
				strconv.FormatInt(from, 10)+where,
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

// shifted returns a counted key after its table was renumbered.
func (v *verifier) shifted(parent *job, server int, value any) any {
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64) // a column with decimals shows 2 as 2.00
	if value == nil || err != nil || n < 0 || n >= v.plan.Counted || n == 0 && !parent.zeros[server] {
		return value
	}
	return n + parent.offsets[server]
}

// owner returns the server that a key of the target comes from, or -1.
func (v *verifier) owner(j *job, key any) int {
	id, whole := key.(int64)
	if !whole {
		var err error
		if id, err = strconv.ParseInt(textOf(key), 10, 64); err != nil {
			return -1
		}
	}
	switch {
	case id >= v.plan.Counted:
		number := id >> v.plan.Shift & v.plan.Mask
		for i, s := range v.plan.Servers {
			for _, own := range s.Numbers {
				if own == number {
					return i
				}
			}
		}
	case j.offsets != nil && id >= 0:
		for i := range j.upper {
			if j.upper[i] >= 0 && id <= j.upper[i] {
				return i
			}
		}
	}
	return -1
}

func (v *verifier) metNames(j *job, server int, met int64) {
	if j.metNames == nil {
		j.metNames = make([]int64, len(v.sources))
	}
	j.metNames[server] = met
}
