package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
)

// Open opens a database, sets up the session and reads the catalog. Only a target can be written to. The
// error wraps [ErrOpen] and holds no DSN.
func Open(ctx context.Context, open func(ctx context.Context, dsn string) (*sql.DB, error), name, text string,
	target bool) (*DB, error) {
	pool, err := open(ctx, text)
	if err != nil {
		// Drivers tend to repeat the DSN, with its password, in their errors.
		return nil, fmt.Errorf("%w: %s: %s", ErrOpen, name, dsn.Redact(err.Error(), text))
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %s: %s", ErrOpen, name, dsn.Redact(err.Error(), text))
		return nil, errors.Join(err, pool.Close())
	}
	d := &DB{Name: name, pool: pool, conn: conn}
	if err := setUp(ctx, d, target); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := readCatalog(ctx, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// readCatalog reads the catalog.
func readCatalog(ctx context.Context, d *DB) error {
	var tables map[string]*Table
	var err error
	switch d.Kind {
	case SQLite:
		tables, err = sqliteTables(ctx, d)
	case MySQL:
		tables, err = mysqlTables(ctx, d)
	case PostgreSQL:
		tables, err = postgresTables(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("%s: reading the catalog failed: %w", d.Name, err)
	}
	d.Tables = tables
	if err := readObjects(ctx, d); err != nil {
		return fmt.Errorf("%s: reading the catalog failed: %w", d.Name, err)
	}
	return nil
}

// setUp detects the kind and sets what the merge relies on: times in UTC, text forms that can be read back,
// strict checking of values, and sources that cannot be written to.
func setUp(ctx context.Context, d *DB, target bool) error {
	kind, tidb, err := kindOf(ctx, d.conn)
	if err != nil {
		return fmt.Errorf("%w: %s: it is not SQLite, MySQL, MariaDB or PostgreSQL: %w", ErrOpen, d.Name,
			err)
	}
	d.Kind, d.TiDB = kind, tidb
	if tidb && !target {
		return fmt.Errorf("%w: %s: it is TiDB, which has no sessions that only read, so a merge cannot promise "+
			"to leave it as it is; TiDB can be the target only", ErrOpen, d.Name)
	}
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
			"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION," +
				// A game may have dates such as 2024-02-31, and they are to arrive.
				// MariaDB would take one answer of a subquery for another text that the subquery tells apart.
				"ALLOW_INVALID_DATES' /*M! , optimizer_switch = 'subquery_cache=off' */",
			// INSERT SELECT would lock the rows of the source under REPEATABLE READ.
			"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
			"SET SESSION TRANSACTION READ ONLY",
			// Whole tables are read by one statement, and the target may need a while for some of the rows.
			"SET SESSION net_write_timeout = 3600",
		}
		if target {
			settings[3] = "SET SESSION foreign_key_checks = 0"
		}
	case PostgreSQL:
		settings = []string{
			"SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
			"SET bytea_output = 'hex'", "SET extra_float_digits = 1", "SET standard_conforming_strings = on",
			"SET statement_timeout = 0",
			// Policies that hide rows become an error: half of the rows would be merged otherwise.
			"SET row_security = off", "SET default_transaction_read_only = on",
		}
		if target {
			settings[len(settings)-1] = "SET default_transaction_read_only = off"
		}
	}
	for _, s := range settings {
		if err := d.Exec(ctx, s); err != nil {
			return fmt.Errorf("%w: %s: setting up the session failed: %w", ErrOpen, d.Name, err)
		}
	}
	if target {
		makeRoom(ctx, d)
	}
	switch kind {
	case SQLite:
		err = d.Row(ctx, NewStatement(kind,
			"SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'"), &d.Catalog)
	case MySQL:
		err = d.Row(ctx, NewStatement(kind, "SELECT COALESCE(DATABASE(), '')"), &d.Catalog)
		if err == nil && d.Catalog == "" {
			err = errors.New("the DSN names no database")
		}
	case PostgreSQL:
		err = d.Row(ctx, NewStatement(kind, "SELECT COALESCE(current_schema(), '')"), &d.Catalog)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOpen, d.Name, err)
	}
	return nil
}

// makeRoom lets the session of the target sort and compare the keys of some hundred thousand rows in memory.
// With the defaults, which are meant for many sessions at a time, that goes through files and takes several
// times as long. A server that does not allow it does the same more slowly.
func makeRoom(ctx context.Context, d *DB) {
	for _, s := range map[Kind][]string{
		SQLite: {"PRAGMA main.cache_size = -8000", "PRAGMA temp.cache_size = -8000"},
		MySQL: {"SET SESSION sort_buffer_size = 33554432", "SET SESSION tmp_table_size = 134217728",
			"SET SESSION max_heap_table_size = 134217728"},
		// ANALYZE looks at a tenth of the rows that it would look at by itself, which is enough for a count.
		PostgreSQL: {"SET work_mem = '64MB'", "SET temp_buffers = '64MB'", "SET default_statistics_target = 10"},
	}[d.Kind] {
		_ = d.Exec(ctx, s)
	}
}

// kindOf asks a database what it is, and whether it is TiDB.
func kindOf(ctx context.Context, conn *sql.Conn) (kind Kind, tidb bool, err error) {
	var version string
	if conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil {
		return SQLite, false, nil
	}
	if err := conn.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", false, err
	}
	if strings.Contains(version, "PostgreSQL") {
		return PostgreSQL, false, nil
	}
	return MySQL, strings.Contains(version, "TiDB"), nil
}
