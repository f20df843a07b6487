package router

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// A resharding copies the columns that the table has, which is not what the model may read and write. So
// rows are read and written by SQL of its own, in a form that no driver rounds or converts.

// tableColumn is a column that can be written to.
type tableColumn struct {
	name string
	// read is the expression that gives the value in its exact form.
	read string
	// isText is set where a driver returns bytes for text.
	isText bool
	// kind is the type, as the catalog names it.
	kind string
	// charset is the character set of a text on MySQL and MariaDB.
	charset string
}

// rawRow is a row as it is copied.
type rawRow struct {
	id     int64
	values []any
}

// same reports whether all values are equal. They are numbers, text, bytes or nil.
func (r rawRow) same(other rawRow) bool {
	return slices.EqualFunc(r.values, other.values, func(a, b any) bool {
		left, isBytes := a.([]byte)
		right, areBytes := b.([]byte)
		if isBytes || areBytes {
			return isBytes && areBytes && bytes.Equal(left, right)
		}
		return a == b
	})
}

// columnsOf reads the columns of a table from the catalog, without those that the database computes.
func (t *topology) columnsOf(ctx context.Context, database int, table string) ([]tableColumn, error) {
	db := t.dbs[database]
	space, name := splitTable(table)
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres:
		query = "SELECT attname, format_type(atttypid, NULL), '' FROM pg_attribute " +
			"WHERE attrelid = to_regclass(?) AND attnum > 0 " +
			"AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
		args = []any{db.Statement.Quote(table)}
	case dialectMySQL:
		query = "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(CHARACTER_SET_NAME, '') " +
			"FROM information_schema.COLUMNS " +
			"WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? " +
			"AND COALESCE(GENERATION_EXPRESSION, '') = '' ORDER BY ORDINAL_POSITION"
		args = []any{space, name}
	default:
		query = "SELECT name, '', '' FROM pragma_table_xinfo(?, ?) WHERE hidden = 0"
		args = []any{name, cmp.Or(space, "main")}
	}
	var columns []tableColumn
	err := t.eachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var c tableColumn
		err := rows.Scan(&c.name, &c.kind, &c.charset)
		c.kind = strings.ToLower(c.kind)
		c.read, c.isText = exactly(db, db.Statement.Quote(c.name), c.kind)
		columns = append(columns, c)
		return err
	}, query, args...)
	return columns, err
}

// splitTable separates the schema of a table from its name.
func splitTable(table string) (space, name string) {
	space, name, qualified := strings.Cut(table, ".")
	if !qualified {
		return "", table
	}
	return space, name
}

// exactly returns an expression for the exact value of a column, and whether that is text.
func exactly(db *gorm.DB, column, kind string) (read string, isText bool) {
	switch db.Name() {
	case dialectPostgres:
		return column + "::text", true
	case dialectSQLite:
		return "+" + column, false // The driver converts the values of columns, but not of expressions.
	}
	switch kind {
	case "float":
		return "CAST(" + column + " AS DOUBLE)", true // As it is, the server rounds it to six digits.
	case "double":
		return column, true
	case "bit":
		return column, false
	}
	if isBytes(kind) || isGeometry(kind) {
		return column, false
	}
	return "CAST(" + column + " AS CHAR)", true
}

// checkColumns refuses a move to a table that lacks columns.
func (m *tableMove) checkColumns(ctx context.Context) error {
	var err error
	if m.columns, err = m.d.to.columnsOf(ctx, m.FromDatabase, m.FromTable); err != nil {
		return err
	}
	into, err := m.d.to.columnsOf(ctx, m.ToDatabase, m.ToTable)
	if err != nil {
		return err
	}
	for table, columns := range map[string][]tableColumn{m.FromTable: m.columns, m.ToTable: into} {
		if len(columns) == 0 {
			return fmt.Errorf("%w: the table %s is not there: somebody has dropped it. Reshard makes new tables "+
				"again, and an old one must be restored", errs.ErrSharding, table)
		}
	}
	m.into = nil
	for _, column := range m.columns {
		i := slices.IndexFunc(into, func(c tableColumn) bool { return c.name == column.name })
		if i < 0 {
			return fmt.Errorf("%w: table %s has a column %s that the model does not have, and so the new table %s "+
				"has none: add it there, as it is in the old table, and call Reshard again", errs.ErrSharding,
				m.FromTable, column.name, m.ToTable)
		}
		m.into = append(m.into, into[i])
	}
	return nil
}

