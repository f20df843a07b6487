package verify

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
func (v *verifier) newStream(j *job, server int, columns []*column) *stream {
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
func (s *stream) fill(expression string) string { return s.d.fill(s.v, expression) }

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

// equal compares two columns. PostgreSQL does not compare columns of different types.
func equal(k kind, a string, x *column, b string, y *column) string {
	left, right := a+"."+k.quote(x.name), b+"."+k.quote(y.name)
	if k == postgres && x.class != y.class {
		return left + "::text = " + right + "::text"
	}
	return left + " = " + right
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

// given returns the value that the plan gives to a column of a source, and the column that tells its type.
// The column is nil if the server has none.
func (v *verifier) given(j *job, server int, name, alias string) (string, *column) {
	d := v.sources[server]
	if set := j.plan.Set[name]; set != "" {
		return "(" + d.fill(v, set) + ")", j.to.column(name)
	}
	return alias + "." + d.kind.quote(name), j.from[server].column(name)
}

func (v *verifier) newExpecter(s *stream) *expecter {
	e := &expecter{v: v, j: s.j, s: s, server: s.server, at: map[string]int{}, forms: v.forms(s.j, s.columns),
		changes: map[int]any{}, passed: map[int][]passage{}}
	for i, c := range s.columns {
		e.at[c.name] = i
	}
	for _, name := range s.rowKey() {
		if s.from.column(name) != nil {
			e.key = append(e.key, s.j.to.column(name))
		}
	}
	for _, name := range s.j.to.primary {
		e.primary = append(e.primary, s.j.to.column(name))
	}
	e.findCopies()
	return e
}

// shifted returns a counted key after its table was renumbered.
func (v *verifier) shifted(parent *job, server int, value any) any {
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64) // a column with decimals shows 2 as 2.00
	if value == nil || err != nil || n < 0 || n >= v.plan.Counted || n == 0 && !parent.zeros[server] {
		return value
	}
	return n + parent.offsets[server]
}

func (v *verifier) joined(ctx context.Context, j *job) error {
	n := &joiner{v: v, j: j, columns: j.columns, forms: v.forms(j, j.columns), state: newIndex()}
	j.moved = newIndex()
	defer n.state.close()
	n.key = uniqueKey{columns: j.plan.Key}
	for _, u := range j.to.unique { // with the collations of the index
		if sameColumns(u.columns, j.plan.Key) {
			n.key = u
		}
	}
	for i, c := range n.columns {
		changing := slices.Concat(j.plan.Sum, j.plan.Min, j.plan.Max)
		if j.plan.Renumber {
			changing = append(changing, j.to.primary...)
		}
		own := slices.ContainsFunc(j.links, func(r reference) bool {
			return r.parent == j.name && slices.Contains(r.columns, c.name)
		})
		if own {
			n.own = append(n.own, i)
		}
		n.fixed = append(n.fixed, !own && !slices.Contains(changing, c.name))
		said := slices.Concat(changing, j.to.primary, j.plan.Key, []string{j.plan.By})
		if !own && !slices.Contains(said, c.name) {
			n.silent = append(n.silent, i)
		}
	}
	n.targets = v.targetsOf(j)
	n.lists = &lists{v: v}
	if err := n.lists.readJoins(ctx, j); err != nil {
		return err
	}
	passes := []func(context.Context, *joinedRow) error{n.first, n.second}
	if len(n.own) > 0 {
		passes = append(passes, n.third)
	}
	for _, pass := range passes {
		j.left = 0
		for i := range v.sources {
			if j.from[i] != nil {
				j.read[i] = 0
				if err := n.each(ctx, i, pass); err != nil {
					return err
				}
			}
		}
	}
	if err := n.settle(ctx); err != nil {
		return err
	}
	n.lists.settle(j)
	return nil
}

// targetsOf returns the lists of columns of a table that references hold.
func (v *verifier) targetsOf(j *job) (all [][]string) {
	for _, child := range v.jobs {
		for _, r := range child.links {
			if r.parent == j.name &&
				!slices.ContainsFunc(all, func(o []string) bool { return slices.Equal(o, r.targets) }) {
				all = append(all, r.targets)
			}
		}
	}
	return all
}

// tally is what is summed up over rows.
type tally struct {
	rows    digest
	extra   digest   // of the columns that only some sources have
	parents []digest // by reference: row and parent
	orphans []int64  // by reference: rows without their parent
}

// summer sums up the rows of a stream.
type summer struct {
	v       *verifier
	j       *job
	s       *stream
	forms   []form
	common  int      // how many of the columns every source has
	natural [][]form // by reference
	key     []int    // positions of the primary key among the columns
	buffer  []byte
}

func (v *verifier) newSummer(s *stream) *summer {
	m := &summer{v: v, j: s.j, s: s, forms: v.forms(s.j, s.columns), common: len(s.j.columns)}
	for _, r := range s.links {
		var forms []form
		if parent := v.jobs[r.parent]; parent != nil {
			for _, name := range r.natural {
				forms = append(forms, v.form(parent, parent.to.column(name), v.exact()))
			}
		}
		m.natural = append(m.natural, forms)
	}
	for _, name := range s.j.to.primary {
		for i, c := range s.columns {
			if c.name == name {
				m.key = append(m.key, i)
			}
		}
	}
	if len(m.key) != len(s.j.to.primary) {
		m.key = nil
	}
	return m
}

// add adds a row to a tally. Only the extra columns from one position on to another are the server's.
func (m *summer) add(t *tally, values []any, from, to int) {
	if t.parents == nil {
		t.parents, t.orphans = make([]digest, len(m.s.links)), make([]int64, len(m.s.links))
	}
	b := m.buffer[:0]
	for i, f := range m.forms[:m.common] {
		b = f.append(b, values[i])
	}
	row := sumOf(b)
	t.rows.add(row)
	if from < to {
		b = append(b[:0], row[:]...)
		for i := from; i < to; i++ {
			b = m.forms[i].append(b, values[i])
		}
		t.extra.add(sumOf(b))
	}
	for n := range m.s.links {
		there := m.s.there[n]
		if there < 0 || !m.refers(n, values) {
			continue
		}
		found := textOf(values[there]) == "1"
		if !found {
			t.orphans[n]++
		}
		if len(m.s.natural[n]) == 0 || m.leadsFar(n, values) {
			continue
		}
		b = b[:0]
		for _, at := range m.key {
			b = m.forms[at].append(b, values[at])
		}
		if m.key == nil {
			b = append(b, row[:]...)
		}
		for i, at := range m.s.natural[n] {
			b = m.natural[n][i].append(b, values[at])
		}
		t.parents[n].add(sumOf(b))
	}
	m.buffer = b
}

// leadsFar reports whether a row refers to a row that only another server has. Beside it, that server does
// not show what is in it.
func (m *summer) leadsFar(n int, values []any) bool {
	r := m.s.links[n]
	if len(r.far.any) == 0 {
		return false
	}
	var own []any
	for _, name := range r.columns {
		at := slices.IndexFunc(m.s.columns, func(c *column) bool { return c.name == name })
		if at < 0 {
			return false
		}
		own = append(own, values[at])
	}
	return r.far.any[r.key(m.v, own)]
}

// refers reports whether a row has the reference.
func (m *summer) refers(n int, values []any) bool {
	for _, name := range m.s.links[n].columns {
		for i, c := range m.s.columns {
			if c.name == name && values[i] == nil {
				return false
			}
		}
	}
	return true
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

// holding is what the target has.
type holding struct {
	got []tally
	err error
}

// rows compares the rows of a table, and their parents. The target is read while the sources are. If one of
// the two fails, the other one ends too.
func (v *verifier) rows(ctx context.Context, j *job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target := make(chan holding, 1)
	go func() {
		got, err := v.held(ctx, j)
		if err != nil {
			cancel(err)
		}
		target <- holding{got, err}
	}()
	want, attributed, err := v.wanted(ctx, j)
	if err != nil {
		cancel(err)
	}
	held := v.await(j, target) // nothing reads the target any more
	if err != nil || held.err != nil {
		return context.Cause(ctx) // the first of the two errors
	}
	v.settle(j, want, held.got, attributed)
	return nil
}

// await waits for the target, and tells of its rows meanwhile.
func (v *verifier) await(j *job, target <-chan holding) holding {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case held := <-target:
			v.progress(j.name, v.target.Name, 0)
			return held
		case <-tick.C:
			v.progress(j.name, v.target.Name, 0)
		}
	}
}

