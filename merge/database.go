package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Opener opens the database that a DSN of the plan names, with a driver that the caller has registered:
// usually it is one call of sql.Open behind a look at the DSN. The merge closes what it gets.
type Opener func(ctx context.Context, dsn string) (*sql.DB, error)

// database is one database and the one connection to it that the merge works on. The settings of the
// session, temporary tables and transactions belong to that connection.
type database struct {
	name   string // as in the plan
	kind   Kind
	pool   *sql.DB
	conn   *sql.Conn
	tables map[string]*table
	// catalog is the schema on MySQL and the file on SQLite: where a target of the same kind finds it.
	catalog string
}

func openDatabase(ctx context.Context, open Opener, name, dsn string, target bool) (*database, error) {
	pool, err := open(ctx, dsn)
	if err != nil {
		// Drivers like to repeat the DSN in their errors, password and all.
		return nil, fmt.Errorf("%w: %s: %s", ErrOpen, name, redact(err.Error(), dsn))
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %s", ErrOpen, name, redact(err.Error(), dsn)), pool.Close())
	}
	d := &database{name: name, pool: pool, conn: conn}
	if err := d.setUp(ctx, target); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// redact takes the DSN, and the password in it, out of a message.
func redact(message, dsn string) string {
	message = strings.ReplaceAll(message, dsn, "(dsn)")
	if u, err := url.Parse(dsn); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok && password != "" {
			message = strings.ReplaceAll(message, password, "xxx")
		}
	}
	if login, _, ok := strings.Cut(dsn, "@"); ok {
		if _, password, ok := strings.Cut(login, ":"); ok && password != "" {
			message = strings.ReplaceAll(message, password, "xxx")
		}
	}
	return message
}

// setUp finds out the kind and makes the session what the merge relies on: UTC, texts that can be read
// back, strictness, and no writing to sources.
func (d *database) setUp(ctx context.Context, target bool) error {
	kind, err := kindOf(ctx, d.conn)
	if err != nil {
		return fmt.Errorf("%w: %s: it is none of SQLite, MySQL, MariaDB and PostgreSQL: %w", ErrOpen, d.name,
			err)
	}
	d.kind = kind
	var settings []string
	switch kind {
	case SQLite:
		settings = []string{"PRAGMA busy_timeout = 10000", "PRAGMA query_only = 1"}
		if target {
			settings = []string{"PRAGMA busy_timeout = 10000", "PRAGMA query_only = 0",
				"PRAGMA foreign_keys = OFF"}
		}
	case MySQL:
		settings = []string{
			"SET SESSION time_zone = '+00:00'",
			"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'",
			// INSERT SELECT would lock the rows of the source under REPEATABLE READ.
			"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
			"SET SESSION TRANSACTION READ ONLY",
		}
		if target {
			settings[3] = "SET SESSION foreign_key_checks = 0"
		}
	case PostgreSQL:
		settings = []string{
			"SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
			"SET bytea_output = 'hex'", "SET extra_float_digits = 1", "SET standard_conforming_strings = on",
			"SET statement_timeout = 0", "SET default_transaction_read_only = on",
		}
		if target {
			settings[7] = "SET default_transaction_read_only = off"
		}
	}
	for _, s := range settings {
		if err := d.exec(ctx, s); err != nil {
			return fmt.Errorf("%w: %s: the session cannot be set up: %w", ErrOpen, d.name, err)
		}
	}
	switch kind {
	case SQLite:
		err = d.row(ctx, newStatement(kind,
			"SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'"), &d.catalog)
	case MySQL:
		err = d.row(ctx, newStatement(kind, "SELECT COALESCE(DATABASE(), '')"), &d.catalog)
		if err == nil && d.catalog == "" {
			err = errors.New("the DSN names no database")
		}
	case PostgreSQL:
		err = d.row(ctx, newStatement(kind, "SELECT COALESCE(current_schema(), '')"), &d.catalog)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOpen, d.name, err)
	}
	return nil
}

func kindOf(ctx context.Context, conn *sql.Conn) (Kind, error) {
	var version string
	if conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil {
		return SQLite, nil
	}
	if err := conn.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", err
	}
	if strings.Contains(version, "PostgreSQL") {
		return PostgreSQL, nil
	}
	return MySQL, nil
}

func (d *database) close() error {
	err := d.conn.Close()
	if errors.Is(err, sql.ErrConnDone) { // it was lost, or its context has ended
		err = nil
	}
	return errors.Join(err, d.pool.Close())
}

// failed says in which database a statement failed.
func (d *database) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDatabase, d.name, err)
}

func (d *database) exec(ctx context.Context, text string, args ...any) error {
	_, err := d.conn.ExecContext(ctx, text, args...)
	return d.failed(err)
}

// run executes a statement and returns the number of its rows.
func (d *database) run(ctx context.Context, s *statement) (int64, error) {
	result, err := d.conn.ExecContext(ctx, s.String(), s.args...)
	if err != nil {
		return 0, d.failed(err)
	}
	n, err := result.RowsAffected()
	return n, d.failed(err)
}

// row reads the one row of an answer.
func (d *database) row(ctx context.Context, s *statement, into ...any) error {
	err := d.conn.QueryRowContext(ctx, s.String(), s.args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return d.failed(err)
}

// each calls fn for every row of an answer. The values are those of the driver and are fn's to keep.
func (d *database) each(ctx context.Context, s *statement, fn func(values []any) error) (err error) {
	rows, err := d.conn.QueryContext(ctx, s.String(), s.args...)
	if err != nil {
		return d.failed(err)
	}
	defer func() { err = errors.Join(err, d.failed(rows.Close())) }()
	columns, err := rows.Columns()
	if err != nil {
		return d.failed(err)
	}
	into := make([]any, len(columns))
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
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

// strings reads an answer whose columns are all texts; NULL is "".
func (d *database) strings(ctx context.Context, s *statement) ([][]string, error) {
	var all [][]string
	err := d.each(ctx, s, func(values []any) error {
		texts := make([]string, len(values))
		for i, v := range values {
			if v != nil {
				texts[i] = textOf(v)
			}
		}
		all = append(all, texts)
		return nil
	})
	return all, err
}

// number reads one number.
func (d *database) number(ctx context.Context, s *statement) (int64, error) {
	var n int64
	err := d.row(ctx, s, &n)
	return n, err
}

// transaction runs fn between BEGIN and COMMIT on the connection.
func (d *database) transaction(ctx context.Context, fn func() error) error {
	begin := "BEGIN"
	if d.kind == SQLite {
		begin = "BEGIN IMMEDIATE" // a read that turns into a write could not wait for its turn
	}
	if err := d.exec(ctx, begin); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		if err = d.exec(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// The context may be the reason; the transaction has to end all the same.
	return errors.Join(err, d.exec(context.WithoutCancel(ctx), "ROLLBACK"))
}
