package merge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// tableJob is a table of the target and the source tables that are copied to it.
type tableJob struct {
	name     string
	plan     *TablePlan
	target   *sqldb.Table
	refs     []sqldb.Reference // foreign keys of the target, and those of the plan
	circular []sqldb.Reference // the refs that are part of a circle
	sources  []*sourceTable    // by position of the server; nil where the server lacks the table
	follows  *follows
}

// present returns the source tables of the servers that have the table, in the order of the plan.
func (j *tableJob) present() []*sourceTable {
	return slices.DeleteFunc(slices.Clone(j.sources), func(src *sourceTable) bool { return src == nil })
}

// sourceTable is a table of one server that is copied to the target.
type sourceTable struct {
	ws     *workspace
	job    *tableJob
	server int // position in the plan
	table  *sqldb.Table
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

// owner returns the server that has the table.
func (src *sourceTable) owner() *server { return src.ws.servers[src.server] }

// pair is a column of a source and the column of the target that it is copied to.
type pair struct {
	source, target *sqldb.Column
	set            bool // the plan sets it to an expression
	native         bool // both have the same type on the same kind of database
}

// key returns the column that identifies rows: the primary key, if it consists of one column, or, of a table
// whose keys are renumbered, the one unique column of whole numbers. It is nil without one.
func (j *tableJob) key() *sqldb.Column {
	if len(j.target.Primary) == 1 || j.plan.Renumber != "" && !j.plan.Policy.collapses() {
		return identityOf(j.target)
	}
	return nil
}

// changes reports whether rows of the table may get another number as their key.
func (j *tableJob) changes() bool {
	return j.key() != nil && j.key().Family == sqldb.FamilyInt &&
		(j.plan.Renumber != "" || j.plan.Policy.collapses())
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
		if c := j.target.Column(name); c != nil && c.Nullable && !slices.Contains(j.target.Primary, name) {
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
			p.Column != "" && (j.target.Column(p.Column) == nil || j.target.Column(p.Column).Generated)
	})
}

// refers reports whether a column is part of a known reference.
func (j *tableJob) refers(column string) bool {
	return slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
		return slices.Contains(ref.Columns, column) || slices.Contains(ref.Rest, column)
	})
}

// whens returns the columns whose references all have a condition, each with the condition that one of them
// applies to a row.
func (j *tableJob) whens() map[string]string {
	all, whole := map[string]string{}, map[string]bool{}
	for _, ref := range j.refs {
		name := ref.Columns[0]
		switch {
		case len(ref.Columns) > 1 || ref.Inside() || ref.When == "" || j.plan.Set[name] != "":
			whole[name] = true
		case all[name] != "":
			all[name] += " OR (" + ref.When + ")"
		default:
			all[name] = "(" + ref.When + ")"
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return whole[name] })
	return all
}

// counted reports whether the primary key of a table is one integer column.
func (j *tableJob) counted() bool {
	return len(j.target.Primary) == 1 && j.target.Column(j.target.Primary[0]).Family == sqldb.FamilyInt
}