// wanted sums up, by source, what the target has to hold, and reports whether the keys of the rows tell where
// each comes from.
func (v *verifier) wanted(ctx context.Context, j *job) (want []tally, attributed bool, err error) {
	want = make([]tally, len(v.sources))
	attributed = j.counted()
	for i, from := range j.from {
		if from == nil {
			continue
		}
		s := v.newStream(j, i, append(append([]*column(nil), j.columns...), j.extra[i]...))
		e, m := v.newExpecter(s), v.newSummer(s)
		err := s.each(ctx, func(values []any) error {
			j.read[i]++
			keep, err := e.row(values)
			if err != nil || !keep {
				j.left++
				return err
			}
			if attributed && (len(m.key) != 1 || v.owner(j, values[m.key[0]]) != i) {
				attributed = false
			}
			m.add(&want[i], values, len(j.columns), len(s.columns))
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		v.named(j, i, e)
	}
	return want, attributed, nil
}

// held sums up the target: by server as far as its keys tell, and last what belongs to no server.
func (v *verifier) held(ctx context.Context, j *job) ([]tally, error) {
	columns := append([]*column(nil), j.columns...)
	from, to := make([]int, len(v.sources)+1), make([]int, len(v.sources)+1)
	for i := range j.extra {
		from[i] = len(columns)
		columns = append(columns, j.extra[i]...)
		to[i] = len(columns)
	}
	got := make([]tally, len(v.sources)+1)
	s := v.newStream(j, -1, columns)
	s.tell = func(rows int) { v.ahead.Add(int64(rows)) }
	m := v.newSummer(s)
	tells := j.counted() && len(m.key) == 1
	err := s.each(ctx, func(values []any) error {
		server := len(v.sources)
		if tells {
			if owner := v.owner(j, values[m.key[0]]); owner >= 0 {
				server = owner
			}
		}
		m.add(&got[server], values, from[server], to[server])
		return nil
	})
	return got, err
}

// settle compares the tallies.
func (v *verifier) settle(j *job, want, got []tally, attributed bool) {
	columns := fmt.Sprintf("%d columns", len(j.columns))
	line := func(server string, w, g tally) {
		v.compare("rows", j.name, server, "", fmt.Sprint(w.rows.rows), fmt.Sprint(g.rows.rows))
		v.compare("checksum", j.name, server, columns, w.rows.String(), g.rows.String())
		for n, r := range j.links {
			if len(r.natural) > 0 && (w.parents != nil || g.parents != nil) {
				v.compare("parents", j.name, server, r.String(), parentText(w, n), parentText(g, n))
			}
		}
	}
	var all, held tally
	for i := range want {
		all.merge(want[i])
	}
	for i := range got {
		held.merge(got[i])
	}
	j.present = held.rows.rows
	if !attributed {
		line("", all, held)
	} else {
		for i, s := range v.plan.Servers {
			if j.from[i] == nil {
				continue
			}
			line(s.Name, want[i], got[i])
			if len(j.extra[i]) > 0 {
				v.compare("checksum", j.name, s.Name,
					fmt.Sprintf("%d columns that not every server has", len(j.extra[i])), want[i].extra.String(),
					got[i].extra.String())
			}
		}
		v.compare("rows", j.name, "", "of no server", "0", fmt.Sprint(got[len(want)].rows.rows))
	}
	v.orphanLines(j, held)
}

// orphanLines compares the number of rows of the target without their parents with 0.
func (v *verifier) orphanLines(j *job, held tally) {
	for n, r := range j.links {
		p := v.plan.Tables[r.parent]
		if p == nil || p.Policy == policySkip && !r.enforced || r.inside() || r.when != "" {
			continue
		}
		orphans := int64(0)
		if held.orphans != nil {
			orphans = held.orphans[n]
		}
		v.compare("orphans", j.name, "", r.String(), "0", fmt.Sprint(orphans))
	}
}

func parentText(t tally, n int) string {
	if t.parents == nil {
		return digest{}.String()
	}
	return t.parents[n].String()
}

func (t *tally) merge(o tally) {
	t.rows.merge(o.rows)
	if o.parents == nil {
		return
	}
	if t.parents == nil {
		t.parents, t.orphans = make([]digest, len(o.parents)), make([]int64, len(o.orphans))
	}
	for n := range o.parents {
		t.parents[n].merge(o.parents[n])
		t.orphans[n] += o.orphans[n]
	}
}

// balanced checks that the target lacks those rows of a table which the plan gives up, and no other row.
func (v *verifier) balanced(ctx context.Context, name string) error {
	if v.older {
		return nil
	}
	p, j := v.plan.Tables[name], v.jobs[name]
	var missing GivenUp
	for i, d := range v.sources {
		if d.tables[name] == nil {
			continue
		}
		if j != nil && p.Where == "" && p.Orphans != "drop" {
			break // the rows that were read are all that there are
		}
		all, err := v.count(ctx, d, name, "")
		if err != nil {
			return err
		}
		met := all
		if j != nil && p.Where != "" {
			if met, err = v.count(ctx, d, name, " WHERE ("+p.Where+")"); err != nil {
				return err
			}
		}
		switch {
		case p.Policy == policyRebuild:
			missing.Rebuilt += all
		case j == nil:
			missing.Skipped += all
		default:
			missing.Filtered += all - met
			missing.Orphans += met - j.read[i]
		}
	}
	if j != nil {
		missing.Quarantined = int64(j.refused.len())
		missing.Filtered += j.left - missing.Quarantined
		if missing.Differing = j.differing; v.undiffered {
			missing.Differing = p.GivesUp.Differing
		}
		missing.Collapsed = -j.left - j.present
		for _, n := range j.read {
			missing.Collapsed += n
		}
	}
	v.compare("balance", name, "", "rows that are given up", p.GivesUp.String(), missing.String())
	return nil
}

func (v *verifier) count(ctx context.Context, d *database, table, where string) (int64, error) {
	text, err := d.text(ctx, "SELECT COUNT(*) FROM "+d.kind.quote(table)+" AS s"+where)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
