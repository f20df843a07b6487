// Package sqldb reads and writes databases of every kind that can be merged: SQLite, MySQL or MariaDB, and
// PostgreSQL. It holds their kinds and connections, their catalogs, the conversion of values, and
// writers with their bulk copies.
//
// It works on database/sql and imports no driver. It knows nothing of plans and policies: those are the
// subject of package merge.
package sqldb

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// Kind is a kind of database.
type Kind = dialect.Kind

// Statement is SQL under construction.
type Statement = dialect.SQL

// The kinds of databases. MySQL stands for MariaDB too.
const (
	SQLite     Kind = dialect.SQLite
	MySQL      Kind = dialect.MySQL
	PostgreSQL Kind = dialect.PostgreSQL
)

// PrimaryName is what reports call a primary key.
const PrimaryName = "the primary key"

// Table is a table of a catalog.
type Table struct {
	Name       string
	Columns    []*Column
	Primary    []string
	Unique     []UniqueKey // besides the primary key
	Sorted     [][]string  // the columns of indexes that are not unique and have no expression or condition
	Exclusions []string    // the names of those constraints of PostgreSQL
	References []Reference // to tables of this schema
	Abroad     []string    // foreign keys to tables of other schemas, in words
	Triggers   []string
	// Engine is the engine of a table of MySQL or MariaDB that has no transactions; "" if it has them.
	Engine string
	// rowID is the row number of SQLite, which every row has; nil if there is none, or if columns have all of
	// its names.
	rowID *Column
	// Heirs says that other tables of PostgreSQL inherit from it, whose rows it shows as if they were its own.
	Heirs bool
	// Hidden says that row-level security of PostgreSQL may hide rows from this login.
	Hidden      bool
	partitioned bool
}

// wholeNumber returns the number that an expression is, in quotes or not; "" if it is anything else.
func wholeNumber(expression string) string {
	text, _, _ := strings.Cut(expression, "::")
	text = strings.Trim(text, "'()")
	if _, err := strconv.ParseUint(text, 10, 64); err != nil {
		return ""
	}
	return text
}

// Column is a column of a table.
type Column struct {
	Name       string
	Declared   string // the type in the words of the database, on MySQL in small letters
	Spelled    string // the type as MySQL spells it; empty on other databases
	unlimited  string // the type without its limits, of PostgreSQL; empty for columns that no catalog has
	Family     Family
	Nullable   bool
	HasDefault bool   // it has a default or counts up by itself
	Default    string // the whole number that is its default; "" without one
	Generated  bool   // the database computes it
	counted    bool   // the database counts it, as AUTO_INCREMENT or an identity
	sequence   string // the quoted name of the sequence that its default comes from, on MariaDB and TiDB
	MaxChars   int    // 0: no limit
	precision  int    // digits of a fraction of a second; -1: no limit
	Cuts       bool   // the plan allows to cut a fraction of a second
	Collation  string // as it stands in a statement
	folds      string // the rule by which different texts may be equal; "" if there is none
	labels     bool   // it is an enumeration of PostgreSQL
}

// Counts reports whether there is such a column and the database gives it its values by counting.
func (c *Column) Counts() bool { return c != nil && (c.counted || c.sequence != "") }

// Like returns the definition of a column with the name, the type and the collation of this one. Without
// NULL, a TIMESTAMP of MySQL or MariaDB may get a default of its own.
func (c *Column) Like(k Kind) string {
	text := k.Quote(c.Name) + " " + cmp.Or(c.Spelled, c.Declared)
	if c.Collation != "" {
		text += " COLLATE " + c.Collation
	}
	return text + " NULL"
}

// Suffix ends the statement that makes a table of the merge, which has transactions and takes every letter.
func Suffix(k Kind) string {
	return only(MySQL, k, " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin")
}

// only returns SQL that one kind of databases needs, and nothing for the others.
func only(one, k Kind, text string) string {
	if k == one {
		return text
	}
	return ""
}

// SelectSorted begins a query that groups many rows. MySQL would keep all groups in a table, on a disk if
// there are many, and is told to sort them.
func SelectSorted(k Kind) string { return "SELECT " + only(MySQL, k, "SQL_BIG_RESULT ") }

// LongText is a type for texts of millions of bytes. TEXT of MySQL ends after 65,535.
func LongText(k Kind) string { return only(MySQL, k, "MEDIUM") + "TEXT" }

// UniqueKey is a unique index, or the primary key.
type UniqueKey struct {
	Name  string
	Parts []KeyPart
	where string // the condition of a partial index, as SQL
	// nullsEqual says that two NULLs are equal: NULLS NOT DISTINCT of PostgreSQL.
	nullsEqual bool
}

