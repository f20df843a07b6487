package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// verifier is a verification under way.
type verifier struct {
	fail     func(error) // ends all statements, and Run with this error unless there was one before
	subject  string      // what is looked at, for errors
	plan     *Plan
	sources  []*database
	target   *database
	jobs     map[string]*job
	findings []Finding
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

func (v *verifier) compare(what, table, server, detail, want, got string) {
	v.findings = append(v.findings, Finding{What: what, Table: table, Server: server, Detail: detail,
		Want: want, Got: got, OK: want == got})
}

// none notes how many there are of what should not be there.
func (v *verifier) none(what, table, detail string, n int64) {
	v.compare(what, table, "", strings.TrimSpace(detail), "0", strconv.FormatInt(n, 10))
}

// noRows counts the rows of the target that should not be there.
func (v *verifier) noRows(ctx context.Context, what, table, detail, from string) {
	v.none(what, table, detail, v.target.number(ctx, "SELECT COUNT(*) FROM "+from))
}

// list reads, as texts, what a table of the merge says of another table.
func (v *verifier) list(ctx context.Context, list, columns, table string, fn func(row []string)) {
	text := "SELECT " + columns + " FROM " + list + " WHERE tbl = " + v.target.kind.placeholder(1) +
		" ORDER BY server"
	v.target.prepare(ctx, text)
	v.target.each(ctx, text, []any{table}, func(values []any) { fn(textsOf(values)) })
}

// progress tells of rows that were read. All calls come from the goroutine of Run, as the plan may rely on.
func (v *verifier) progress(table, server string, rows int) {
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

// exact reports whether values are compared with the types that SQLite stores them in.
func (v *verifier) exact() bool {
	return v.target.kind == sqlite &&
		!slices.ContainsFunc(v.sources, func(d *database) bool { return d.kind != sqlite })
}

// relate finds the tables, their columns and their references.
func (v *verifier) relate() {
	v.leaveOutComputed()
	for _, name := range slices.Sorted(maps.Keys(v.plan.Tables)) {
		p := v.plan.Tables[name]
		if !p.copied() {
			continue
		}
		j := &job{v: v, name: name, plan: p, target: v.target.tables[name]}
		if j.target == nil {
			v.fail(fmt.Errorf("the target has no table %s", name))
			return
		}
		for i, d := range v.sources {
			if t := d.tables[name]; t != nil {
				j.sides = append(j.sides, &side{job: j, server: i, d: d, table: t, upper: -1})
			}
		}
		j.divide()
		for _, s := range j.sides {
			if lost := s.lost(); lost != "" {
				v.compare("columns", name, s.d.Name, "columns that the target lacks", "", lost)
			}
		}
		v.jobs[name] = j
	}
	for _, d := range v.sources {
		for _, name := range slices.Sorted(maps.Keys(d.tables)) {
			if v.plan.Tables[name] == nil && !slices.Contains(v.plan.Own, name) {
				v.compare("tables", name, d.Name, "tables that the plan does not name", "", name)
			}
		}
	}
	for _, j := range v.jobs {
		j.links = j.references()
	}
	for _, j := range v.jobs {
		for i := range j.links {
			j.describe(&j.links[i])
		}
	}
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
			table := v.target.tables[name]
			t.columns = slices.DeleteFunc(t.columns, func(c column) bool {
				return c.computed && (table == nil || table.column(c.name) == nil)
			})
		}
	}
}

