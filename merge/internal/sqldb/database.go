package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// The errors of databases. Package merge exports and documents them.
var (
	ErrOpen     = errors.New("merge: database cannot be opened")
	ErrLocked   = errors.New("merge: another run works on this target")
	ErrDatabase = errors.New("merge: statement failed")
)

// DB is one database, and the one connection to it that everything goes through. Session settings, temporary
// tables and transactions belong to that connection. A DB is not safe for concurrent use.
type DB struct {
	Name    string // what errors call the database; never its DSN
	Kind    Kind
	TiDB    bool   // it is TiDB, which is of the kind MySQL
	version string // of the server
	pool    *sql.DB
	conn    *sql.Conn
	Tables  map[string]*Table // the catalog, as it was when the database was opened
	// Objects are what the database has besides these tables.
	Objects []Object
	// Catalog is where another database of the same kind finds this one: the database name on MySQL, the file
	// on SQLite, the schema on PostgreSQL.
	Catalog string
	// definitions are what [DB.Definition] compares, by the names of tables, once they were read.
	definitions map[string]string
}

// Close closes the connection and the pool that the opener returned.
func (d *DB) Close() error {
	err := d.conn.Close()
	if errors.Is(err, sql.ErrConnDone) { // it was lost, or its context has ended
		err = nil
	}
	return errors.Join(err, d.pool.Close())
}

// Pool returns what the opener has returned.
func (d *DB) Pool() *sql.DB { return d.pool }

// Conn returns the connection.
func (d *DB) Conn() *sql.Conn { return d.conn }

// failed adds the name of the database to the error of a statement.
func (d *DB) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDatabase, d.Name, err)
}

// IsDataError reports whether PostgreSQL has refused a value that is in a statement: class 22 of its codes,
// such as a text that is no UUID. Other databases answer such a comparison.
func IsDataError(err error) bool {
	state := dialect.State(err)
	return len(state) == 5 && strings.HasPrefix(state, "22")
}

// SQL returns a statement for the database that begins with the given text.
func (d *DB) SQL(text ...string) *Statement { return dialect.Write(d.Kind, text...) }

// Exec runs SQL text.
func (d *DB) Exec(ctx context.Context, text string, args ...any) error {
	_, err := d.conn.ExecContext(ctx, text, args...)
	return d.failed(err)
}

// Run runs a statement and returns how many rows it affected.
func (d *DB) Run(ctx context.Context, s *Statement) (int64, error) {
	result, err := d.conn.ExecContext(ctx, s.String(), s.Args...)
	if err != nil {
		return 0, d.failed(err)
	}
	n, err := result.RowsAffected()
	return n, d.failed(err)
}

