package gormlease

import (
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// statements are all the SQL of a store. The arguments of create are the columns of the record;
// those of change are the columns after the node, then node, owner and version of the record that
// is replaced. The bounds of the clock, if there are any, come last.
type statements struct {
	now, list            string
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
	// committed tells whether a statement alone is committed, where that is a question.
	committed string
}

// statements writes the SQL for a table.
func (d dialect) statements(db *gorm.DB, name string) statements {
	table, column := quote(db, name), names()
	for i := range column {
		column[i] = quote(db, column[i])
	}
	list := strings.Join(column[:], ", ")
	s := statements{
		now:     "SELECT " + d.clock,
		list:    fmt.Sprintf("SELECT %s FROM %s", list, table),
		columns: fmt.Sprintf("SELECT %s FROM %s WHERE 1 = 0", list, table),
		ddl:     d.ddl(table, column),
	}

	unlessThere := d.unlessThere
	if unlessThere != "" {
		unlessThere = fmt.Sprintf(unlessThere, column[columnNode])
	}
	into := fmt.Sprintf("%s %s (%s) ", d.insert, table, list)
	values := d.placeholders(1, columnCount)
	s.create = into + "VALUES (" + strings.Join(values, ", ") + ")" + unlessThere
	s.createWithin = into + "SELECT " + strings.Join(values, ", ") + d.from +
		" WHERE " + d.within(columnCount+1) + unlessThere

	assignments := d.placeholders(1, columnCount-1)
	for i := range assignments {
		assignments[i] = column[i+1] + " = " + assignments[i]
	}
	prev := d.placeholders(columnCount, 3)
	s.change = fmt.Sprintf("UPDATE %s SET %s WHERE %s = %s AND %s AND %s = %s",
		table, strings.Join(assignments, ", "),
		column[columnNode], prev[0],
		fmt.Sprintf(d.sameOwner, column[columnOwner], prev[1]),
		column[columnVersion], prev[2])
	s.changeWithin = s.change + " AND " + d.within(columnCount+3)

	nothing := into + s.columns + unlessThere
	if d.embedded {
		// There are no rights to try, and a trial would wait for whoever writes.
		s.trials = []string{"EXPLAIN " + nothing}
	} else {
		s.trials = []string{nothing, "UPDATE " + table + " SET " + column[columnVersion] + " = 0 WHERE 1 = 0"}
	}
	if d.unlessThere == "" {
		s.keys = "SHOW KEYS FROM " + table
	}
	if d.autocommits {
		s.committed = "SELECT @@autocommit"
	}
	return s
}

// ddl returns the statement that makes the table.
func (d dialect) ddl(table string, column [columnCount]string) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + table + " (\n")
	for i, name := range column {
		fmt.Fprintf(&b, "    %s %s NOT NULL,\n", name, d.types[i])
	}
	fmt.Fprintf(&b, "    PRIMARY KEY (%s)\n)%s", column[columnNode], d.suffix)
	return b.String()
}

// within is the condition that the clock lies between two placeholders, both included.
func (d dialect) within(first int) string {
	bounds := d.placeholders(first, 2)
	return fmt.Sprintf("%s BETWEEN %s AND %s", d.clock, bounds[0], bounds[1])
}

// placeholders are those of n arguments, the first of which has that number, counted from 1.
func (d dialect) placeholders(first, n int) []string {
	p := make([]string, n)
	for i := range p {
		p[i] = "?"
		if d.numbered {
			p[i] = "$" + strconv.Itoa(first+i)
		}
	}
	return p
}

// quote writes a name, whose parts are separated by dots, the way the database wants it.
func quote(db *gorm.DB, name string) string {
	var b strings.Builder
	db.QuoteTo(&b, name)
	return b.String()
}
