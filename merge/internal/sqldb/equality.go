package sqldb

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Yardstick says how a column is searched for a value so that it finds what another column would take for
// equal. Two columns may have two rules for that, such as the collations of their texts.
type Yardstick int

// The yardsticks.
const (
	ByOwnRule Yardstick = iota // both columns have the same rule
	ByBytes                    // the other column compares bytes
	ByUUID                     // the other column compares UUIDs, and this one compares texts
	Unknown                    // equal bytes are equal for both, and nobody can say more
)

// The rules of columns that are not texts with a collation.
const ruleBytes, ruleUUID = "bytes", "uuid"

// rule names the rule by which a database compares the values of a column. Two columns with the same rule
// take the same values for equal.
func (c *Column) rule(k Kind) string {
	switch {
	case c.Family == FamilyUUID && k != SQLite:
		return ruleUUID
	case !c.written() || c.folds == "":
		return ruleBytes
	}
	return c.folds
}

// ComparesBytes reports whether PostgreSQL takes texts of a column for equal only if all their bytes are.
func (c *Column) ComparesBytes() bool { return c.Family == FamilyText && c.folds == "" && !c.labels }

// Measure returns how a column is searched for what another column, of another database, takes for equal.
func (c *Column) Measure(k Kind, standard *Column, standardKind Kind) Yardstick {
	own, other := c.rule(k), standard.rule(standardKind)
	switch {
	case own == other, own == ruleUUID: // A database shows every UUID in one form.
		return ByOwnRule
	case other == ruleBytes:
		return ByBytes
	case other == ruleUUID:
		return ByUUID
	}
	return Unknown
}

// written reports whether the values of a column are texts, or UUIDs, which are written as texts.
func (c *Column) written() bool { return c.Family == FamilyText || c.Family == FamilyUUID }

// Comparable reports whether a column holds keys that mean the same in another column.
func (c *Column) Comparable(other *Column) bool {
	return c.Family == other.Family && (c.Family == FamilyInt || c.Family == FamilyBytes) ||
		c.written() && other.written()
}

// Refers reports whether values of a column can be keys of another one of the same database. Texts may hold
// keys that are numbers, and a column of SQLite without a type that is known any key.
func (c *Column) Refers(k Kind, key *Column) bool {
	pair := func(one, two Family) bool {
		return c.Family == one && key.Family == two || c.Family == two && key.Family == one
	}
	// A database compares these with others by a number that is not what they show, or not at all.
	apart := func(c *Column) bool {
		is := func(word string) bool { return strings.HasPrefix(c.Declared, word) }
		return c.labels || c.Family == FamilyOther || is("bit") || is("year") || is("enum(") || is("set(")
	}
	switch {
	case k == SQLite && (c.Family == FamilyOther || key.Family == FamilyOther):
		return true
	case k == MySQL && c.Family == FamilyText && key.Family == FamilyText:
		return true
	case apart(c) || apart(key):
		return c.Declared == key.Declared
	}
	return c.Family == key.Family && c.Family != FamilyJSON || pair(FamilyText, FamilyUUID) ||
		(c.Family.Exact() || c.Family == FamilyText) && (key.Family.Exact() || key.Family == FamilyText) ||
		pair(FamilyText, FamilyBytes) && k != PostgreSQL
}

// Wide returns an expression of 64 bits. Shifts of PostgreSQL keep the type of a column.
func Wide(k Kind, expression string) string { return expression + only(PostgreSQL, k, "::bigint") }

// AnyText returns an expression of texts that can be compared with any other. On MySQL they may have a
// character set that lacks letters of the other one.
func AnyText(k Kind, expression string) string {
	if k == MySQL {
		return "CONVERT(" + expression + " USING utf8mb4)"
	}
	return expression
}

// Exactly returns an expression of a column that is equal to the [Constant] of one value only. The name of
// the column has its alias.
func (c *Column) Exactly(k Kind, name string) string {
	switch {
	case !c.written():
		return name
	case k == SQLite:
		return name + " COLLATE BINARY"
	case k == PostgreSQL:
		return name + `::text COLLATE "C"`
	case c.Family == FamilyUUID:
		return "CAST(" + name + " AS CHAR)"
	}
	return "CAST(CONVERT(" + name + " USING utf8mb4) AS BINARY)"
}

// Key converts what a driver returned for [Column.Exactly] to a value of a key. It reports whether it is one.
func (c *Column) Key(k Kind, v any) (any, bool) {
	switch c.Family {
	case FamilyInt:
		n, err := Integer(v)
		id, whole := n.(int64) // no other number is a key
		return id, whole && err == nil
	case FamilyBytes:
		if k != SQLite {
			return []byte(Text(v)), v != nil
		}
		return v, isString(v) || isBytes(v)
	}
	if k == SQLite {
		_, number := v.(int64)
		return v, number || isString(v) || isBytes(v)
	}
	return Text(v), v != nil
}