// Row reads the first row of a result. Without a row, the error is [sql.ErrNoRows].
func (d *DB) Row(ctx context.Context, s *Statement, into ...any) error {
	err := d.conn.QueryRowContext(ctx, s.String(), s.Args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return d.failed(err)
}

// Each calls fn for every row of a result. See [DB.Fetch].
func (d *DB) Each(ctx context.Context, s *Statement, fn func(values []any) error) error {
	return d.Fetch(ctx, s, Fetch{}, fn)
}

// EachSteady is Each for a statement that is steady.
func (d *DB) EachSteady(ctx context.Context, s *Statement, fn func(values []any) error) error {
	return d.Fetch(ctx, s, Fetch{Steady: true}, fn)
}

// Strings reads a whole result as text. NULL becomes "".
func (d *DB) Strings(ctx context.Context, s *Statement) ([][]string, error) {
	var all [][]string
	err := d.Each(ctx, s, func(values []any) error {
		all = append(all, Mapped(values, Text))
		return nil
	})
	return all, err
}

// Number reads the one integer that a result consists of.
func (d *DB) Number(ctx context.Context, s *Statement) (int64, error) {
	var n int64
	err := d.Row(ctx, s, &n)
	return n, err
}

// Count returns how many rows the rest of a statement selects, from its FROM on.
func (d *DB) Count(ctx context.Context, from ...string) (int64, error) {
	return d.Number(ctx, d.SQL("SELECT COUNT(*)").Add(from...))
}

// Any reports whether the rest of a statement selects a row, from its FROM on.
func (d *DB) Any(ctx context.Context, from ...string) (bool, error) {
	rows, err := d.Strings(ctx, d.SQL("SELECT 1").Add(from...).Add(" LIMIT 1"))
	return len(rows) > 0, err
}

// Holds reports whether there is a table with rows.
func (d *DB) Holds(ctx context.Context, table string) (bool, error) {
	if d.Tables[table] == nil {
		return false, nil
	}
	return d.Any(ctx, " FROM ", d.Kind.Quote(table))
}

// Transaction runs fn between BEGIN and COMMIT, and rolls back if either fails.
func (d *DB) Transaction(ctx context.Context, fn func() error) error {
	// On SQLite, a transaction that starts with a read cannot wait for the write lock.
	err := d.Exec(ctx, "BEGIN"+only(SQLite, d.Kind, " IMMEDIATE"))
	if err != nil {
		return err
	}
	if err = fn(); err == nil {
		if err = d.Exec(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// The context may have ended, but the transaction must end in any case.
	return errors.Join(err, d.Exec(context.WithoutCancel(ctx), "ROLLBACK"))
}

// Unflushed is for a transaction that can be done once more: PostgreSQL does not wait for the disk at its
// end. If that server crashes, the last of these transactions may be gone, each as a whole and only together
// with all that came after it. The next transaction that waits for the disk makes all of them last.
//
// See https://www.postgresql.org/docs/current/wal-async-commit.html. The other kinds cannot do this for one
// session.
func (d *DB) Unflushed(ctx context.Context) error {
	if d.Kind != PostgreSQL {
		return nil
	}
	return d.Exec(ctx, "SET LOCAL synchronous_commit = off")
}

// Analyze lets PostgreSQL know how many rows a new table has. It takes tables that it knows nothing of for
// small ones, and would read a whole table for every batch of a look-up, or for every page of groups.
func (d *DB) Analyze(ctx context.Context, table string) error {
	if d.Kind != PostgreSQL {
		return nil
	}
	return d.Exec(ctx, "ANALYZE "+table)
}

// DropTemporary drops a temporary table. On MySQL no other word keeps it from committing the transaction, or
// from dropping a table of the game.
func (d *DB) DropTemporary(ctx context.Context, table string) error {
	return d.Exec(ctx, "DROP "+only(MySQL, d.Kind, "TEMPORARY ")+"TABLE IF EXISTS "+table)
}

// HasTable reports whether the database has a table now, even if the catalog was read before it was made.
func (d *DB) HasTable(ctx context.Context, name string) (bool, error) {
	has, err := d.Kind.HasTable(ctx, d.conn, name)
	return has, d.failed(err)
}

// Same reports whether two connections lead to the same database: the same file of SQLite, the same schema of
// a database of PostgreSQL, or the same database of a server of MySQL.
func (d *DB) Same(ctx context.Context, other *DB) (bool, error) {
	if d.Kind != other.Kind || d.Catalog != other.Catalog || d.Catalog == "" { // SQLite in memory has no name
		return false, nil
	}
	if d.Kind == SQLite {
		return true, nil
	}
	return d.SameInstance(ctx, other)
}

// SameInstance reports whether two connections lead to the same server of MySQL, or to the same database of
// PostgreSQL: one cannot take a lock that the other one holds.
func (d *DB) SameInstance(ctx context.Context, other *DB) (same bool, err error) {
	text := rand.Text()
	release, err := lockBy(ctx, other, text, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	again, err := lockBy(ctx, d, text, 0)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, again()
}

// A Fetch says what the rows of a result are like.
type Fetch struct {
	Texts []bool // of each column: bytes are a text
	More  int    // each slice of values has room for so many further ones at its end
	// Steady says that the database returns row after row without long pauses, so that it is enough to look at
	// the context between the rows. The usual driver of SQLite starts a goroutine for every row of a statement
	// whose context can end.
	Steady bool
}

// Fetch calls fn for every row of a result. The values are as the driver returns them, and fn may keep them.
func (d *DB) Fetch(ctx context.Context, s *Statement, f Fetch, fn func(values []any) error) (err error) {
	asked := ctx
	if f.Steady && d.Kind == SQLite {
		asked = context.WithoutCancel(ctx)
	}
	rows, err := d.conn.QueryContext(asked, s.String(), s.Args...)
	if err != nil {
		return d.failed(err)
	}
	defer func() { err = errors.Join(err, d.failed(rows.Close())) }()
	columns, err := rows.Columns()
	if err != nil {
		return d.failed(err)
	}
	cells, into := make([]cell, len(columns)), make([]any, len(columns))
	for i := range cells {
		cells[i].text, into[i] = i < len(f.Texts) && f.Texts[i], &cells[i]
	}
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		values := make([]any, len(columns)+f.More)
		for i := range cells {
			cells[i].into = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return d.failed(err)
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return d.failed(rows.Err())
}

// givesDefaults reports whether a column of a table takes its default from a sequence of the database.
func (d *DB) givesDefaults(sequence string) bool {
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			if c.sequence != "" && strings.HasSuffix(c.sequence, "."+MySQL.Quote(sequence)) {
				return true
			}
		}
	}
	return false
}

// cell takes one value from a driver. A sql.Scanner sees the driver's own memory, so that a text becomes a
// string without a copy in between.
type cell struct {
	into *any
	text bool // bytes become a string
}

func (c *cell) Scan(v any) error {
	b, ok := v.([]byte)
	switch {
	case !ok:
		*c.into = v
	case c.text:
		*c.into = string(b)
	default:
		// Some drivers return a value of no bytes as a nil slice, which another one would store as NULL.
		*c.into = append([]byte{}, b...)
	}
	return nil
}