// collapseKey returns the key of the plan by which rows become one.
func (j *tableJob) collapseKey() sqldb.UniqueKey {
	for _, k := range j.target.Keys() {
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
	limit := j.target.Column(p.Column).MaxChars
	if p.Max > 0 && (limit == 0 || p.Max < limit) {
		limit = p.Max
	}
	return limit
}

// has reports whether the source has a column.
func (src *sourceTable) has(name string) bool { return src.index(name) >= 0 }

// index returns the position of a column in the rows of the source, or -1.
func (src *sourceTable) index(name string) int {
	return slices.IndexFunc(src.pairs, func(p pair) bool { return p.target.Name == name })
}

// positions returns the positions of several columns.
func (src *sourceTable) positions(names []string) []int {
	indexes := make([]int, len(names))
	for i, name := range names {
		indexes[i] = src.index(name)
	}
	return indexes
}

func (src *sourceTable) names() []string {
	names := make([]string, len(src.pairs))
	for i, p := range src.pairs {
		names[i] = p.target.Name
	}
	return names
}

// columns returns the columns of the target that the source has.
func (src *sourceTable) columns() []*sqldb.Column {
	columns := make([]*sqldb.Column, len(src.pairs))
	for i, p := range src.pairs {
		columns[i] = p.target
	}
	return columns
}

// value converts what a driver returned to the value that is copied.
func (src *sourceTable) value(v any, p pair) (any, error) {
	if p.native && !src.raw {
		return sqldb.Native(v, p.target)
	}
	if !src.raw || p.source.Family == p.target.Family {
		return sqldb.Canonical(v, p.target, src.raw)
	}
	v, err := sqldb.Canonical(v, p.target, false)
	return sqldb.Adapt(sqldb.SQLite, v, p.target, false), err
}

// part returns a source table with some of its columns.
func (src *sourceTable) part(names []string) *sourceTable {
	part := &sourceTable{ws: src.ws, job: src.job, server: src.server, table: src.table, order: src.order,
		raw: src.raw}
	key := make([]string, len(src.key))
	for i, index := range src.key {
		key[i] = src.pairs[index].target.Name
	}
	for _, p := range src.pairs {
		if slices.Contains(names, p.target.Name) || slices.Contains(key, p.target.Name) {
			part.pairs = append(part.pairs, p)
		}
	}
	for _, name := range key {
		part.key = append(part.key, part.index(name))
	}
	return part.prepared(src.ws)
}

// numbered reports whether whole numbers say where a chunk ends.
func (src *sourceTable) numbered() bool {
	return len(src.order) > 0 && !slices.ContainsFunc(src.order, func(o sqldb.OrderTerm) bool {
		return !o.Whole(src.owner().db.Kind)
	})
}

// renamed returns the position of the column that the policy rename changes, or -1.
func (src *sourceTable) renamed() int {
	if src.job.plan.Rename == nil {
		return -1
	}
	return src.index(src.job.plan.Rename.Column)
}

// prepared notes what has to follow, and which expressions have to be read for that besides the columns.
func (src *sourceTable) prepared(ws *workspace) *sourceTable {
	need := func(e extra) int {
		src.extras = append(src.extras, e)
		return len(src.extras) - 1
	}
	j := src.job
	exists := func(parent string) bool {
		return ws.jobs[parent] != nil &&
			ws.jobs[parent].sources[src.server] != nil
	}
	condition := func(when string) int {
		if when == "" {
			return -1
		}
		return need(func(selection) string { return "CASE WHEN " + when + " THEN 1 ELSE 0 END" })
	}
	if src.competes = -1; j.exempts() {
		src.competes = condition(j.plan.Rename.When)
	}
	for index, p := range src.pairs {
		if set := j.plan.Set[p.target.Name]; strings.Contains(set, wordRenamed) {
			value := need(func(s selection) string { return s.shown(p.target, s.setFor(set, "1")) })
			src.flags = append(src.flags, sourceFlag{index, value})
		}
	}
	for _, l := range j.follows.links {
		if !slices.Contains(src.positions(l.bits.columns(l.column)), -1) && exists(l.parent) {
			src.links = append(src.links, sourceLink{link: l, index: src.index(l.column), when: condition(l.when),
				all: src.positions(l.bits.columns(l.column)),
				own: l.parent == j.name && j.key() != nil && j.key().Name == l.column})
		}
	}
	for n := range src.links {
		src.links[n].rivals = src.rivals(n)
	}
	for _, w := range j.follows.whole {
		indexes := src.positions(w.columns)
		if exists(w.parent) && !slices.Contains(indexes, -1) {
			src.whole = append(src.whole, sourceWhole{wholeLink: w, indexes: indexes, when: condition(w.when)})
		}
	}
	for _, n := range j.follows.names {
		if !src.has(n.column) || !exists(n.parent) {
			continue
		}
		s := sourceName{nameLink: n, index: src.index(n.column)}
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
			return false, fmt.Errorf("it would have to follow the keys of both %s and %s", o.parent, l.parent)
		}
		return true, nil
	}
	return false, nil
}

// nameBeside changes what stands beside the name of a row that gets a new one.
func (src *sourceTable) nameBeside(r row, name string) (err error) {
	for _, d := range src.job.plan.Rename.Derived {
		if index := src.index(d.Column); index >= 0 {
			r.values[index] = derive(d.As, name)
		}
	}
	for _, f := range src.flags {
		if r.values[f.index], err = src.value(r.extra[f.extra], src.pairs[f.index]); err != nil {
			return fmt.Errorf("%w: %s: table %s, row %s: set: %w", ErrRow, src.owner().Name,
				src.job.name, sqldb.KeyText(r.key), err)
		}
	}
	return nil
}

// place is a column of a table.
type place struct{ table, column string }

// link says that a column holds keys of another table, which may change: because the other table is
// renumbered, or because its rows may become one with others.
type link struct {
	column string // of the child
	parent string // the table whose primary key, of one column, the column holds
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
	parent  string
	when    string
}

