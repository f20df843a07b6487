package sqlsegment

import (
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// The columns of the table. Their order is that of results and of the arguments of create.
const (
	columnName = iota
	columnNext
	columnRemainder
	columnModulus
	columnUpdatedAt
	columnCount
)

// columnNames returns the names of the columns.
func columnNames() []string { return []string{"name", "next", "remainder", "modulus", "updated_at"} }

// statements are all the SQL of a store.
type statements struct {
	// claim has the arguments start, n, updated_at, name, remainder, modulus, the greatest next that is
	// possible, and the number that next has to be above. It returns the first number as a row, or as the
	// last ID that was inserted.
	claim string
	// create has the columns of a row as its arguments, and does nothing if the counter is there.
	create string
	// change has next, remainder, modulus and updated_at, and then those of key. remove has those of key:
	// the name, next, remainder and modulus of the row that is there.
	change, remove string
	// read has the name as its argument.
	read, list string

	ddl, columns string
	trials       []string
	keys         string
}

// statementsFor writes the SQL for a table.
func statementsFor(d dialect.Dialect, name string) statements {
	table := d.Quoted(name)
	column := columnNames()
	for i := range column {
		column[i] = d.Quoted(column[i])
	}
	list := strings.Join(column, ", ")
	next := column[columnNext]
	named := func(placeholder int) string {
		return fmt.Sprintf(d.SameText, column[columnName], d.Placeholders(placeholder, 1)[0])
	}
	equal := func(c, placeholder int) string {
		return column[c] + " = " + d.Placeholders(placeholder, 1)[0]
	}
	s := statements{
		read:    fmt.Sprintf("SELECT %s FROM %s WHERE %s", list, table, named(1)),
		list:    fmt.Sprintf("SELECT %s FROM %s", list, table),
		columns: fmt.Sprintf("SELECT %s FROM %s WHERE 1 = 0", list, table),
		ddl:     d.CreateTable(table, column, []string{d.Text, d.Integer, d.Integer, d.Integer, d.Time}),
	}
	unlessThere := d.UnlessThere
	if unlessThere != "" {
		unlessThere = fmt.Sprintf(unlessThere, column[columnName])
	}
	into := fmt.Sprintf("%s %s (%s) ", d.Insert, table, list)
	s.create = into + "VALUES (" + strings.Join(d.Placeholders(1, columnCount), ", ") + ")" + unlessThere
	s.change = fmt.Sprintf("UPDATE %s SET %s, %s, %s, %s WHERE %s AND %s AND %s AND %s", table,
		equal(columnNext, 1), equal(columnRemainder, 2), equal(columnModulus, 3), equal(columnUpdatedAt, 4),
		named(5), equal(columnNext, 6), equal(columnRemainder, 7), equal(columnModulus, 8))
	s.remove = fmt.Sprintf("DELETE FROM %s WHERE %s AND %s AND %s AND %s", table,
		named(1), equal(columnNext, 2), equal(columnRemainder, 3), equal(columnModulus, 4))

	p := d.Placeholders(1, 8)
	first, returning := fmt.Sprintf("GREATEST(%s, %s)", next, p[0]), ""
	switch d.Kind {
	case dialect.MySQL:
		// The server answers with the value of the last call of this function on the connection.
		first = "LAST_INSERT_ID(" + first + ")"
	case dialect.SQLite:
		first = fmt.Sprintf("MAX(%s, %s)", next, p[0])
		returning = " RETURNING " + next
	default:
		returning = " RETURNING " + next
	}
	s.claim = fmt.Sprintf("UPDATE %s SET %s = %s + %s, %s = %s "+
		"WHERE %s AND %s AND %s AND %s <= %s AND %s > %s%s", table,
		next, first, p[1], column[columnUpdatedAt], p[2], named(4), equal(columnRemainder, 5),
		equal(columnModulus, 6), next, p[6], next, p[7], returning)

	nothing := into + s.columns + unlessThere
	if d.Embedded {
		// There are no rights to try, and a trial would wait for whoever writes.
		s.trials = []string{"EXPLAIN " + nothing}
	} else {
		s.trials = []string{nothing, "UPDATE " + table + " SET " + next + " = 0 WHERE 1 = 0"}
	}
	if d.UnlessThere == "" {
		s.keys = "SHOW KEYS FROM " + table
	}
	return s
}