// KeyPart is one column of a key, or an expression.
type KeyPart struct {
	Column     string // "" for an expression
	Expression string
	Collation  string // only SQLite's indexes have their own; elsewhere the column has it
}

// Reference is a foreign key, or a reference that only a plan declares.
type Reference struct {
	Columns  []string
	Parent   string
	Target   []string // the columns of the parent
	Enforced bool     // the database checks it
	// When is the condition, in SQL, under which a row refers at all; "" for every row. Path and List say
	// where the keys are inside of a JSON column or a list. Only plans declare such references.
	When, Path, List string
	// Bits are the first and the last bit of the key in the column, and Rest are the columns with more of them.
	Bits string
	Rest []string
}

// Inside reports whether the keys are inside of a value, so that SQL cannot compare them.
func (r Reference) Inside() bool { return r.Path+r.List+r.Bits != "" }

// Mapped returns what a function makes of each element of a list.
func Mapped[T, U any](list []T, fn func(T) U) []U {
	all := make([]U, len(list))
	for i, element := range list {
		all[i] = fn(element)
	}
	return all
}

// Column returns a column by its name, or nil. So it does for a table that is not there.
func (t *Table) Column(name string) *Column {
	if t == nil {
		return nil
	}
	for _, c := range t.Columns {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Writable returns the columns that are not computed by the database.
func (t *Table) Writable() []*Column {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c *Column) bool { return c.Generated })
}

// Keys returns the primary key, if there is one, and the unique keys.
func (t *Table) Keys() []UniqueKey {
	if len(t.Primary) == 0 {
		return t.Unique
	}
	primary := UniqueKey{Name: PrimaryName}
	for _, name := range t.Primary {
		part := KeyPart{Column: name}
		if c := t.Column(name); c != nil {
			part.Collation = c.Collation
		}
		primary.Parts = append(primary.Parts, part)
	}
	return append([]UniqueKey{primary}, t.Unique...)
}

// Keyed reports whether a unique key depends on a column.
func (t *Table) Keyed(column string) bool {
	return slices.ContainsFunc(t.Keys(), func(k UniqueKey) bool { return k.Covers(column) })
}

// On its way between databases a value is nil, int64, uint64, float64, string or []byte. Booleans are 1 and
// 0. Decimals, times, JSON and UUIDs are texts, and times are in UTC. From SQLite to SQLite values stay as
// the driver returned them, because a SQLite column can hold values of any type.

// ReadExpression returns the SQL that selects a column so that no driver changes its value. Drivers parse
// times or not, for example, depending on settings that the merge does not know. The table has the alias s.
func (c *Column) ReadExpression(k Kind) string {
	name := "s." + k.Quote(c.Name)
	switch {
	case k == SQLite:
		return "+" + name // an expression has no declared type that a driver could look at
	case k == MySQL && strings.HasPrefix(c.Declared, "bit"):
		return name + " + 0"
	case k == PostgreSQL && c.zoned():
		return "(" + name + " AT TIME ZONE 'UTC')::text"
	}
	const text = "CAST(? AS CHAR)"
	form, own := map[Kind]map[Family]string{
		MySQL: {FamilyTime: text, FamilyDate: text, FamilyClock: text, FamilyUUID: text, FamilyBool: "? + 0",
			FamilyFloat: "? + 0e0"}, // a FLOAT is shown with six digits only
		PostgreSQL: {FamilyInt: "?", FamilyBytes: "?", FamilyBool: "?::int", FamilyFloat: "?::float8"},
	}[k][c.Family]
	if !own {
		return k.AsText(name)
	}
	return strings.Replace(form, "?", name, 1)
}

// Apart returns an expression that is another one for any two values of a column that are not the same, also
// where the database takes them for equal: texts that differ in case, or 1 and 1.0. MySQL sorts by the first
// bytes of long values only, so there it is a hash. The table has the alias s.
func (c *Column) Apart(k Kind) string {
	name := "s." + k.Quote(c.Name)
	switch {
	case k == SQLite:
		return "quote(" + name + ")"
	case k == PostgreSQL && c.Family != FamilyInt && c.Family != FamilyBytes:
		return "(" + c.ReadExpression(k) + `)::text COLLATE "C"`
	case k == PostgreSQL:
		return name
	}
	switch c.Family {
	case FamilyText:
		return "SHA2(" + c.Exactly(k, name) + ", 256)"
	case FamilyJSON:
		return "SHA2(CAST(" + name + " AS CHAR), 256)"
	case FamilyBytes:
		return "SHA2(" + name + ", 256)"
	}
	return c.ReadExpression(k)
}

