package sqldb

import "strings"

// An OrderTerm is a part of the order in which a table is read, so that a run that goes on can pass over the
// rows that were read before.
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

// Read returns the expression that selects what the order is by.
func (o OrderTerm) Read(k Kind) string {
	if o.column == nil {
		return "s." + o.name
	}
	return o.column.ReadExpression(k)
}

// Whole reports whether all rows have whole numbers there. SQLite may have anything in a column of numbers.
func (o OrderTerm) Whole(k Kind) bool {
	if k == SQLite {
		return o.column == nil
	}
	return o.column.Family == FamilyInt && !strings.HasPrefix(o.column.Declared, "bit")
}