// moves is the condition that the row with a key belongs in the new table.
func (m *tableMove) moves(key string) string {
	return fmt.Sprintf("(%s & %d) %% %d = %d", key, m.d.to.mask, m.d.to.shards, m.shard)
}

// readFrom reads the next rows after a key that belong in the new table, in the order of their keys. pool
// is a connection to the database of the table. only may restrict the keys; see onlyKeys.
func (m *tableMove) readFrom(
	ctx context.Context, pool gorm.ConnPool, table string, after int64, only string, limit int,
) (list []rawRow, err error) {
	db := m.d.to.dbs[m.ToDatabase] // all are of one kind
	key := "o." + db.Statement.Quote(m.key)
	var query strings.Builder
	query.WriteString("SELECT " + key)
	for _, column := range m.columns {
		query.WriteString(", " + column.read)
	}
	fmt.Fprintf(&query, " FROM %s o WHERE %s AND %s > %d%s ORDER BY %[3]s LIMIT %[6]d",
		db.Statement.Quote(table), m.moves(key), key, after, onlyKeys(only, key), limit)
	rows, err := pool.QueryContext(ctx, query.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rawRow{values: make([]any, len(m.columns))}
		into := []any{&row.id}
		for i := range row.values {
			into = append(into, &row.values[i])
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, value := range row.values {
			if text, ok := value.([]byte); ok && m.columns[i].isText {
				row.values[i] = string(text)
			}
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// insertInto returns the beginning and the end of a statement that inserts into the new table. A row whose
// unique value an outdated copy still has is left out. It is missing in the next comparison, and is copied
// when the outdated copy is gone.
func (m *tableMove) insertInto() (names, begin, end string) {
	db := m.d.to.dbs[m.ToDatabase]
	quote := db.Statement.Quote
	var list []string
	for _, column := range m.columns {
		list = append(list, quote(column.name))
	}
	names = strings.Join(list, ", ")
	begin, end = "INSERT INTO "+quote(m.ToTable)+" ("+names+") ", " ON CONFLICT DO NOTHING"
	switch db.Name() {
	case dialectPostgres:
		begin += "OVERRIDING SYSTEM VALUE "
	case dialectMySQL:
		// IGNORE would also ignore values that do not fit.
		end = " ON DUPLICATE KEY UPDATE " + quote(m.key) + " = " + quote(m.ToTable) + "." + quote(m.key)
	}
	return names, begin, end
}

// insertSelect copies rows inside a database, so that no value leaves the server.
func (m *tableMove) insertSelect(ctx context.Context, pool gorm.ConnPool, condition string) error {
	names, begin, end := m.insertInto()
	quote := m.d.to.dbs[m.ToDatabase].Statement.Quote
	_, err := pool.ExecContext(ctx, begin+"SELECT "+names+" FROM "+quote(m.FromTable)+" WHERE "+
		m.moves(quote(m.key))+condition+end)
	return err
}

// insertRows writes rows that were read from another database.
func (m *tableMove) insertRows(ctx context.Context, pool gorm.ConnPool, rows []rawRow) error {
	db := m.d.to.dbs[m.ToDatabase]
	_, begin, end := m.insertInto()
	for some := range slices.Chunk(rows, max(1, maxArguments/len(m.columns))) {
		var query strings.Builder
		var args []any
		query.WriteString(begin + "VALUES ")
		for i, row := range some {
			if i > 0 {
				query.WriteString(", ")
			}
			for j, value := range row.values {
				query.WriteByte("(,"[min(j, 1)])
				args = append(args, value)
				db.BindVarTo(&query, &gorm.Statement{Vars: args}, value)
			}
			query.WriteByte(')')
		}
		if _, err := pool.ExecContext(ctx, query.String()+end, args...); err != nil {
			return err
		}
	}
	return nil
}

// maxArguments bounds the arguments of one statement. SQLite allows 32,766.
const maxArguments = 30_000
