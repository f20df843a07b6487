package merge

import (
	"cmp"
	"context"
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
	job    *tableJob
	server int // position in the plan
	owner  *server
	sel    selection // writes the statements that read it
	table  *sqldb.Table
	pairs  []pair
	key    []int           // the positions in pairs of the primary key
	order  []*sqldb.Column // by which rows are read
	raw    bool            // from SQLite to SQLite values are not converted
	// What has to follow the rows of other tables, and the expressions that are read for it.
	links   []sourceLink
	adrift  []sourceLink // inside of columns, to tables that the server lacks
	whole   []sourceLink // of several columns, to a whole key
	repeats []sourceName
	extras  []string
	// competes is where the extras have the condition under which a row may get a new name, or -1.
	competes int
	// flags are the columns that the plan sets to another value in rows with a new name.
	flags []sourceFlag
}

// share is what decisions and the journal call the table of this server, and of those of another table.
func (src *sourceTable) share() tableServer { return src.shareOf(src.job.name) }

func (src *sourceTable) shareOf(table string) tableServer {
	return tableServer{table, src.owner.Number}
}

// server is a source of the plan and its database.
type server struct {
	Server
	db    *sqldb.DB
	known *bool // whether it is beside the target
}

// beside reports whether the server of the target has this database, too. The answer holds for the sessions
// that a merge has, so it is asked for once.
func (s *server) beside(ctx context.Context, target *sqldb.DB) (bool, error) {
	if s.known == nil {
		same, err := target.SameInstance(ctx, s.db)
		if err != nil {
			return false, err
		}
		s.known = &same
	}
	return *s.known, nil
}

// pair is a column of a source and the column of the target that it is copied to.
type pair struct {
	source, target *sqldb.Column
	native         bool // both have the same type on the same kind of database
}

// key returns the column that identifies rows: the primary key, if it consists of one column, or, of a table
// whose keys are renumbered, what is renumbered. It is nil without one.
func (j *tableJob) key() *sqldb.Column {
	if j.plan.Renumber != "" && !j.plan.Policy.collapses() {
		return identityOf(j.target)
	}
	return onlyPrimary(j.target)
}

// changes reports whether rows of the table may get another number as their key. Of rows that become one by
// the key itself, one stays and has the key of all.
func (j *tableJob) changes() bool {
	return j.key() != nil && j.key().Family == sqldb.FamilyInt && (j.plan.Renumber != "" ||
		j.plan.Policy.collapses() && !slices.Equal(j.plan.Key, []string{j.key().Name}))
}

// onlyPrimary returns the primary key of a table, or nil if it has none, or one of several columns.
func onlyPrimary(t *sqldb.Table) *sqldb.Column {
	if t == nil || len(t.Primary) != 1 {
		return nil
	}
	return t.Column(t.Primary[0])
}

// rowBy returns the column that tells which row of a table has a name: its primary key, or its identity.
func rowBy(t *sqldb.Table) *sqldb.Column { return cmp.Or(onlyPrimary(t), identityOf(t)) }

// identityOf returns the column whose numbers a database may have counted for the rows of a table: the
// primary key, or the one other unique column of whole numbers. It is nil if there are none or several, or no
// such table. A primary key that is no number is the identity of rows that have no other.
func identityOf(t *sqldb.Table) (found *sqldb.Column) {
	if t == nil {
		return nil
	}
	primary := onlyPrimary(t)
	if primary != nil && primary.Family == sqldb.FamilyInt {
		return primary
	}
	for _, k := range t.Unique {
		if !k.Simple() || len(k.Parts) != 1 {
			continue
		}
		switch c := t.Column(k.Parts[0].Column); {
		case c == nil || c.Family != sqldb.FamilyInt || c == found:
		case found != nil:
			return primary
		default:
			found = c
		}
	}
	for _, name := range t.Primary { // such as beside the day by which a table has partitions
		if c := t.Column(name); found == nil && c.Counts() && c.Family == sqldb.FamilyInt {
			found = c
		}
	}
	return cmp.Or(found, primary)
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

// keyed reports whether the policy needs a primary key.
func (j *tableJob) keyed() bool { return j.plan.Policy == Rename || j.plan.Policy.collapses() }

// refers reports whether a column is part of a known reference.
func (j *tableJob) refers(column string) bool {
	return slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
		return slices.Contains(ref.Columns, column) || slices.Contains(ref.Rest, column)
	})
}

