package sqldb

import (
	"strconv"
	"strings"
)

// An OrderTerm is a part of the order in which a table is read. Rows are read in chunks, and the next chunk
// begins behind a position that was read before. So a position must come back as what it was, and the server
// must compare it in the same way in which it orders rows. Texts do neither: ENUM is ordered by its index, a
// DECIMAL is compared with a text as a DOUBLE, and a column of SQLite can hold bytes, whatever its type is.
type OrderTerm struct {
	name   string  // without an alias
	column *Column // nil for the row number of SQLite
}

// Order returns the terms by which the rows of a table are read: every row has another position. It returns
// none if the table has no key.
func (t *Table) Order(k Kind) []OrderTerm {
	if t.RowID != "" {
		return []OrderTerm{{name: t.RowID}}
	}
	terms := make([]OrderTerm, 0, len(t.Primary))
	for _, name := range t.Primary {
		terms = append(terms, OrderTerm{name: k.Quote(name), column: t.Column(name)})
	}
	return terms
}

// Column returns the column that the order is about; it is nil for the row number of SQLite.
func (o OrderTerm) Column() *Column { return o.column }

// By returns the expression to order by. The table has the alias s.
func (o OrderTerm) By() string { return "s." + o.name }

// numbered reports whether MySQL orders a column by a number that is not what it shows.
func (o OrderTerm) numbered(k Kind) bool {
	if k != MySQL || o.column == nil {
		return false
	}
	for _, word := range []string{"enum", "set", "bit"} {
		if strings.HasPrefix(o.column.Declared, word) {
			return true
		}
	}
	return false
}

// Read returns the expression that selects a position.
func (o OrderTerm) Read(k Kind) string {
	switch {
	case o.column == nil:
		return "s." + o.name
	case o.numbered(k):
		return "CAST(s." + o.name + " AS UNSIGNED)"
	case k == PostgreSQL && o.column.Family != FamilyInt:
		return "s." + o.name + "::text"
	}
	return o.column.ReadExpression(k)
}

// Position converts what a driver returned for Read to what [OrderTerm.Bound] takes and a cursor stores.
func (o OrderTerm) Position(k Kind, v any) any {
	switch v := v.(type) {
	case int64, uint64, float64, nil:
		return v
	case int32:
		return int64(v)
	case []byte:
		if k == SQLite { // the value itself says whether it is a text
			return v
		}
		if k == MySQL && o.column.Family == FamilyBytes {
			return v
		}
	}
	if o.column == nil || o.numbered(k) || o.column.Family == FamilyInt {
		if n, err := Integer(v); err == nil {
			return n
		}
	}
	return Text(v)
}

// Bound appends a position, to compare By with it. If literally, it becomes part of the text, for COPY, which
// cannot bind values; only PostgreSQL has that.
func (o OrderTerm) Bound(q *Statement, v any, literally bool) {
	value := func() {
		if literally {
			q.Add(Literal(v))
		} else {
			q.Bind(v)
		}
	}
	switch {
	case o.column == nil:
		value()
	case q.Kind == PostgreSQL && o.column.Family != FamilyInt:
		q.Add("CAST(")
		value()
		q.Add("::text AS ", o.column.Declared, ")")
	case q.Kind == MySQL && o.column.Family == FamilyDecimal:
		q.Add("CAST(")
		value()
		q.Add(" AS ", decimalType(o.column.Declared), ")")
	default:
		value()
	}
}

// decimalType returns a type of CAST that holds every value of a DECIMAL column.
func decimalType(declared string) string {
	if inner, _ := brackets(declared); inner != "" {
		digits, scale, _ := strings.Cut(inner, ",")
		if n, err := strconv.Atoi(strings.TrimSpace(digits)); err == nil {
			m, _ := strconv.Atoi(strings.TrimSpace(scale)) // without a scale it is 0
			return "DECIMAL(" + strconv.Itoa(n) + "," + strconv.Itoa(m) + ")"
		}
	}
	return "DECIMAL(65,30)"
}
