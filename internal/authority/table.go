package authority

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
)

// The names that GORM gives the dialects.
const (
	dialectPostgres = "postgres"
	dialectMySQL    = "mysql"
	dialectSQLite   = "sqlite"
)

// timeForm is how times are written: in UTC and all of one length, so that they sort as text.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// maxText is how many bytes fit a column.
const maxText = 255

// Pool is a pool, a connection or a transaction of database/sql.
type Pool interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Database is a database that may have the table.
type Database struct {
	Dialect string // as GORM calls it
	Pool    Pool

	table string // as it is named, with its schema if it has one
}

// In returns the database with the table in the default schema of its connections.
func In(dialect string, pool Pool) Database {
	return Database{Dialect: dialect, Pool: pool, table: Table}
}

// Beside returns the database with the table in the schema of a table of leases, and the name of that
// table without the schema.
func (d Database) Beside(leases string) (Database, string) {
	dot := strings.LastIndexByte(leases, '.') + 1
	d.table = leases[:dot] + Table
	return d, leases[dot:]
}

// IsSupported reports whether authorities are noted on databases of this dialect.
func (d Database) IsSupported() bool {
	switch d.Dialect {
	case dialectPostgres, dialectMySQL, dialectSQLite:
		return true
	}
	return false
}

// DDL returns the statement that makes the table.
func (d Database) DDL() string {
	text, stamp, suffix := "varchar(255)", "varchar(30)", ""
	if d.Dialect == dialectMySQL {
		// Bytes have no character set, and no comparison ignores case or blanks.
		text, suffix = "varbinary(255)", " ENGINE=InnoDB"
		stamp = "varchar(30) CHARACTER SET ascii COLLATE ascii_bin"
	}
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + d.quote(d.table) + " (\n")
	for _, column := range columns() {
		of := text
		if column == "noted_at" {
			of = stamp
		}
		fmt.Fprintf(&b, "    %s %s NOT NULL,\n", d.quote(column), of)
	}
	fmt.Fprintf(&b, "    PRIMARY KEY (%s)\n)%s", d.quote("subject"), suffix)
	return b.String()
}

func columns() []string {
	return []string{"subject", "authority", "layout", "place", "noted_by", "noted_at"}
}

// rows reads the whole table, which has a row or two, by subject.
func (d Database) rows(ctx context.Context) (map[string]Note, error) {
	names := columns()
	for i := range names {
		names[i] = d.quote(names[i])
	}
	var all [][]string
	err := d.transact(ctx, d.Dialect == dialectMySQL, func(q Pool) (err error) {
		all, err = query(ctx, q, "SELECT "+strings.Join(names, ", ")+" FROM "+d.quote(d.table))
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]Note, len(all))
	for _, row := range all {
		found[row[0]] = Note{
			Origin: Origin{ID: row[1], Layout: row[2], Place: row[3]}, By: row[4], At: row[5],
		}
	}
	return found, nil
}

// insert writes the row of a subject unless there is one. It makes the table if that is missing.
func (d Database) insert(ctx context.Context, subject string, n Note, tableIsMissing bool) error {
	names := columns()
	for i := range names {
		names[i] = d.quote(names[i])
	}
	insert, unless := "INSERT INTO ", " ON CONFLICT ("+d.quote("subject")+") DO NOTHING"
	if d.Dialect == dialectMySQL {
		insert, unless = "INSERT IGNORE INTO ", ""
	}
	statement := insert + d.quote(d.table) + " (" + strings.Join(names, ", ") + ") VALUES (" +
		strings.Join(d.placeholders(len(names)), ", ") + ")" + unless
	return d.transact(ctx, true, func(q Pool) error {
		if tableIsMissing {
			if _, err := q.ExecContext(ctx, d.DDL()); err != nil {
				return err
			}
		}
		_, err := q.ExecContext(ctx, statement, subject, n.ID, n.Layout, fit(n.Place), fit(n.By), n.At)
		return err
	})
}

