package fill

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// duplicate is what a database says of a unique index that has refused a row.
type duplicate struct {
	columns []string // of the index; nil if the database does not name them
	key     string   // the values that are there already; empty if the database does not say them
	index   string   // its name; empty if the database does not say it
}

// duplicateOf reads the error of an INSERT. It returns false for every other error.
func duplicateOf(stmt *gorm.Statement, err error) (duplicate, bool) {
	switch stmt.Name() {
	case dialectMySQL:
		return duplicateOfMySQL(err.Error())
	case dialectSQLite:
		return duplicateOfSQLite(stmt, err.Error())
	case dialectPostgres:
		return duplicateOfPostgres(err)
	}
	return duplicate{}, false
}

// duplicateOfMySQL reads: Error 1062 (23000): Duplicate entry '5' for key 'orders.PRIMARY'. MariaDB and older
// versions do not name the table. The words between may be of any language.
func duplicateOfMySQL(text string) (d duplicate, is bool) {
	text, ok := strings.CutSuffix(text, "'")
	if !ok || !strings.Contains(text, "1062") {
		return d, false
	}
	opening := strings.LastIndexByte(text, '\'')
	if opening < 0 {
		return d, false
	}
	first, last := strings.IndexByte(text, '\''), strings.LastIndexByte(text[:opening], '\'')
	if first < 0 || last <= first {
		return d, false
	}
	return duplicate{key: text[first+1 : last], index: text[opening+1:]}, true
}

// duplicateOfSQLite reads: UNIQUE constraint failed: orders.shop, orders.id. An index on an expression is
// named in place of columns.
func duplicateOfSQLite(stmt *gorm.Statement, text string) (d duplicate, is bool) {
	_, list, found := strings.Cut(text, "UNIQUE constraint failed: ")
	if !found {
		return d, false
	}
	list, _, _ = strings.Cut(list, " (") // some drivers put the code there
	table := tableOf(stmt)
	for column := range strings.SplitSeq(list, ", ") {
		if len(column) <= len(table)+1 || !strings.EqualFold(column[:len(table)], table) {
			return duplicate{}, false
		}
		d.columns = append(d.columns, column[len(table)+1:])
	}
	return d, true
}

// duplicateOfPostgres looks into the error of the driver, which it knows by its method and its fields only:
// its detail is "Key (shop, id)=(1, 5) already exists." in the language of the server. Without the right to
// read the columns there is no detail, and the name of the constraint has to tell.
func duplicateOfPostgres(err error) (d duplicate, is bool) {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "23505" {
		return d, false
	}
	v := reflect.Indirect(reflect.ValueOf(state))
	field := func(name string) string {
		if v.Kind() != reflect.Struct {
			return ""
		}
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			return f.String()
		}
		return ""
	}
	d.index = field("ConstraintName") + field("Constraint")
	list, rest, found := strings.Cut(field("Detail"), ")=(")
	if !found {
		return d, true
	}
	d.columns = strings.Split(list[strings.IndexByte(list, '(')+1:], ", ")
	for i, column := range d.columns {
		d.columns[i] = strings.Trim(column, `"`)
	}
	if end := strings.LastIndexByte(rest, ')'); end >= 0 {
		rest = rest[:end]
	}
	d.key = rest
	return d, true
}

// fields returns the columns of the index, or nil if nothing tells them.
func (d duplicate) fields(plans *PlanCache, p *Plan) (fields []*schema.Field) {
	if d.columns == nil {
		return plans.uniqueIndexes(p)[d.index[strings.LastIndexByte(d.index, '.')+1:]]
	}
	for _, column := range d.columns {
		if field := p.schema.FieldsByDBName[column]; field != nil {
			fields = append(fields, field)
		}
	}
	return fields
}

// has reports whether a text is the value of a column in the key, which may be of several columns. It returns
// true if nobody knows the key.
func (d duplicate) has(text string) bool {
	if d.key == "" || d.key == text {
		return true
	}
	for _, between := range []string{", ", "-"} {
		if strings.Contains(between+d.key+between, between+text+between) {
			return true
		}
	}
	return false
}

// A number of a source that was just taken, and that a unique index has refused, is a witness for its source
// as a key is for the node: the counter may have gone back, or somebody else gives out the same numbers.

// Doubter is an optional ability of a [Source]: it wants to know that somebody else has one of its numbers.
// It must not wait, and is told no number that another column has refused.
type Doubter interface{ Refused(number int64) }

// doubt finds out whether a failed INSERT was refused for numbers that sources have made for it. It says so
// in the error, and has the rows looked at that have them.
func (f *filler) doubt(db *gorm.DB, fr *frame, cause error) {
	d, is := duplicateOf(db.Statement, cause)
	if !is {
		return
	}
	index := d.fields(f.plans, fr.plan)
	var rows []sentRow
	var numbers []string
	var words string
	for c, column := range fr.plan.columns {
		if !fr.mask.has(c) || !f.isForeign(column) || index != nil && !slices.Contains(index, column.field) {
			continue
		}
		by := index
		if by == nil {
			by = []*schema.Field{column.field}
		}
		for i := range fr.rows.count() {
			id, ok := fr.get(i, c)
			if !ok || !fr.made(c, id) || column.kind != kindBytes && !d.has(column.textOf(id)) {
				continue
			}
			row := sentRowAt(fr, i, id)
			row.by, row.tell = by, f.teller(column)
			rows, numbers = append(rows, row), append(numbers, column.textOf(id))
			words = fr.plan.names(1 << c)
			if column.source != nil {
				words += ", which come from " + column.source.String()
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	if !errors.Is(db.Error, errs.ErrContested) {
		setError(db, fmt.Errorf("snowflakeplugin: a row of %s has one of the numbers already that were just "+
			"taken for %s: %s. Unless somebody has set it by hand, the counter went back, or another store gives "+
			"out the same numbers. The numbers that are left are given up, so the next create has others, or "+
			"tells what is wrong: %w", db.Statement.Table, words, shown(numbers), db.Error))
	}
	f.suspect(db, rows)
}

// isForeign reports whether the numbers of a column are not those of the plugin's own generator.
func (f *filler) isForeign(c *column) bool { return c.source != nil || f.numbers.generator == nil }

// teller returns who wants to know that somebody else has a number of a column; nil if nobody does.
func (f *filler) teller(c *column) func(table string, id int64) {
	if !f.isForeign(c) {
		return f.witnesses.tell
	}
	source := f.numbers.source
	if c.source != nil {
		source = c.source.source
	}
	if doubter, ok := source.(Doubter); ok {
		return func(_ string, id int64) { doubter.Refused(id) }
	}
	return nil
}
