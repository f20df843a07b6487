package fill

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// duplicate is what a database says of a unique index that has refused a row.
type duplicate struct {
	columns []string // of the index; nil if the database does not name them
	key     string   // the values that are there already; empty if the database does not say them
	index   string   // its name; empty if the database does not say it
	primary bool     // it is that of the primary key
}

// duplicateOf reads the error of an INSERT. It returns false for every other error.
func duplicateOf(stmt *gorm.Statement, err error) (duplicate, bool) {
	read, known := map[string]func(*gorm.Statement, error) (duplicate, bool){
		dialect.MySQL: duplicateOfMySQL, dialect.SQLite: duplicateOfSQLite,
		dialect.PostgreSQL: duplicateOfPostgres,
	}[stmt.Name()]
	if !known {
		return duplicate{}, false
	}
	return read(stmt, err)
}

// duplicateOfMySQL reads: Error 1062 (23000): Duplicate entry '5' for key 'orders.PRIMARY'. MariaDB and older
// versions do not name the table. The words between may be of any language.
func duplicateOfMySQL(stmt *gorm.Statement, err error) (d duplicate, is bool) {
	text, ok := strings.CutSuffix(err.Error(), "'")
	if !ok || !strings.Contains(text, "1062") {
		return d, false
	}
	first, opening := strings.IndexByte(text, '\''), strings.LastIndexByte(text, '\'')
	last := strings.LastIndexByte(text[:max(opening, 0)], '\'')
	if last <= first {
		return d, false
	}
	d = duplicate{key: text[first+1 : last], index: text[opening+1:]}
	table, primary := strings.CutSuffix(d.index, "PRIMARY")
	table = strings.TrimSuffix(table, ".")
	d.primary = primary && (table == "" || strings.EqualFold(table, tableOf(stmt)))
	return d, true
}

// duplicateOfSQLite reads: UNIQUE constraint failed: orders.shop, orders.id. An index on an expression is
// named in place of columns.
func duplicateOfSQLite(stmt *gorm.Statement, err error) (d duplicate, is bool) {
	_, list, found := strings.Cut(err.Error(), "UNIQUE constraint failed: ")
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
	d.primary = arePrimaryKey(stmt.Schema, d.columns)
	return d, true
}

// duplicateOfPostgres looks into the error of the driver, which it knows by its method and its fields only:
// its detail is "Key (shop, id)=(1, 5) already exists." in the language of the server. Without the right to
// read the columns there is no detail, and the name of the constraint has to tell.
func duplicateOfPostgres(stmt *gorm.Statement, err error) (d duplicate, is bool) {
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
		d.primary = strings.HasSuffix(d.index, "_pkey")
		return d, true
	}
	d.columns = strings.Split(list[strings.IndexByte(list, '(')+1:], ", ")
	for i, column := range d.columns {
		d.columns[i] = strings.Trim(column, `"`)
	}
	if end := strings.LastIndexByte(rest, ')'); end >= 0 {
		rest = rest[:end]
	}
	d.key, d.primary = rest, arePrimaryKey(stmt.Schema, d.columns)
	return d, true
}

// tableOf returns the name of the statement's table, without a schema.
func tableOf(stmt *gorm.Statement) string {
	return stmt.Table[strings.LastIndexByte(stmt.Table, '.')+1:]
}

// arePrimaryKey reports whether columns are those of the primary key.
func arePrimaryKey(s *schema.Schema, columns []string) bool {
	if len(columns) != len(s.PrimaryFields) {
		return false
	}
	for _, field := range s.PrimaryFields {
		if !slices.Contains(columns, field.DBName) {
			return false
		}
	}
	return true
}

// fields returns the columns of the index, or nil if nothing tells them.
func (d duplicate) fields(p *Plan) (fields []*schema.Field) {
	if d.columns == nil {
		return p.uniqueIndexes()[d.index[strings.LastIndexByte(d.index, '.')+1:]]
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