// holds tells which of some values of a reference a row of the target has, as the target compares them.
func (v *verifier) holds(ctx context.Context, r reference, asked [][]any) []bool {
	held, l, parent := make([]bool, len(asked)), lookup{d: v.target}, v.target.tables[r.parent]
	for n, values := range asked {
		var conditions []string
		for i, name := range r.targets {
			conditions = append(conditions, l.equal("k."+v.target.kind.quote(name), parent.column(name), values[i]))
		}
		l.add(n, "1", r.parent, conditions)
	}
	l.each(ctx, func(n int, _ []any) { held[n] = true })
	return held
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

// job is a table that is copied.
type job struct {
	v      *verifier
	name   string
	plan   *Table
	target *relation
	sides  []*side // the servers that have the table

	columns []*column // of the target; those that every source has
	links   []reference

	moves   bool   // counted keys have moved, by what each side says
	lowest  int64  // the least counted key of the target, if the keys of the first server move, too
	highest int64  // the greatest one that came from a server, or -1
	moved   *index // keys of rows that became others: see moveKey
	names   *index // new names by server and key, and by server and old name
	refused *index // rows that the target has refused, by server and key

	left      int64 // rows that the plan takes, and that are not in the target
	present   int64 // the rows of the target
	differing int64 // rows that became one with a row that has other values
}

// counted reports whether the primary key is one number.
func (j *job) counted() bool {
	primary := j.onlyPrimary()
	return primary != nil && primary.class == classNumber
}

// onlyPrimary is the primary key, or nil if that is none or has several columns.
func (j *job) onlyPrimary() *column {
	if len(j.target.primary) != 1 {
		return nil
	}
	return j.target.column(j.target.primary[0])
}

// identity is the column whose numbers were counted: the primary key, or the one other unique column of whole
// numbers. It is nil without one.
func (j *job) identity() *column {
	found, primary := (*column)(nil), j.onlyPrimary()
	if primary.whole() {
		return primary
	}
	for _, k := range j.target.unique {
		c := j.target.column(k.columns[0])
		if len(k.columns) != 1 || !c.whole() || c == found {
			continue
		}
		if found != nil {
			found = nil
			break
		}
		found = c
	}
	if found == nil && j.plan.Counted != "" {
		found = j.target.column(j.plan.Counted)
	}
	if found = cmp.Or(found, primary); found == nil || found.class != classNumber {
		return nil
	}
	return found
}

// identified returns by what others refer to a row whose key has several columns, out of this key.
func (j *job) identified(key string) string {
	var parts []string
	if len(j.target.primary) < 2 || j.identity() == nil || json.Unmarshal([]byte(key), &parts) != nil {
		return ""
	}
	if pos := slices.Index(j.target.primary, j.identity().name); pos >= 0 && pos < len(parts) {
		return parts[pos]
	}
	return ""
}

// unguarded reports whether no index of the target keeps the values of a column apart.
func (j *job) unguarded(column string) bool {
	covers := func(k uniqueKey) bool { return slices.Contains(k.columns, column) }
	return !slices.Contains(j.target.primary, column) && !j.target.mentions(column) &&
		!slices.ContainsFunc(j.target.unique, covers)
}

// divide tells the columns that all sources have from those that only some have.
func (j *job) divide() {
	for i := range j.target.columns {
		c := &j.target.columns[i]
		has := func(s *side) bool { return s.table.column(c.name) != nil }
		lacks := func(s *side) bool { return !has(s) && j.plan.Set[c.name] == "" }
		if !slices.ContainsFunc(j.sides, lacks) {
			j.columns = append(j.columns, c)
			continue
		}
		for _, s := range j.sides {
			if has(s) {
				s.extra = append(s.extra, c)
			}
		}
	}
}

// side returns the table on a server, or nil if that has none. So it does for a table that is not copied.
func (j *job) side(server int) *side {
	if j == nil {
		return nil
	}
	for _, s := range j.sides {
		if s.server == server {
			return s
		}
	}
	return nil
}

// inTarget returns the table in the target.
func (j *job) inTarget() *side { return &side{job: j, server: -1, d: j.v.target, table: j.target} }

// taken returns how many rows the plan takes from all servers.
func (j *job) taken() (rows int64) {
	for _, s := range j.sides {
		rows += s.read
	}
	return rows
}

// owner returns the server that a key of the target comes from, or -1.
func (j *job) owner(key any) int {
	id, whole := key.(int64)
	if !whole {
		var err error
		if id, err = strconv.ParseInt(textOf(key), 10, 64); err != nil {
			return -1
		}
	}
	switch {
	case id >= j.v.plan.Counted:
		number := id >> j.v.plan.Shift & j.v.plan.Mask
		return slices.IndexFunc(j.v.plan.Servers,
			func(s Server) bool { return slices.Contains(s.Numbers, number) })
	case j.moves && id >= 0:
		for _, s := range j.sides {
			if id <= s.upper {
				return s.server
			}
		}
	}
	return -1
}

// form returns how values of a column are compared, between a source and the target.
func (j *job) form(c *column) form {
	f := form{class: c.class, digits: -1, exact: j.v.exact()}
	if slices.Contains(j.plan.Convert, c.name) {
		f.exact = false
		if c.digits >= 0 {
			f.digits = c.digits
		}
	}
	for _, r := range j.links {
		if r.path != "" && slices.Contains(r.columns, c.name) {
			f.class, f.exact, f.typed = classJSON, false, f.exact
		}
	}
	return f
}

// references returns every reference that any database or the plan declares, each once.
func (j *job) references() []reference {
	var all []reference
	add := func(r reference) {
		known := func(o reference) bool {
			o.enforced = r.enforced
			return reflect.DeepEqual(o, r)
		}
		lacks := func(name string) bool { return j.target.column(name) == nil }
		if !slices.ContainsFunc(all, known) && !slices.ContainsFunc(r.columns, lacks) {
			all = append(all, r)
		}
	}
	for _, l := range j.target.links {
		add(reference{link: l, enforced: true})
	}
	for _, r := range j.plan.References {
		full := reference{link: link{columns: r.Columns, parent: r.Table, targets: r.Target}, when: r.When,
			path: r.Path, list: r.List, bits: r.Bits}
		if parent := j.v.target.tables[r.Table]; len(r.Target) == 0 && parent != nil {
			full.targets = parent.primary
		}
		if r.Bits != "" {
			full.columns, full.rest = r.Columns[:1], r.Columns[1:]
		}
		if len(full.targets) == len(full.columns) {
			add(full)
		}
	}
	for _, s := range j.sides {
		for _, l := range s.table.links {
			add(reference{link: l})
		}
	}
	return all
}

// describe decides by what the parent of a reference is known before and after.
func (j *job) describe(r *reference) {
	parent := j.v.jobs[r.parent]
	r.means = j.means(*r)
	if parent == nil || r.inside() || r.when != "" || parent.plan.joins() ||
		!parent.target.identifies(r.targets) {
		return
	}
	several := func(s *side) bool { // a database may have two parents for one child
		beside := parent.side(s.server)
		return beside == nil || !beside.table.identifies(r.targets)
	}
	if !slices.ContainsFunc(j.sides, several) {
		r.natural = parent.natural()
	}
}

// naturalColumns is how many columns of a parent are compared at most.
const naturalColumns = 3

// natural returns the columns of a table that no merge changes: first those of unique keys, then short ones,
// since every row that refers is read with them. Texts of PostgreSQL without a limit may be long, and one is
// enough if nothing else tells rows apart as a name does.
func (j *job) natural() (names []string) {
	unlimited := func(c *column) bool { return c.declared == "text" || c.declared == "character varying" }
	limited := func(c *column) bool { return strings.Contains(c.declared, "char") && !unlimited(c) }
	take := func(c *column) {
		if c == nil || len(names) == naturalColumns || slices.Contains(names, c.name) ||
			!slices.Contains(j.columns, c) || slices.Contains(j.plan.Convert, c.name) || !j.steady(c.name) {
			return
		}
		long := c.class == classBytes || c.class == classJSON || strings.Contains(c.declared, "text") &&
			j.v.target.kind == mysql
		refers := slices.ContainsFunc(j.links, func(r reference) bool {
			return slices.Contains(r.columns, c.name) || slices.Contains(r.rest, c.name)
		})
		if !long && !refers {
			names = append(names, c.name)
		}
	}
	for _, k := range j.target.unique {
		for _, name := range k.columns {
			take(j.target.column(name))
		}
	}
	is := func(want class) func(c *column) bool { return func(c *column) bool { return c.class == want } }
	for _, wanted := range []func(c *column) bool{
		func(c *column) bool { return c.class == classText && limited(c) },
		func(c *column) bool { return c.class == classText && len(names) == 0 }, // as GORM declares a name
		func(c *column) bool { return c.class == classText && !unlimited(c) },   // such as a sort of heroes
		is(classNumber), is(classInstant), is(classText),
	} {
		for _, c := range j.columns {
			if wanted(c) {
				take(c)
			}
		}
	}
	return names
}

// means reports whether a value of a reference means the same row for all servers and in the target.
func (j *job) means(r reference) bool {
	table, parent := j.v.target.tables[r.parent], j.v.jobs[r.parent]
	if r.inside() || table == nil {
		return false
	}
	for i, name := range r.columns {
		c, target := j.target.column(name), table.column(r.targets[i])
		if j.plan.Set[name] != "" || target == nil || c.class != target.class || !target.holdsKeys() ||
			j.pulled(r, i) || parent != nil && !parent.steady(r.targets[i]) {
			return false
		}
		text := func(c *column) bool { return c.class == classText || c.class == classUUID }
		differs := func(sides []*side, name string) bool {
			return slices.ContainsFunc(sides, func(s *side) bool {
				own := s.table.column(name)
				return own != nil && (!own.holdsKeys() || own.class != target.class && (!text(own) || !text(target)))
			})
		}
		if differs(j.sides, name) || parent != nil && differs(parent.sides, r.targets[i]) {
			return false
		}
	}
	if parent == nil {
		p := j.v.plan.Tables[r.parent]
		return p != nil && p.Policy == policySkip && r.enforced
	}
	return !parent.plan.joins() || sameColumns(parent.plan.Key, r.targets)
}

// pulled reports whether a column of a reference repeats a name that may change, or follows rows of another
// table than that of the reference.
func (j *job) pulled(r reference, i int) bool {
	return j.repeatsName(r.columns[i]) || slices.ContainsFunc(j.links, func(o reference) bool {
		pos, parent := slices.Index(o.columns, r.columns[i]), j.v.jobs[o.parent]
		return pos >= 0 && parent != nil && o.parent != r.parent && !o.inside() &&
			(o.when == "" || o.when == r.when) && (parent.plan.joins() || !parent.steady(o.targets[pos], j.name))
	})
}

// repeatsName reports whether a column is a copy of names that may change.
func (j *job) repeatsName(column string) bool {
	for _, p := range j.v.plan.Tables {
		if p.Rename != nil && slices.ContainsFunc(p.Rename.Copies,
			func(c NameCopy) bool { return c.Table == j.name && c.Column == column }) {
			return true
		}
	}
	return false
}

// steady reports whether every row of a table keeps what it has in a column, as long as it becomes one with
// no other row.
func (j *job) steady(column string, above ...string) bool {
	p := j.plan
	if c := j.identity(); p.Renumber && c != nil && c.name == column || p.Set[column] != "" ||
		slices.Contains(above, j.name) || j.repeatsName(column) {
		return false
	}
	if p.Rename != nil && (p.Rename.Column == column || slices.ContainsFunc(p.Rename.Derived,
		func(d Derived) bool { return d.Column == column })) {
		return false
	}
	return !slices.ContainsFunc(j.links, func(r reference) bool {
		pos, parent := slices.Index(r.columns, column), j.v.jobs[r.parent]
		if slices.Contains(r.rest, column) {
			pos = 0
		}
		return pos >= 0 && parent != nil && parent != j &&
			(parent.plan.joins() || !parent.steady(r.targets[pos], append(above, j.name)...))
	})
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
	natural    []string // columns of the parent that tell its rows apart, if a child has one parent at most
	means      bool     // a value is the same row for all servers and in the target
	far        far
}

// inside reports whether keys are only a part of what the column holds.
func (r reference) inside() bool { return r.path+r.list+r.bits != "" }

// key returns the values of a reference in one form for all databases.
func (r reference) key(v *verifier, values []any) string {
	var b []byte
	for i, value := range values {
		b = form{class: v.target.tables[r.parent].column(r.targets[i]).class, digits: -1}.append(b, value)
	}
	return string(b)
}

// far are values of a reference that the own server of a row does not decide about: those that lead to a row
// that only another server has or, if the plan skips the parent, those that lead to no row of it.
type far struct {
	lists []string        // by server, as statements list them; "" if there are none
	any   map[string]bool // those that lead to a row of another server, of all servers
}

// farMost is how many of these values there may be.
const farMost = 20_000

// findFar finds the values of the references of a table that lead to rows of other servers, and those that
// lead to no row of a skipped table. The target itself says which it has: its rows are compared elsewhere
// with those of all servers.
func findFar(ctx context.Context, j *job) {
	for n := range j.links {
		r := &j.links[n]
		if !r.means {
			continue
		}
		f := far{lists: make([]string, len(j.v.sources)), any: map[string]bool{}}
		for _, s := range j.sides {
			s.findFar(ctx, *r, &f)
		}
		r.far = f
	}
}

// side is a table on one server, or in the target.
type side struct {
	*job
	server int // -1 for the target
	d      *database
	table  *relation
	extra  []*column // those that not every server has
	first  int       // where these begin in a row of the target

	counts bool  // it has counted keys
	zero   bool  // a row has the key 0
	added  int64 // to its counted keys
	upper  int64 // the greatest counted key after that, or -1
	read   int64 // the rows that the plan takes
	met    int64 // those of them that have an entry in the list of renames

	want, got *tally // of the rows that the target has to hold, and that it holds
}

// lost returns the columns that are not in the target although the plan does not ignore them.
func (s *side) lost() string {
	var names []string
	for _, c := range s.table.columns {
		if s.target.column(c.name) == nil && !slices.Contains(s.plan.Ignore, c.name) {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, ", ")
}

// exactly reports whether the merge reads the values of the server as SQLite stores them.
func (s *side) exactly() bool { return s.v.target.kind == sqlite && s.d.kind == sqlite }

// findFar is findFar for one reference of one server.
func (s *side) findFar(ctx context.Context, r reference, f *far) {
	skipped, where := s.v.jobs[r.parent] == nil, s.missing(r)
	if skipped {
		where = s.refers(r)
	}
	if where == "" {
		return
	}
	if s.plan.Where != "" {
		where += " AND (" + s.plan.Where + ")"
	}
	columns := []string{s.d.spelled(s.table, r.columns, "s")}
	for _, name := range r.columns {
		columns = append(columns, s.d.expression("s", s.table.column(name)))
	}
	var list, texts []string
	var asked [][]any
	flush := func() {
		for n, held := range s.v.holds(ctx, r, asked) {
			if held == skipped {
				continue
			}
			if list = append(list, "'"+texts[n]+"'"); !skipped {
				f.any[r.key(s.v, asked[n])] = true
			}
		}
		texts, asked = nil, nil
	}
	many := false
	s.d.each(ctx, "SELECT DISTINCT "+strings.Join(columns, ", ")+" FROM "+s.d.kind.quote(s.name)+
		" AS s WHERE "+where, nil, func(values []any) {
		if many = many || len(list) > farMost; many {
			return
		}
		for i, name := range r.columns {
			_, err := strconv.ParseInt(textOf(values[1+i]), 10, 64)
			if err != nil && s.table.column(name).class == classNumber {
				return // no key is such a number
			}
		}
		texts, asked = append(texts, textOf(values[0])), append(asked, owned(values[1:]))
		if len(asked) == lookupBatch {
			flush()
		}
	})
	flush()
	if many {
		s.v.compare("orphans", s.name, s.d.Name, r.String()+": values that lead to rows of other servers",
			"at most "+strconv.Itoa(farMost), "more")
	}
	f.lists[s.server] = strings.Join(list, ", ")
}

// listed returns the condition that a row has one of the listed values of a reference, or "" if there are
// none. A value is one text: numbers stay as they are, and of other columns it has the digits of the bytes.
func (s *side) listed(r reference, alias string) string {
	if s.server < 0 || r.far.lists == nil || r.far.lists[s.server] == "" {
		return ""
	}
	return s.d.spelled(s.table, r.columns, alias) + " IN (" + r.far.lists[s.server] + ")"
}

// kept returns the condition under which a row is copied, or "". The table has the alias s.
func (s *side) kept(above ...string) string {
	var all []string
	if s.plan.Where != "" {
		all = append(all, "("+s.plan.Where+")")
	}
	if s.plan.Orphans == "drop" && !slices.Contains(above, s.name) { // a circle is followed for one step
		for _, r := range s.links {
			if missing := s.missing(r, above...); missing != "" {
				all = append(all, "NOT ("+missing+")")
			}
		}
	}
	return strings.Join(all, " AND ")
}

// missing returns the condition under which the target will not have the parent of a row, or "" if nobody
// looks.
func (s *side) missing(r reference, above ...string) string {
	p, refers := s.v.plan.Tables[r.parent], s.refers(r)
	if p == nil || refers == "" {
		return ""
	}
	if p.Policy == policySkip {
		if gone := s.listed(r, "s"); gone != "" {
			return refers + " AND " + gone
		}
		return ""
	}
	if s.v.jobs[r.parent].side(s.server) != nil {
		from, condition, _ := s.parents(r, "p", s.given, nil, append(above, s.name)...)
		if from == "" {
			return ""
		}
		refers += " AND NOT EXISTS (SELECT 1 FROM " + from + " WHERE " + condition + ")"
	}
	if there := s.listed(r, "s"); there != "" {
		refers += " AND NOT (" + there + ")"
	}
	return refers
}

// refers returns the condition under which a row has a reference, or "" if nobody looks.
func (s *side) refers(r reference) string {
	if r.inside() {
		return ""
	}
	var all []string
	for _, name := range r.columns {
		value, c := s.given(name)
		if c == nil {
			return ""
		}
		all = append(all, value+" IS NOT NULL")
	}
	if r.when != "" { // the whole is negated, and a condition that is NULL must not make that NULL
		all = append(all, "CASE WHEN "+s.fill(r.when)+" THEN 1 ELSE 0 END = 1")
	}
	return strings.Join(all, " AND ")
}

// parents returns what finds the parents of a row among those that are copied: what to select from, with an
// alias, the condition, and what is NULL if there is none. Parents are known by the values that the plan
// gives to both, because the target holds those. All is "" if a column is not there.
func (s *side) parents(r reference, alias string, value func(name string) (string, *column), show []string,
	above ...string) (from, condition, key string) {
	k, table, parent := s.d.kind, s.d.tables[r.parent], s.v.jobs[r.parent].side(s.server)
	sets := make([]bool, len(r.columns))
	for i, name := range r.columns {
		sets[i] = s.sets(name) != "" || parent != nil && parent.sets(r.targets[i]) != ""
	}
	kept := ""
	if parent != nil {
		kept = parent.kept(above...)
	}
	// Beside an expression, the other table shows nothing but its keys, so that each expression sees the
	// columns of its own table.
	inner, shown := kept != "" || slices.Contains(sets, true), []string(nil)
	var all []string
	for i, name := range r.columns {
		given, c := value(name)
		own, other := "s."+k.quote(r.targets[i]), table.column(r.targets[i])
		if parent != nil {
			own, other = parent.given(r.targets[i])
		}
		if c == nil || other == nil {
			return "", "", ""
		}
		held := alias + "." + k.quote(r.targets[i])
		if inner {
			n := "merge_k" + strconv.Itoa(i)
			held, shown = alias+"."+n, append(shown, own+" AS "+n)
		}
		all = append(all, s.compared(r, i, held, other, given, c, sets[i]))
		key = cmp.Or(key, held)
	}
	from = k.quote(r.parent)
	if inner {
		for _, name := range show {
			shown = append(shown, "s."+k.quote(name))
		}
		from = "(SELECT " + strings.Join(shown, ", ") + " FROM " + from + " AS s" + where(kept) + ")"
	}
	return from + " AS " + alias, strings.Join(all, " AND "), key
}

// sets returns the expression by which the plan gives a value to a column of a source, or "".
func (s *side) sets(column string) string {
	if s.server < 0 {
		return ""
	}
	return s.plan.Set[column]
}

// given returns the value that the plan gives to a column, and the column that tells its type. The column is
// nil if the server has none.
func (s *side) given(name string) (string, *column) {
	if set := s.sets(name); set != "" {
		return "(" + s.fill(set) + ")", s.target.column(name)
	}
	return "s." + s.d.kind.quote(name), s.table.column(name)
}

// fill puts the numbers of the servers into an expression of the plan.
func (s *side) fill(expression string) string {
	return strings.NewReplacer("{server}", strconv.FormatInt(s.d.Number, 10), ofRenamed, "0",
		"{target}", strconv.FormatInt(s.v.plan.Target.Number, 10)).Replace(expression)
}

// compared returns the condition that a parent has in its key x what a row has in its reference y. Only
// PostgreSQL minds the types. Those of values that the plan sets may be others than those of their columns,
// and a number is the same in every type that holds it. Where the target may compare values in another way
// than a source, the same bytes are equal for both, and the target is asked for the others.
func (s *side) compared(r reference, i int, key string, x *column, value string, y *column, set bool) string {
	text, cast := key+" = "+value, ""
	number := func(c *column) bool {
		return (c.class == classNumber || c.class == classFloat) && c.declared != "boolean"
	}
	switch {
	case set && number(x) && number(y):
		cast = "::numeric"
	case set || x.class != y.class:
		cast = "::text"
	}
	if s.d.kind == postgres {
		text = key + cast + " = " + value + cast
	}
	if set || s.server < 0 || !r.means || x.class != classText && x.class != classUUID {
		return text
	}
	rule := s.v.target.tables[r.parent].column(r.targets[i]).rule
	if s.d.kind != sqlite && s.d.kind == s.v.target.kind && x.rule == rule {
		return text
	}
	return text + " AND " + s.d.digits(x, key) + " = " + s.d.digits(y, value)
}

// span returns the least and the greatest counted key of the rows of a source that are in the target, or -1.
// It asks for keys from a number on and not above the one before: in a column without a sign, MariaDB takes 1
// for the least key above -1.
func (s *side) span(ctx context.Context) (least, greatest int64) {
	key := "s." + s.d.kind.quote(s.identity().name)
	rest := key + " < " + strconv.FormatInt(s.v.plan.Counted, 10)
	if kept := s.kept(); kept != "" {
		rest += " AND " + kept
	}
	for from := int64(0); ; from = least + 1 {
		rows := s.d.texts(ctx, fmt.Sprintf("SELECT MIN(%s), MAX(%s) FROM %s AS s WHERE %s >= %d AND %s",
			key, key, s.d.kind.quote(s.name), key, from, rest))
		if len(rows) == 0 || rows[0][0] == "" {
			return -1, -1
		}
		least, greatest = s.d.parse(rows[0][0]), s.d.parse(rows[0][1])
		if _, refused := s.refused.get(rowAt(s.server, rows[0][0])); !refused {
			return least, greatest
		}
	}
}

// shifted returns a counted key after its table was renumbered.
func (s *side) shifted(value any) any {
	if s == nil {
		return value
	}
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64) // a column with decimals shows 2 as 2.00
	if value == nil || err != nil || n < 0 || n >= s.v.plan.Counted || n == 0 && !s.zero {
		return value
	}
	return n + s.added
}

// readRefused reads which rows the target has refused.
func readRefused(ctx context.Context, j *job) {
	j.v.list(ctx, listOfRefused, "server, row_key", j.name, func(row []string) {
		if j.refused == nil {
			j.refused = newIndex(j.v.fail)
		}
		j.refused.set(rowAt(j.v.position(row[0]), row[1]), "")
	})
}

// findOffsets finds out by how much the counted keys of each server were moved: from where its keys begin in
// the target, behind those of the servers before it.
func findOffsets(ctx context.Context, j *job) {
	if !j.plan.Renumber || j.identity() == nil || j.plan.joins() {
		return
	}
	j.moves, j.highest = true, -1
	key := j.v.target.kind.quote(j.identity().name)
	for _, s := range j.sides {
		if s.table.column(j.identity().name) == nil {
			continue
		}
		least, greatest := s.span(ctx)
		if greatest < 0 {
			continue
		}
		s.counts, s.zero = true, least == 0
		if s.server > 0 || j.plan.First {
			text := j.v.target.text(ctx, fmt.Sprintf("SELECT MIN(%s) FROM %s WHERE %s >= %d AND %s < %d", key,
				j.v.target.kind.quote(j.name), key, j.highest+1, key, j.v.plan.Counted))
			if first, err := strconv.ParseInt(text, 10, 64); err == nil {
				if s.added = first - least; j.highest < 0 {
					j.lowest = first
				}
			}
		}
		j.highest = max(j.highest, greatest+s.added)
		s.upper = j.highest
	}
}

func sameColumns(a, b []string) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
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
	list, _ := json.Marshal(parts) // which never fails for texts
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

// rowAt identifies a row of a server in an index.
func rowAt(server int, key string) sum {
	return sumOf([]byte("row " + strconv.Itoa(server) + " " + key))
}
