package reshard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// journalTable is in every database that has new tables. It has one row for each move into them, and in the
// database of the first entry one for the job.
const journalTable = "snowflake_copies"

// database is one of the databases of a job. Its statements go to the pool itself and past GORM, so no
// callback, no replica and no prepared statement comes in between.
type database struct {
	dialect.Dialect
	db      *gorm.DB
	pool    *sql.DB
	journal string // the quoted name of the journal
	apart   bool   // another database of the job is beside it
}

func openDatabase(db *gorm.DB) (*database, error) {
	d := &database{db: db, journal: db.Statement.Quote(db.NamingStrategy.TableName(journalTable))}
	d.Dialect, _ = dialect.Of(db.Name())
	var err error
	if d.pool, err = db.DB(); err != nil || d.Kind == "" {
		return nil, fmt.Errorf("%w: a resharding needs a *sql.DB of PostgreSQL, MySQL, MariaDB or SQLite behind "+
			"the *gorm.DB, and there is none: %w", errs.ErrSharding, err)
	}
	return d, nil
}

// handle returns a handle of GORM whose statements go to a connection or transaction.
func (d *database) handle(ctx context.Context, q gorm.ConnPool) *gorm.DB {
	tx := d.db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
	tx.Statement.ConnPool = q
	return tx
}

// Between two databases, values go as texts, whose form must not depend on the settings of a session: a time
// without its zone would be another one, and a letter that the character set lacks a question mark. A limit
// on the rows of a SELECT would leave rows out. So both sessions are set alike.
const (
	setMySQL = "SET @snowflake_keys = @@foreign_key_checks, @snowflake_zone = @@time_zone, " +
		"@snowflake_results = @@character_set_results, @snowflake_limit = @@sql_select_limit, " +
		"@snowflake_locks = @@innodb_table_locks, @snowflake_commit = @@autocommit, foreign_key_checks = 0, " +
		"time_zone = '+00:00', character_set_results = utf8mb4, sql_select_limit = 18446744073709551615, " +
		"innodb_table_locks = 1, autocommit = 1"
	resetMySQL = "SET foreign_key_checks = @snowflake_keys, time_zone = @snowflake_zone, " +
		"character_set_results = @snowflake_results, sql_select_limit = @snowflake_limit, " +
		"innodb_table_locks = @snowflake_locks, autocommit = @snowflake_commit"
)