// transact does something in a transaction of its own, where that is needed: a session of MySQL may have
// been set to commit nothing by itself. A transaction, which cannot begin another, does it as it is. While
// somebody else writes, it is tried again.
func (d Database) transact(ctx context.Context, needed bool, do func(Pool) error) error {
	return persist(ctx, func() error { return d.transactOnce(ctx, needed, do) })
}

// persist does something again as long as the database does nothing because somebody else is writing.
func persist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (d Database) transactOnce(ctx context.Context, needed bool, do func(Pool) error) (err error) {
	if !needed {
		return do(d.Pool)
	}
	switch pool := d.Pool.(type) {
	case *sql.DB:
		if d.Dialect != dialectMySQL {
			break
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // it goes back to the pool, or is closed already
		return transactOn(ctx, conn, do)
	case *sql.Conn:
		if d.Dialect == dialectMySQL {
			return transactOn(ctx, pool, do)
		}
	}
	beginner, ok := d.Pool.(interface {
		BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	})
	if !ok {
		return do(d.Pool)
	}
	var opts *sql.TxOptions
	if d.Dialect == dialectMySQL {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead} // the session may read what is never committed
	}
	tx, err := beginner.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// transactOn does something in a transaction of MySQL on one connection, whatever its session is set to.
func transactOn(ctx context.Context, conn *sql.Conn, do func(Pool) error) error {
	_, err := sqlconn.Transact(ctx, conn, func(_ context.Context, q sqlconn.Querier) (struct{}, error) {
		return struct{}{}, do(q)
	})
	return err
}

// query reads all rows as text.
func query(ctx context.Context, q Pool, statement string, args ...any) (all [][]string, err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, dest := make([]string, len(names)), make([]any, len(names))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// placeholders are those of n arguments.
func (d Database) placeholders(n int) []string {
	p := make([]string, n)
	for i := range p {
		p[i] = "?"
		if d.Dialect == dialectPostgres {
			p[i] = "$" + strconv.Itoa(i+1)
		}
	}
	return p
}

// quote writes a name, whose parts are separated by dots.
func (d Database) quote(name string) string {
	mark := `"`
	if d.Dialect == dialectMySQL {
		mark = "`"
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = mark + strings.ReplaceAll(part, mark, mark+mark) + mark
	}
	return strings.Join(parts, ".")
}

// fit shortens a text that is for people to what the columns hold.
func fit(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?")
	for len(text) > maxText {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format(timeForm) }

// state returns the SQLSTATE of an error, as far as the driver tells it.
func state(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// IsMissing reports whether an error says that there is no such table. Each driver of SQLite and MySQL
// has a type of its own, so it is the text that tells.
func IsMissing(err error) bool {
	said := err.Error()
	return state(err) == "42P01" || strings.Contains(said, "no such table") ||
		strings.Contains(said, "Error 1146")
}

// isReadOnly reports whether an error says that nothing can be written to the whole database.
func isReadOnly(err error) bool {
	said := err.Error()
	return state(err) == "25006" || strings.Contains(said, "readonly database") ||
		strings.Contains(said, "Error 1290") || strings.Contains(said, "Error 1792") ||
		strings.Contains(said, "Error 1836") || strings.Contains(said, "Error 3989")
}

// isUnselected reports whether an error of MySQL or MariaDB says that the connection has no database.
func isUnselected(err error) bool { return strings.Contains(err.Error(), "Error 1046") }

// isBusy reports whether an error says that somebody else was writing, so that a retry helps.
func isBusy(err error) bool {
	said := err.Error()
	switch state(err) {
	case "40001", "40P01":
		return true
	}
	return errors.Is(err, sqlconn.ErrInTransaction) ||
		strings.Contains(said, "is locked") || strings.Contains(said, "SQLITE_BUSY") ||
		strings.Contains(said, "Error 1213") || strings.Contains(said, "Error 1205")
}