// nameLink says that a column repeats the name of a row of another table, which may get a new name.
type nameLink struct {
	column string
	parent string
	// key are, for each column of the primary key of that table, SQL for its value in the row that is referred
	// to, with the alias s for the row that refers.
	key []func(s selection) string
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
			origins[p] = append(origins[p], link{column: p.column, parent: j.name})
		}
	}
	named := map[place][]nameLink{}
	for changed := true; changed; {
		changed = false
		for _, j := range ws.order {
			for _, ref := range j.refs {
				for i, column := range ref.Columns {
					child, origin := place{j.name, column}, place{ref.Parent, ref.Target[i]}
					for _, o := range origins[origin] {
						l := link{column: column, parent: o.parent, when: both(ref.When, o.when, ref.Parent == j.name),
							path: ref.Path, list: ref.List}
						if ref.Bits != "" { // it can be read, since the plan is valid
							l.bits, _ = parseBits(ref.Bits, append([]string{column}, ref.Rest...))
						}
						if o.inside() || o.when != "" && ref.Parent != j.name ||
							slices.Contains(origins[child], l) || child == origin {
							continue
						}
						origins[child] = append(origins[child], l)
						changed = true
					}
				}
			}
		}
	}
	for _, j := range ws.order {
		f := &follows{}
		for _, c := range j.target.Columns {
			f.links = append(f.links, ws.linksOf(j, c.Name, origins[place{j.name, c.Name}])...)
		}
		for _, ref := range j.refs {
			if parent := ws.jobs[ref.Parent]; parent != nil && parent.plan.Policy.collapses() &&
				len(ref.Columns) > 1 && sameNames(ref.Target, parent.target.Primary) {
				w := wholeLink{parent: parent.name, when: ref.When}
				for _, name := range parent.target.Primary {
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
			case o.parent == l.parent:
				p.Remedy = "remove one of the references, or tell the two apart by when:"
			case slices.Contains([]string{o.parent, l.parent}, j.name):
				others := strings.Trim(strings.Replace(o.parent+" "+l.parent, j.name, "", 1), " ")
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
			if j == nil || j.target.Column(c.Column) == nil || j.target.Column(c.Ref) == nil {
				continue
			}
			if id := identityOf(parent.target); len(parent.target.Primary) != 1 {
				if id == nil || !slices.Contains(parent.target.Primary, id.Name) {
					ws.problems = append(ws.problems, Problem{Code: CodeNameCopy, Table: parent.name, Column: r.Column,
						Message: "copies: no one column of the primary key tells its rows apart, so " + c.Table + "." +
							c.Ref + " does not say whose name is beside it",
						Remedy: "remove the entry, and change such copies on their server; or another policy"})
					continue
				}
				j.follows.names = append(j.follows.names, nameLink{column: c.Column, parent: parent.name,
					key: keyOfNamed(parent, sqldb.Reference{Columns: []string{c.Ref}, Target: []string{id.Name}})})
				continue
			}
			j.follows.names = append(j.follows.names, nameLink{column: c.Column, parent: parent.name,
				key: []func(s selection) string{func(s selection) string { return "s." + s.kind.Quote(c.Ref) }}})
		}
		for _, j := range ws.order {
			for _, ref := range j.refs {
				index := slices.Index(ref.Target, r.Column)
				if ref.Parent != parent.name || index < 0 {
					continue
				}
				if ref.When != "" || ref.Inside() {
					ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[index],
						Message: "a reference to a name that may change cannot have when:, path:, list: or bits:",
						Remedy:  "list the column under copies: of the rename"})
					continue
				}
				named[place{j.name, ref.Columns[index]}] = nil
				j.follows.names = append(j.follows.names, nameLink{column: ref.Columns[index], parent: parent.name,
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
func (ws *workspace) repeatsNames(parent *tableJob) bool {
	return slices.ContainsFunc(ws.order, func(j *tableJob) bool {
		return slices.ContainsFunc(j.follows.names, func(n nameLink) bool { return n.parent == parent.name })
	})
}

// keyOfNamed returns SQL for the primary key of the row whose name a row has. The server itself compares the
// names, by its collation.
func keyOfNamed(parent *tableJob, ref sqldb.Reference) []func(s selection) string {
	var all []func(s selection) string
	for _, name := range parent.target.Primary {
		all = append(all, func(s selection) string {
			var joins []string
			for i, column := range ref.Columns {
				joins = append(joins, "pn."+s.kind.Quote(ref.Target[i])+" = s."+s.kind.Quote(column))
			}
			list := "pn." + s.kind.Quote(name)
			if src := parent.sources[s.server]; src != nil {
				if c := src.table.Column(name); c != nil {
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
		index, when int
		all         []int // the positions of all columns that hold parts of the key
		own         bool  // it is the primary key itself
		rivals      []int // links before it that may lead to the same keys
	}
	sourceWhole struct {
		wholeLink
		indexes []int
		when    int
	}
	sourceName struct {
		nameLink
		index int
		key   []int
	}
	sourceFlag struct{ index, extra int }
)

// holds reports whether the condition at a position of the extras holds for a row.
func (r row) holds(index int) bool { return index < 0 || sqldb.Text(r.extra[index]) == "1" }

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

// A key changes at most once in a row. Several references may lead out of one column, so these say which
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
	return l.parent == o.parent && l.list == o.list && l.bits == o.bits &&
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

// parts returns what a row has in the columns of the reference, or nil if that is no reference.
func (l sourceLink) parts(r row) []any {
	values := make([]any, len(l.all))
	for i, index := range l.all {
		if values[i] = r.values[index]; values[i] == nil {
			return nil
		}
	}
	if !r.holds(l.when) {
		return nil
	}
	return values
}

// keys returns the keys inside a JSON document, a list or numbers.
func (l sourceLink) keys(values []any) ([]any, error) {
	var all []any
	_, err := l.replace(values, func(v any) (any, error) {
		all = append(all, v)
		return v, nil
	})
	return all, err
}

// replace calls fn for every key inside a JSON document, a list or numbers and puts what it returns in its
// place. All else stays as it is, to the byte.
func (l sourceLink) replace(values []any, fn func(any) (any, error)) ([]any, error) {
	if l.bits.used() {
		return l.bits.replace(values, fn)
	}
	text := sqldb.Text(values[0])
	var err error
	switch {
	case l.path != "":
		text, err = replaceInJSON(text, l.path, fn)
	case l.list == arrayList:
		inner, ok := strings.CutPrefix(text, "{")
		if inner, ok2 := strings.CutSuffix(inner, "}"); ok && ok2 {
			text, err = replaceInList(inner, ",", fn)
			text = "{" + text + "}"
		} else {
			err = fmt.Errorf("%q is no array", sqldb.Shorten(text))
		}
	default:
		text, err = replaceInList(text, l.list, fn)
	}
	if _, isBytes := values[0].([]byte); isBytes {
		return []any{[]byte(text)}, err
	}
	return []any{text}, err
}

// disputants says what keys would have to follow by each of two references.
func disputants(a, b link) string {
	if a.parent != b.parent {
		return fmt.Sprintf("the keys of both %s and %s", a.parent, b.parent)
	}
	var ways []string
	for _, l := range []link{a, b} {
		switch {
		case l.path != "":
			ways = append(ways, "path: "+l.path)
		case l.bits.used():
			ways = append(ways, "bits: "+l.bits.String())
		case l.list != "":
			ways = append(ways, fmt.Sprintf("list: %q", l.list))
		default:
			ways = append(ways, "the whole column")
		}
	}
	return fmt.Sprintf("the keys of %s in two ways, by %s", a.parent, strings.Join(ways, " and by "))
}

// nameWords are columns whose values are names, which one of two rows can give up.
const nameWords = `(?i)^(name|nick|nickname|nick_name|role_name|guild_name|title|tag|display_name)$`

// onlyText returns the text column by which rows of different servers may be equal. It is "" unless all
// columns of the key are texts.
func onlyText(t *sqldb.Table, k sqldb.UniqueKey) string {
	found := ""
	for _, c := range t.Columns {
		if !k.Covers(c.Name) {
			continue
		}
		if c.Family != sqldb.FamilyText {
			return ""
		}
		if found == "" || regexp.MustCompile(nameWords).MatchString(c.Name) {
			found = c.Name
		}
	}
	return found
}

// calledKey returns what reports call a unique key: its columns, since databases
// make up names of indexes. An expression has none.
func calledKey(t *sqldb.Table, k sqldb.UniqueKey) string {
	if k.Name == sqldb.PrimaryName || !k.Simple() {
		return k.Name
	}
	return covered(t, k)
}

// covered returns the names of the columns of a unique key, in brackets.
func covered(t *sqldb.Table, k sqldb.UniqueKey) string {
	var names []string
	for _, c := range t.Columns {
		if k.Covers(c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return k.Name
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// derive computes a column from a name.
func derive(as, name string) string {
	switch as {
	case "lower":
		return strings.ToLower(name)
	case "upper":
		return strings.ToUpper(name)
	}
	return name
}