// onConnection calls do with one connection. On MySQL and MariaDB it checks no foreign key: the rows of two
// tables do not come in the order in which a foreign key would want them. On PostgreSQL the new tables get
// theirs later, and on SQLite they have none.
func (d *database) onConnection(ctx context.Context, do func(c *sql.Conn) error) (err error) {
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if d.Kind != dialect.MySQL {
		return do(c)
	}
	if err := run(ctx, c, setMySQL); err != nil {
		return err
	}
	defer func() {
		if e := run(context.WithoutCancel(ctx), c, resetMySQL); e != nil {
			// The pool must not give out a connection that checks nothing.
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return do(c)
}

// transaction runs a transaction on a connection of its own.
func (d *database) transaction(ctx context.Context, do func(q gorm.ConnPool) error) error {
	return d.onConnection(ctx, func(c *sql.Conn) error { return d.begun(ctx, c, do) })
}

// begun runs a transaction. On MySQL, INSERT ... SELECT would lock the rows that it reads, and so stop the
// writes of programs, if the transactions were isolated as usual there.
func (d *database) begun(ctx context.Context, c *sql.Conn, do func(q gorm.ConnPool) error) error {
	options := &sql.TxOptions{}
	if d.Kind == dialect.MySQL {
		options.Isolation = sql.LevelReadCommitted
	}
	tx, err := c.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	if d.Kind == dialect.PostgreSQL && d.apart {
		// A SELECT would choose what a REPEATABLE READ sees before it has its locks.
		err = run(ctx, tx, "SET LOCAL datestyle = ISO", "SET LOCAL intervalstyle = postgres",
			"SET LOCAL extra_float_digits = 3", "SET LOCAL lc_monetary = 'C'", "SET LOCAL timezone = 'UTC'",
			"SET LOCAL bytea_output = hex")
	}
	if err == nil {
		err = do(tx)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// inTransaction runs a transaction of MySQL that does not unlock tables, as BEGIN would.
func inTransaction(ctx context.Context, q gorm.ConnPool, do func() error) error {
	err := run(ctx, q, "SET autocommit = 0")
	if err == nil {
		err = do()
	}
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	return errors.Join(err, run(context.WithoutCancel(ctx), q, end, "SET autocommit = 1"))
}

// reading calls do with where rows can be read whose values go to another database.
func (d *database) reading(ctx context.Context, do func(q gorm.ConnPool) error) error {
	if d.Kind == dialect.SQLite {
		return do(d.pool) // Nothing is set there, and a transaction might lock the file.
	}
	return d.transaction(ctx, do)
}

// run runs statements one after the other.
func run(ctx context.Context, q gorm.ConnPool, statements ...string) error {
	for _, statement := range statements {
		if _, err := q.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// execute runs a statement with its values.
func execute(ctx context.Context, q gorm.ConnPool, s *dialect.SQL) error {
	_, err := q.ExecContext(ctx, s.String(), s.Args...)
	return err
}

// number reads one number. NULL is 0.
func number(ctx context.Context, q gorm.ConnPool, query string, args ...any) (int64, error) {
	var n sql.NullInt64
	err := q.QueryRowContext(ctx, query, args...).Scan(&n)
	return n.Int64, err
}

// numbers reads a column of numbers.
func numbers(ctx context.Context, q gorm.ConnPool, query string) (list []int64, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var n int64
		err := rows.Scan(&n)
		list = append(list, n)
		return err
	}, query)
	return list, err
}

// texts reads rows of texts. NULL is the empty one.
func texts(ctx context.Context, q gorm.ConnPool, query string, args ...any) (list [][]string, err error) {
	_, rows, err := dialect.Query[[]sql.NullString](ctx, q, query, args...)
	for _, row := range rows {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = cell.String
		}
		list = append(list, line)
	}
	return list, err
}

func each(
	ctx context.Context, q gorm.ConnPool, read func(*sql.Rows) error, query string, args ...any,
) error {
	rows, err := q.QueryContext(ctx, query, args...) //nolint:rowserrcheck // EachRow does both.
	return dialect.EachRow(rows, err, read)
}

// beside returns the name of another table in the schema of a table.
func beside(table, name string) string {
	if space, _ := dialect.Split(table); space != "" {
		return space + "." + name
	}
	return name
}

// shorten puts an end behind a name.
func shorten(name, end string) string {
	return dialect.Abridged(name, name, dialect.MaxName-len(end)) + end
}

// list writes numbers as SQL.
func list(keys []int64) string {
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(key, 10))
	}
	return b.String()
}

// unlimited ends a query of MySQL that has all of its rows, whatever sql_select_limit says.
const unlimited = " LIMIT 18446744073709551615"

// catalog asks the catalog about a table, by a query as for [dialect.Kind.About].
func (d *database) catalog(ctx context.Context, q gorm.ConnPool, table, query string) ([][]string, error) {
	query, args := d.About(table, query)
	if d.Kind == dialect.MySQL {
		query += unlimited
	}
	return texts(ctx, q, query, args...)
}

// exists reports whether a table is there.
func (d *database) exists(ctx context.Context, q gorm.ConnPool, table string) (bool, error) {
	rows, err := d.catalog(ctx, q, table, map[dialect.Kind]string{
		dialect.PostgreSQL: "SELECT relname FROM pg_class WHERE oid = to_regclass($1)",
		dialect.MySQL: "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" +
			dialect.InSchema,
		dialect.SQLite: "SELECT name FROM `main`.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
	}[d.Kind])
	return len(rows) > 0, err
}

// triggersOn lists the triggers of a table by name, but for those that are switched off.
func (d *database) triggersOn(
	ctx context.Context, q gorm.ConnPool, table string,
) (names []string, err error) {
	rows, err := d.catalog(ctx, q, table, map[dialect.Kind]string{
		dialect.PostgreSQL: "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass($1) AND NOT " +
			"tgisinternal AND tgenabled IN ('O', 'A')",
		dialect.MySQL: "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? AND " +
			"EVENT_OBJECT_SCHEMA" + dialect.InSchema,
		dialect.SQLite: "SELECT name FROM `main`.sqlite_master WHERE type = 'trigger' AND tbl_name = ? " +
			"COLLATE NOCASE",
	}[d.Kind])
	for _, row := range rows {
		names = append(names, row[0])
	}
	return names, err
}

// A job copies the columns that the table has, which is not what the model may read and write. So rows are
// read and written by SQL of its own, in a form that no driver rounds or converts.

// column is a column that can be written to.
type column struct {
	name string
	kind string // the type, as the catalog names it
}

// columnsOf reads the columns of a table from the catalog, without those that the database computes.
func (d *database) columnsOf(
	ctx context.Context, q gorm.ConnPool, table string,
) (columns []column, err error) {
	rows, err := d.catalog(ctx, q, table, map[dialect.Kind]string{
		dialect.PostgreSQL: "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = " +
			"to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
		dialect.MySQL: "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_NAME = ? AND " +
			"TABLE_SCHEMA" + dialect.InSchema +
			" AND COALESCE(GENERATION_EXPRESSION, '') = '' ORDER BY ORDINAL_POSITION",
		dialect.SQLite: "SELECT name, '' FROM pragma_table_xinfo(?, 'main') WHERE hidden = 0",
	}[d.Kind])
	for _, row := range rows {
		columns = append(columns, column{row[0], strings.ToLower(row[1])})
	}
	if err == nil && columns == nil {
		err = fmt.Errorf("%w: the table %s is not there", errs.ErrSharding, table)
	}
	return columns, err
}

// exactly returns an expression for the exact value of a column, and whether that is text.
func (d *database) exactly(c column, table string) (read string, isText bool) {
	name := table + "." + d.Quote(c.name)
	switch {
	case d.Kind == dialect.PostgreSQL:
		return name + "::text", true
	case d.Kind == dialect.SQLite:
		return "+" + name, false // The driver converts the values of columns, but not of expressions.
	case c.kind == "float":
		return "CAST(" + name + " AS DOUBLE)", true // As it is, the server rounds it to six digits.
	case c.kind == "double":
		return name, true
	case plainTypes.MatchString(c.kind):
		return name, false
	}
	return "CAST(" + name + " AS CHAR CHARACTER SET utf8mb4)", true
}

// plainTypes are the types of MySQL that have neither a character set nor a collation.
var plainTypes = regexp.MustCompile(`^(bit|(var)?binary|(tiny|medium|long)?blob|` +
	`geometry|(multi)?(point|linestring|polygon)|geom(etry)?collection)$`)