// compares reports whether a column says which rows of the table are equal, or in what equal ones differ.
func (j *tableJob) compares(column string) bool {
	return j.plan.Policy.collapses() || j.target.Keyed(column)
}

// whens returns the columns whose references all have a condition, each with the condition that one of them
// applies to a row.
func (j *tableJob) whens() map[string]string {
	all, whole := map[string]string{}, map[string]bool{}
	for _, ref := range j.refs {
		name := ref.Columns[0]
		switch {
		case len(ref.Columns) > 1 || ref.Path+ref.List != "" || ref.When == "" || j.plan.Set[name] != "":
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
	part := func(name string) sqldb.KeyPart { return sqldb.KeyPart{Column: name} }
	return sqldb.UniqueKey{Name: "the key of the plan", Parts: sqldb.Mapped(j.plan.Key, part)}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// exempts reports whether the plan has a condition for the rows that may get a new name.
func (j *tableJob) exempts() bool { return j.plan.Rename != nil && j.plan.Rename.When != "" }

// renameLimit returns how many characters a name may have; 0: any number.
func (j *tableJob) renameLimit() int {
	limit := j.plan.Rename.Max
	for _, name := range j.plan.Rename.writes() { // what is computed from it has to fit, too
		if c := j.target.Column(name); c != nil && c.MaxChars > 0 && (limit == 0 || c.MaxChars < limit) {
			limit = c.MaxChars
		}
	}
	return limit
}

// index returns the position of a column in the rows of the source, or -1.
func (src *sourceTable) index(name string) int {
	return slices.IndexFunc(src.pairs, func(p pair) bool { return p.target.Name == name })
}

func (src *sourceTable) positions(names []string) []int {
	return sqldb.Mapped(names, src.index)
}

func (src *sourceTable) names() []string {
	return sqldb.ColumnNames(src.columns())
}

// columns returns the columns of the target that the source has.
func (src *sourceTable) columns() []*sqldb.Column {
	return sqldb.Mapped(src.pairs, func(p pair) *sqldb.Column { return p.target })
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

// numbered reports whether whole numbers say where a chunk ends.
func (src *sourceTable) numbered() bool { return src.table.Numbered(src.owner.db.Kind) }

// renamed returns the position of the column that the policy rename changes, or -1.
func (src *sourceTable) renamed() int {
	if src.job.plan.Rename == nil {
		return -1
	}
	return src.index(src.job.plan.Rename.Column)
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
			return src.refused(r.key, fmt.Errorf("set: %w", err))
		}
	}
	return nil
}

// refused is the error that a row cannot be written as it is.
func (src *sourceTable) refused(key []any, err error) error {
	return fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, src.owner.Name, src.job.name,
		sqldb.KeyText(key), err)
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
	bits   bits   // where the key is in a number, and the further columns
}

func (l link) columns() []string { return l.bits.columns(l.column) }

// inside reports whether keys are only a part of what the column holds.
func (l link) inside() bool { return l.path+l.list != "" || l.bits.used() }

// nameLink says that a column repeats the name of a row of another table, which may get a new name.
type nameLink struct {
	column string
	parent string
	ref    sqldb.Reference // it leads to the row of the name, if the name does not stand alone
	keyed  bool            // what the reference consists of is the primary key of that row
}

// alone reports whether nothing beside the name leads to its row.
func (n nameLink) alone() bool { return len(n.ref.Columns) == 0 }

// follows are all columns of a table that have to follow the rows of other tables.
type follows struct {
	links []link
	// whole are the references of several columns, in the order of the primary key of a table whose rows may
	// become one.
	whole []link
	names []nameLink
}

// sourceLink and sourceName are links of a source table, with the positions of what they need. A sourceFlag
// has the position of a column, and that of its value in a row with a new name.
type (
	sourceLink struct {
		link
		index, when int
		all         []int // the positions of all columns that hold parts of the key
		own         bool  // it is the primary key itself
		rivals      []int // links before it that may lead to the same keys
	}
	sourceName struct {
		nameLink
		index int
		key   []int
	}
	sourceFlag struct{ index, extra int }
)

// row is a row on its way to the target. The values are in the order of the pairs of its source table.
type row struct {
	values []any
	key    []any // the primary key, as the row had it on its server
	extra  []any // the further expressions of the source table
	before []any // the values before the decisions, where a check asks which rows they change
}

// holds reports whether the condition at a position of the extras holds for a row.
func (r row) holds(index int) bool { return index < 0 || sqldb.Text(r.extra[index]) == "1" }

// unchanged reports whether a row has the values that it had before.
func (r row) unchanged() bool {
	return slices.EqualFunc(r.values, r.before, func(a, b any) bool {
		return (a == nil) == (b == nil) && sqldb.Text(a) == sqldb.Text(b)
	})
}

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
	shared := slices.ContainsFunc(l.columns(), func(name string) bool {
		return slices.Contains(o.columns(), name)
	})
	return shared && l.bits.meets(o.bits) &&
		(l.path == "" || o.path == "" || samePath(l.path, o.path))
}

