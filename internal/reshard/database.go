package reshard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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
	engine
	traits
	db      *gorm.DB
	pool    *sql.DB
	journal string // the quoted name of the journal
	apart   bool   // another database of the job is beside it
}

func openDatabase(db *gorm.DB) (*database, error) {
	d := &database{db: db, journal: db.Statement.Quote(db.NamingStrategy.TableName(journalTable))}
	d.Dialect, _ = dialect.Of(db.Name())
	switch d.Kind {
	case dialect.PostgreSQL:
		d.engine, d.traits = postgres{usual{d}}, postgresTraits()
	case dialect.MySQL:
		d.engine, d.traits = mysql{usual{d}}, mysqlTraits()
	case dialect.SQLite:
		d.engine, d.traits = sqlite{usual{d}}, sqliteTraits()
	}
	var err error
	if d.pool, err = db.DB(); err != nil || d.engine == nil {
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

// onConnection calls do with one connection. Between two databases, values go as texts, whose form must not
// depend on the settings of a session: a time without its zone would be another one, and a letter that the
// character set lacks a question mark. A limit on the rows of a SELECT would leave rows out. So the sessions
// are set alike.
func (d *database) onConnection(ctx context.Context, do func(c *sql.Conn) error) (err error) {
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if d.set == "" {
		return do(c)
	}
	if err := run(ctx, c, d.set); err != nil {
		return err
	}
	defer func() {
		if e := run(context.WithoutCancel(ctx), c, d.reset); e != nil {
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

// begun runs a transaction.
func (d *database) begun(ctx context.Context, c *sql.Conn, do func(q gorm.ConnPool) error) error {
	return dialect.Transact(ctx, c, &sql.TxOptions{Isolation: d.isolation}, func(tx *sql.Tx) (err error) {
		if d.apart {
			err = run(ctx, tx, d.begin...)
		}
		if err == nil {
			err = do(tx)
		}
		return err
	})
}

// reading calls do with where rows can be read whose values go to another database.
func (d *database) reading(ctx context.Context, do func(q gorm.ConnPool) error) error {
	if d.Embedded() {
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
	_, rows, err := dialect.Query[[]int64](ctx, q, query)
	for _, row := range rows {
		list = append(list, row[0])
	}
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

// beside returns the name of another table in the schema of a table.
func beside(table, name string) string {
	if space, _ := dialect.Split(table); space != "" {
		return space + "." + name
	}
	return name
}

// bare returns the name of a table without its schema.
func bare(table string) string {
	_, name := dialect.Split(table)
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

// about asks the catalog about a table, by a query as for [dialect.Kind.About].
func (d *database) about(ctx context.Context, q gorm.ConnPool, table, query string) ([][]string, error) {
	query, args := d.About(table, query)
	return texts(ctx, q, query+d.ending, args...)
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
	rows, err := d.about(ctx, q, table, d.columns)
	for _, row := range rows {
		columns = append(columns, column{row[0], strings.ToLower(row[1])})
	}
	if err == nil && columns == nil {
		err = fmt.Errorf("%w: the table %s is not there", errs.ErrSharding, table)
	}
	return columns, err
}