// zoned reports whether a PostgreSQL column holds times with a time zone.
func (c *Column) zoned() bool {
	return c.Family == FamilyTime && strings.HasSuffix(c.Declared, "with time zone")
}

// Bits returns the width of an integer column, or 0 for other columns.
func (c *Column) Bits() int {
	if c.Family != FamilyInt {
		return 0
	}
	for _, t := range []struct {
		name string
		bits int
	}{{"tinyint", 8}, {"smallint", 16}, {"int2", 16}, {"mediumint", 24}, {"int8", 64}, {"int", 32}} {
		if strings.HasPrefix(c.Declared, t.name) {
			return t.bits
		}
	}
	return 64
}

// Columns returns the names of the columns of the key, without its expressions.
func (k UniqueKey) Columns() []string {
	var names []string
	for _, p := range k.Parts {
		if p.Column != "" {
			names = append(names, p.Column)
		}
	}
	return names
}

// Simple reports whether the key consists of columns only and has no condition.
func (k UniqueKey) Simple() bool {
	return k.where == "" && !k.nullsEqual && len(k.Columns()) == len(k.Parts)
}

// Among returns the key as it is among those rows only that meet a condition.
func (k UniqueKey) Among(condition string) UniqueKey {
	if k.where != "" {
		condition = "(" + k.where + ") AND " + condition
	}
	k.where = condition
	return k
}

// Terms returns, as SQL, the expressions in which two rows with an equal key are equal, and the conditions
// under which the key applies to a row.
func (k UniqueKey) Terms(kind Kind) (by, conditions string) {
	var parts, all []string
	for _, p := range k.Parts {
		text := p.Expression
		if p.Column != "" {
			text = kind.Quote(p.Column)
			if kind == SQLite && p.Collation != "" {
				text += " COLLATE " + p.Collation
			}
		}
		parts = append(parts, text)
		if !k.nullsEqual {
			all = append(all, text+" IS NOT NULL")
		}
	}
	if k.where != "" {
		all = append(all, "("+k.where+")")
	}
	if len(all) == 0 {
		all = []string{"1 = 1"}
	}
	return strings.Join(parts, ", "), strings.Join(all, " AND ")
}

// Manifold reports whether the key of a row consists of all elements of an array, as in a multi-valued index
// of MySQL: two rows are equal in it if they have one element in common.
func (k UniqueKey) Manifold() bool {
	return slices.ContainsFunc(k.Parts, func(p KeyPart) bool {
		return strings.HasSuffix(strings.ToLower(strings.TrimRight(p.Expression, ") ")), " array")
	})
}

// Computed reports whether a part of the key is an expression, which may be a constant. SQL takes a constant
// in a GROUP BY for the position of a column.
func (k UniqueKey) Computed() bool {
	return slices.ContainsFunc(k.Parts, func(p KeyPart) bool { return p.Column == "" })
}

// Covers reports whether the key depends on a column.
func (k UniqueKey) Covers(column string) bool {
	return slices.ContainsFunc(k.Parts, func(p KeyPart) bool {
		return p.Column == column || p.Column == "" && mentions(p.Expression, column)
	})
}

