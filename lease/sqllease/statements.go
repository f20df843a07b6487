package sqllease

import (
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// statements are all the SQL of a store. The arguments of create are the columns of the record;
// those of change are the columns after the node, then node, owner and version of the record that
// is replaced. The bounds of the clock, if there are any, come last.
type statements struct {
	list                 string
	create, createWithin string
	change, changeWithin string

	// ddl makes the table.
	ddl string
	// columns fails unless the table is there with all its columns. The trials fail unless it can be
	// written to, and write nothing.
	columns string
	trials  []string
	// keys lists the indexes of the table, where no trial finds out that one is missing.
	keys string
}

// statements writes the SQL for a table.
func statementsFor(d dialect.Dialect, name string) statements {
	table, column, types := d.Quoted(name), names(), typesOf(d)
	for i := range column {
		column[i] = d.Quoted(column[i])
	}
	list := strings.Join(column[:], ", ")
	s := statements{
		list:    fmt.Sprintf("SELECT %s FROM %s", list, table),
		columns: fmt.Sprintf("SELECT %s FROM %s WHERE 1 = 0", list, table),
		ddl:     d.CreateTable(table, column[:], types[:]),
	}

	unlessThere := d.UnlessThere
	if unlessThere != "" {
		unlessThere = fmt.Sprintf(unlessThere, column[columnNode])
	}
	into := fmt.Sprintf("%s %s (%s) ", d.Insert, table, list)
	values := d.Placeholders(1, columnCount)
	s.create = into + "VALUES (" + strings.Join(values, ", ") + ")" + unlessThere
	s.createWithin = into + "SELECT " + strings.Join(values, ", ") + d.From +
		" WHERE " + within(d, columnCount+1) + unlessThere

	assignments := d.Placeholders(1, columnCount-1)
	for i := range assignments {
		assignments[i] = column[i+1] + " = " + assignments[i]
	}
	prev := d.Placeholders(columnCount, 3)
	s.change = fmt.Sprintf("UPDATE %s SET %s WHERE %s = %s AND %s AND %s = %s",
		table, strings.Join(assignments, ", "),
		column[columnNode], prev[0],
		fmt.Sprintf(d.SameText, column[columnOwner], prev[1]),
		column[columnVersion], prev[2])
	s.changeWithin = s.change + " AND " + within(d, columnCount+3)

	nothing := into + s.columns + unlessThere
	if d.Embedded {
		// There are no rights to try, and a trial would wait for whoever writes.
		s.trials = []string{"EXPLAIN " + nothing}
	} else {
		s.trials = []string{nothing, "UPDATE " + table + " SET " + column[columnVersion] + " = 0 WHERE 1 = 0"}
	}
	if d.UnlessThere == "" {
		s.keys = "SHOW KEYS FROM " + table
	}
	return s
}

// within is the condition that the clock lies between two placeholders, both included.
func within(d dialect.Dialect, first int) string {
	bounds := d.Placeholders(first, 2)
	return fmt.Sprintf("%s BETWEEN %s AND %s", d.Clock, bounds[0], bounds[1])
}
