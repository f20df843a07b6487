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

// database is one of the databases of a job. Its statements go to the pool itself and past GORM, so no
// callback, no replica and no prepared statement comes in between.
type database struct {
	dialect.Dialect
	db      *gorm.DB
	pool    *sql.DB
	journal string // the quoted name of the journal
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

// onConnection calls do with one connection on which no foreign key is checked: the rows of two tables do not
// come in the order in which a foreign key would want them. On PostgreSQL the new tables get theirs later.
func (d *database) onConnection(ctx context.Context, do func(c *sql.Conn) error) (err error) {
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var set, back string
	switch d.Kind {
	case dialect.MySQL:
		set = "SET @snowflake_keys = @@foreign_key_checks, foreign_key_checks = 0"
		back = "SET foreign_key_checks = @snowflake_keys"
	case dialect.SQLite:
		on := 0
		if err := c.QueryRowContext(ctx, "PRAGMA foreign_keys").Scan(&on); err != nil {
			return err
		}
		set, back = "PRAGMA foreign_keys = 0", "PRAGMA foreign_keys = "+strconv.Itoa(on)
	default:
		return do(c)
	}
	if _, err := c.ExecContext(ctx, set); err != nil {
		return err
	}
	defer func() {
		if _, e := c.ExecContext(context.WithoutCancel(ctx), back); e != nil {
			// The pool must not give out a connection that checks nothing.
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return do(c)
}

// transaction runs a transaction. On MySQL, INSERT ... SELECT would lock the rows that it reads, and so stop
// the writes of programs, if the transactions were isolated as usual there.
func (d *database) transaction(ctx context.Context, do func(q gorm.ConnPool) error) error {
	return d.onConnection(ctx, func(c *sql.Conn) error {
		tx, err := d.begin(ctx, c)
		if err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
}

func (d *database) begin(ctx context.Context, c *sql.Conn) (*sql.Tx, error) {
	if d.Kind == dialect.MySQL {
		return c.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	}
	return c.BeginTx(ctx, nil)
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

// texts reads rows of some texts. NULL is the empty one.
func texts(ctx context.Context, q gorm.ConnPool, columns int, query string, args ...any) (list [][]string, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		row, into := make([]sql.NullString, columns), make([]any, columns)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		line := make([]string, columns)
		for i := range row {
			line[i] = row[i].String
		}
		list = append(list, line)
		return nil
	}, query, args...)
	return list, err
}

func each(
	ctx context.Context, q gorm.ConnPool, read func(*sql.Rows) error, query string, args ...any,
) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// splitName separates the schema of a table from its name.
func splitName(table string) (space, name string) {
	if space, name, qualified := strings.Cut(table, "."); qualified {
		return space, name
	}
	return "", table
}

// beside returns the name of another table in the schema of a table.
func beside(table, name string) string {
	if space, _ := splitName(table); space != "" {
		return space + "." + name
	}
	return name
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