// mentions reports whether an expression names a column.
func mentions(expression, column string) bool {
	part := func(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	words := strings.FieldsFunc(expression, func(r rune) bool { return !part(r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, column) })
}

// Family is the meaning of a type, the same on every kind of database.
type Family string

// The families of types.
const (
	FamilyInt     Family = "integer"
	FamilyBool    Family = "boolean"
	FamilyFloat   Family = "float"
	FamilyDecimal Family = "decimal"
	FamilyText    Family = "text"
	FamilyBytes   Family = "bytes"
	FamilyTime    Family = "time"
	FamilyDate    Family = "date"
	FamilyClock   Family = "time of day"
	FamilyZoned   Family = "time of day with a zone"
	FamilyJSON    Family = "json"
	FamilyUUID    Family = "uuid"
	FamilyOther   Family = "other"
)

// Exact reports whether a type is one of those that SQL calls exact numbers, which hold keys.
func (f Family) Exact() bool { return f == FamilyInt || f == FamilyDecimal }

// Fits reports whether every value of a source column can be stored in a target column and read back
// unchanged, judging by their types. SQLite stores numbers in whatever type they were written, so the
// declared type of a SQLite column is only a hint.
func Fits(from, to *Column, fromKind, toKind Kind) bool {
	a, b := from.Family, to.Family
	if a == b {
		return true
	}
	numeric := []Family{FamilyInt, FamilyBool, FamilyDecimal}
	if slices.Contains(numeric, a) && slices.Contains(numeric, b) {
		return fromKind == SQLite || toKind == SQLite || b == FamilyDecimal ||
			(a == FamilyBool || b == FamilyBool) && isFlag(from) && isFlag(to)
	}
	if fromKind == toKind {
		// MariaDB makes a LONGTEXT of a JSON column, and MySQL has a type for it.
		return fromKind == MySQL && (a == FamilyJSON && to.Declared == "longtext" ||
			b == FamilyJSON && from.Declared == "longtext")
	}
	loose := []Family{FamilyText, FamilyJSON, FamilyUUID}
	if slices.Contains(loose, a) && slices.Contains(loose, b) {
		return true
	}
	return fromKind == SQLite && a == FamilyOther || a == FamilyFloat && b == FamilyDecimal &&
		fromKind == SQLite
}

// isFlag reports whether a column holds booleans.
func isFlag(c *Column) bool {
	return c.Family == FamilyBool || strings.HasPrefix(c.Declared, "tinyint") || c.Declared == "bit(1)"
}

// Holds reports whether a column of the target can hold a number.
func (c *Column) Holds(k Kind, n int64) bool {
	if k == SQLite || n <= 0 {
		return true
	}
	switch c.Family {
	case FamilyInt:
		bits := c.Bits()
		if strings.Contains(c.Declared, "unsigned") {
			bits++
		}
		return bits > 63 || n < 1<<(bits-1)
	case FamilyText:
		return c.MaxChars == 0 || len(strconv.FormatInt(n, 10)) <= c.MaxChars
	case FamilyDecimal:
		inner, _ := brackets(c.Declared)
		digits, scale, _ := strings.Cut(inner, ",")
		p, err := strconv.Atoi(strings.TrimSpace(digits))
		s, _ := strconv.Atoi(strings.TrimSpace(scale))
		return err != nil || len(strconv.FormatInt(n, 10)) <= p-s
	}
	return true
}

// Overflows reports whether a value is a text of more characters than the column has room for.
func (c *Column) Overflows(v any) bool {
	text, is := v.(string)
	return is && c.MaxChars > 0 && len(text) > c.MaxChars && utf8.RuneCountInString(text) > c.MaxChars
}

// Object is something in a database that is no table of the catalog.
type Object struct {
	Kind string // view, sequence, schema and so on
	Name string
	What string // what there is to know about it
	Rows bool   // it may hold rows that are nowhere else
	Acts bool   // the database runs it by itself
}

// Order returns the columns by which the rows of a table are read, so that a run that goes on can pass over
// the rows that were read before: every row has another position. It returns none if the table has no key.
func (t *Table) Order() []*Column {
	if t.rowID != nil {
		return []*Column{t.rowID}
	}
	return Mapped(t.Primary, t.Column)
}

// Numbered reports whether whole numbers say where a row is. SQLite may have anything in a column of numbers.
func (t *Table) Numbered(k Kind) bool {
	if k == SQLite {
		return t.rowID != nil
	}
	other := func(c *Column) bool { return c.Family != FamilyInt || strings.HasPrefix(c.Declared, "bit") }
	return len(t.Primary) > 0 && !slices.ContainsFunc(t.Order(), other)
}

// unquoted returns the characters of SQL that are outside of quotation marks, with their positions.
func unquoted(text string) iter.Seq2[int, rune] {
	return func(yield func(int, rune) bool) {
		quote := rune(0)
		for i, r := range text {
			switch {
			case quote != 0:
				if r == quote {
					quote = 0
				}
			case r == '\'' || r == '"' || r == '`':
				quote = r
			case r == '[':
				quote = ']'
			case !yield(i, r):
				return
			}
		}
	}
}

// brackets returns what the first outermost brackets contain, and what follows them.
func brackets(text string) (inner, rest string) {
	depth, start := 0, 0
	for i, r := range unquoted(text) {
		switch r {
		case '(':
			if depth++; depth == 1 {
				start = i + 1
			}
		case ')':
			if depth--; depth == 0 {
				return text[start:i], text[i+1:]
			}
		}
	}
	return "", ""
}

// splitSQL splits a list at the commas that are outside of quotation marks and brackets.
func splitSQL(list string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, r := range unquoted(list) {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[begin:i]))
				begin = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(list[begin:]))
}