// Constant returns a value of [Column.Key] as it stands in a statement, where it cannot be bound.
func Constant(k Kind, v any) string {
	text := Text(v)
	switch {
	case isNumber(v):
		return text
	case isBytes(v) && k == PostgreSQL:
		return `'\x` + hex.EncodeToString([]byte(text)) + "'::bytea"
	case isBytes(v), isString(v) && k == MySQL:
		return "X'" + hex.EncodeToString([]byte(text)) + "'"
	case isString(v) && k == SQLite && (strings.Contains(text, "\x00") || !utf8.ValidString(text)):
		return "CAST(X'" + hex.EncodeToString([]byte(text)) + "' AS TEXT)"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Is returns the condition that a column is equal to one of some values of [Column.Key]. Texts are equal by
// their bytes, and all that is no text by the rules of its type: MySQL would take the digits of bytes for a
// number.
func (c *Column) Is(k Kind, name string, values []any) string {
	// These are compared as they are written, and others by the rules of their type.
	asWritten := slices.Contains([]Family{FamilyInt, FamilyText, FamilyUUID, FamilyBytes}, c.Family)
	list := make([]string, len(values))
	for i, v := range values {
		if list[i] = Constant(k, v); !asWritten && k == MySQL && isString(v) {
			list[i] = "CONVERT(" + list[i] + " USING utf8mb4)"
		}
	}
	return Among(k, []string{c.Exactly(k, name)}, list)
}

// Among returns the condition that columns have one of some lists of values.
func Among(k Kind, columns []string, some []string) string {
	list := strings.Join(some, ", ")
	switch {
	case len(columns) == 1:
		return columns[0] + " IN (" + list + ")"
	case k != MySQL: // PostgreSQL would look through the other form value by value, and SQLite lacks it
		list = "VALUES " + list
	}
	return "(" + strings.Join(columns, ", ") + ") IN (" + list + ")"
}

// Ask appends a value of [Column.Asked].
func (c *Column) Ask(q *Statement, v any) {
	types := map[Kind]map[Family]string{
		MySQL:      {FamilyInt: "SIGNED", FamilyText: "BINARY", FamilyUUID: "BINARY", FamilyBytes: "BINARY"},
		PostgreSQL: {FamilyInt: "bigint", FamilyText: "text", FamilyUUID: "text", FamilyBytes: "bytea"},
	}
	if name := types[q.Kind][c.Family]; name != "" {
		q.Add("CAST(").Bind(v).Add(" AS ", name, ")")
	} else {
		q.Bind(v)
	}
}

// Asked converts a value of a key of another column to what this one would hold, if raw as it is. It reports
// whether the database can have such a value at all.
func (c *Column) Asked(k Kind, v any, raw bool) (any, bool) {
	if raw {
		return v, true
	}
	text := Text(v)
	switch c.Family {
	case FamilyInt:
		return v, true
	case FamilyBytes:
		return []byte(text), true
	case FamilyUUID:
		if k != SQLite {
			text = plainUUID(text)
			return text, text != ""
		}
	}
	return text, utf8.ValidString(text) && (k != PostgreSQL || !strings.Contains(text, "\x00"))
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// plainUUID returns a UUID in its usual form, however it is written. It returns "" for what is none.
func plainUUID(text string) string {
	text = strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(text))
	if !uuidForm.MatchString(text) {
		return ""
	}
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// Digits returns an expression of a text that is the same for every form of a UUID.
func Digits(name string) string {
	return "LOWER(REPLACE(REPLACE(REPLACE(" + name + ", '-', ''), '{', ''), '}', ''))"
}

// Equals returns the condition that a column has a value that [Column.Ask] has appended.
func (c *Column) Equals(k Kind, name, value string, yardstick Yardstick) string {
	if !c.written() {
		return name + " = " + value
	}
	given := value
	switch {
	case k == MySQL && c.Family == FamilyUUID:
		given = "CAST(CONVERT(" + value + " USING utf8mb4) AS UUID)"
	case k == MySQL:
		given = "CONVERT(" + value + " USING utf8mb4)"
	}
	if yardstick == ByUUID {
		return Digits(name) + " = " + Digits(given)
	}
	own := name
	switch {
	case k == MySQL && c.Family == FamilyText:
		charset, _, _ := strings.Cut(c.Collation, "_")
		given = "CONVERT(" + given + " USING " + charset + ") COLLATE " + c.Collation
	case k == PostgreSQL && c.Family == FamilyUUID:
		given += "::uuid"
	case k == PostgreSQL && slices.Contains([]string{"bpchar", "citext"}, c.folds):
		given += "::" + c.folds
	case k == PostgreSQL && c.labels:
		own += "::text"
	}
	condition := own + " = " + given
	if yardstick == ByBytes || yardstick == Unknown {
		condition += " AND " + c.Exactly(k, name) + " = " + value
	}
	return condition
}