// repeats reports whether two references say the same of every key: that it is a key of one table, in one
// place.
func (l link) repeats(o link) bool {
	return l.parent == o.parent && l.list == o.list && l.bits == o.bits &&
		(l.path == "") == (o.path == "") && l.meets(o)
}

// samePath reports whether two paths lead to the same place, however they are written.
func samePath(a, b string) bool {
	x, _ := parsePath(a) // No plan with another path is accepted.
	y, _ := parsePath(b)
	return slices.Equal(x, y)
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

// keys returns the keys in what [sourceLink.parts] has returned.
func (l sourceLink) keys(values []any) ([]any, error) {
	if !l.inside() || values == nil {
		return values, nil
	}
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

// as is how a plan says where in the column the keys are.
func (l link) as() string {
	switch {
	case l.path != "":
		return "path " + l.path
	case l.list != "":
		return "list " + l.list
	case l.bits.used():
		return "bits " + l.bits.String()
	}
	return "the whole column"
}

// disputants says what keys would have to follow by each of two references.
func disputants(a, b link) string {
	if a.parent != b.parent {
		return fmt.Sprintf("the keys of both %s and %s", a.parent, b.parent)
	}
	return fmt.Sprintf("the keys of %s in two ways, by %s and by %s", a.parent, a.as(), b.as())
}

// nameWords are columns whose values are names, which one of two rows can give up.
const nameWords = `(?i)^(name|nick|nickname|nick_name|role_name|guild_name|title|tag|display_name)$`

// isName reports whether a column is called like one for names.
func isName(column string) bool { return regexp.MustCompile(nameWords).MatchString(column) }

// columnsIn returns the columns on which a unique key depends.
func columnsIn(t *sqldb.Table, k sqldb.UniqueKey) []*sqldb.Column {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c *sqldb.Column) bool { return !k.Covers(c.Name) })
}

// onlyText returns the text column by which rows of different servers may be equal. It is "" unless all
// columns of the key are texts.
func onlyText(t *sqldb.Table, k sqldb.UniqueKey) (found string) {
	for _, c := range columnsIn(t, k) {
		if c.Family != sqldb.FamilyText {
			return ""
		}
		if found == "" || isName(c.Name) {
			found = c.Name
		}
	}
	return found
}

// calledKey returns what reports call a unique key: its columns, since databases make up names of indexes. An
// expression has none.
func calledKey(t *sqldb.Table, k sqldb.UniqueKey) string {
	if k.Name == sqldb.PrimaryName || !k.Simple() {
		return k.Name
	}
	return covered(t, k)
}

// covered returns the names of the columns of a unique key, in brackets.
func covered(t *sqldb.Table, k sqldb.UniqueKey) string {
	if names := sqldb.ColumnNames(columnsIn(t, k)); len(names) > 0 {
		return "(" + strings.Join(names, ", ") + ")"
	}
	return k.Name
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
