package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
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
	if pool.Stats().MaxOpenConnections == 1 {
		pool.SetMaxOpenConns(2) // The lock of a target has a connection of its own.
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %s: %s", ErrOpen, name, dsn.Redact(err.Error(), text))
		return nil, errors.Join(err, pool.Close())
	}
	d := &DB{Name: name, pool: pool, conn: conn}
	if err = setUp(ctx, d, target); err == nil {
		err = readCatalog(ctx, d)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrOpen, name, err), d.Close())
	}
	return d, nil
}

// readCatalog reads the tables of a database, and what it holds besides the tables of its catalog. That is
// all that has a name without what the catalog has, so a kind that nobody has thought of is listed too.
func readCatalog(ctx context.Context, d *DB) (err error) {
	read := map[Kind]struct {
		tables  func(ctx context.Context, d *DB) (map[string]*Table, error)
		objects func(ctx context.Context, d *DB) error
	}{
		SQLite: {sqliteTables, sqliteObjects}, MySQL: {mysqlTables, mysqlObjects},
		PostgreSQL: {postgresTables, postgresObjects},
	}[d.Kind]
	if d.Tables, err = read.tables(ctx, d); err == nil {
		err = read.objects(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("reading the catalog failed: %w", err)
	}
	for _, t := range d.Tables {
		for _, name := range t.Triggers {
			d.Objects = append(d.Objects, Object{Kind: "trigger", Name: name, What: "of the table " + t.Name})
		}
	}
	slices.SortFunc(d.Objects, func(a, b Object) int {
		return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name)
	})
	return nil
}

// setUp detects the kind and sets what the merge relies on: times in UTC, text forms that can be read back,
// strict checking of values, and sources that cannot be written to.
func setUp(ctx context.Context, d *DB, target bool) error {
	kind, version, err := kindOf(ctx, d.conn)
	if err != nil {
		return fmt.Errorf("it is not SQLite, MySQL, MariaDB or PostgreSQL: %w", err)
	}
	d.Kind, d.version, d.TiDB = kind, version, strings.Contains(version, "TiDB")
	if kind == PostgreSQL {
		if err := refusePooler(ctx, d); err != nil {
			return err
		}
	}
	if d.TiDB && !target {
		return errors.New("it is TiDB, which has no sessions that only read, so a merge cannot promise to " +
			"leave it as it is; TiDB can be the target only")
	}
	settings := map[Kind][]string{
		SQLite: {"PRAGMA busy_timeout = 10000"},
		MySQL: {
			"SET NAMES utf8mb4", // A DSN that says charset=utf8 would read a question mark for an emoji.
			"SET SESSION time_zone = '+00:00'",
			// A login may get no more than so many rows of a query, and may update no row without its key.
			"SET SESSION sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_auto_is_null = 0",
			"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION," +
				// A game may have dates such as 2024-02-31, and they are to arrive.
				// MariaDB would take one answer of a subquery for another text that the subquery tells apart.
				"ALLOW_INVALID_DATES' /*M! , optimizer_switch = 'subquery_cache=off' */",
			// INSERT SELECT would lock the rows of the source under REPEATABLE READ.
			"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		},
		PostgreSQL: {
			"SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
			"SET bytea_output = 'hex'", "SET extra_float_digits = 1", "SET standard_conforming_strings = on",
			"SET array_nulls = on", "SET lc_monetary = 'C'",
			// All servers are asked at once. To start workers for that takes longer than to read a small table, and
			// a server whose game goes on needs its cores.
			"SET max_parallel_workers_per_gather = 0",
			// Policies that hide rows become an error: half of the rows would be merged otherwise.
			"SET row_security = off",
		},
	}[kind]
	role := map[Kind][]string{SQLite: {"PRAGMA query_only = 1"}, MySQL: {"SET SESSION TRANSACTION READ ONLY"},
		PostgreSQL: {"SET default_transaction_read_only = on"}}
	if target {
		role = map[Kind][]string{SQLite: {"PRAGMA query_only = 0", "PRAGMA foreign_keys = OFF"},
			MySQL:      {"SET SESSION foreign_key_checks = 0"},
			PostgreSQL: {"SET default_transaction_read_only = off"}}
	}
	for _, s := range slices.Concat(settings, role[kind], unlimited(kind)) {
		if err := d.Exec(ctx, s); err != nil {
			return fmt.Errorf("setting up the session failed: %w", err)
		}
	}
	adjust(ctx, d, target)
	err = d.Row(ctx, d.SQL(map[Kind]string{
		SQLite:     "SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'",
		MySQL:      "SELECT COALESCE(DATABASE(), '')",
		PostgreSQL: "SELECT COALESCE(current_schema(), '')",
	}[kind]), &d.Catalog)
	if err == nil && d.Catalog == "" && kind == MySQL {
		return errors.New("the DSN names no database")
	}
	return err
}

// refusePooler returns an error if a connection has no session of the server to itself, as with PgBouncer in
// transaction mode. The settings of a merge would stay with sessions that programs of the game get next. They
// could not write any more, and the temporary tables of the merge would be gone. Such a pooler gives a
// transaction the session that was free last, or another one than before.
func refusePooler(ctx context.Context, d *DB) error {
	const rounds = 4 // Others may take sessions meanwhile.
	shared, err := false, error(nil)
	for n := 0; n < rounds && err == nil && !shared; n++ {
		shared, err = sharesSession(ctx, d)
	}
	// The driver has prepared a statement in one session, and another one does not know it, or had it already.
	if state := dialect.State(err); shared || state == "42P05" || state == "26000" {
		return errors.New("its connections go through a pooler that gives each transaction another session, " +
			"such as PgBouncer in transaction mode, and what a merge sets for its session would meet the " +
			"programs of the game: name the server itself in the DSN, or a pooler in session mode")
	}
	if err != nil {
		return fmt.Errorf("looking for a pooler: %w", err)
	}
	return nil
}

// sharesSession reports whether two connections of a database had the same session, or whether one connection
// had two sessions.
func sharesSession(ctx context.Context, d *DB) (shared bool, err error) {
	other, err := d.pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	session, beside := d.SQL("SELECT pg_backend_pid()"), &DB{Name: d.Name, Kind: d.Kind, conn: other}
	first, err := d.Number(ctx, session)
	if err != nil {
		return false, err
	}
	err = beside.Transaction(ctx, func() error {
		others, err := beside.Number(ctx, session)
		if shared = others == first; err != nil || shared {
			return err
		}
		second, err := d.Number(ctx, session)
		shared = second != first
		return err
	})
	return shared, err
}

// unlimited returns the statements by which a session ends only with its connection, however long it waits
// for the other databases or for a statement of its own.
func unlimited(k Kind) []string {
	return map[Kind][]string{
		// The comment is for MariaDB alone. MySQL has a limit for SELECT, and reads the other one.
		MySQL: {"SET SESSION wait_timeout = 604800, net_write_timeout = 3600 " +
			"/*M! , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */"},
		PostgreSQL: {"SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', " +
			"'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout')"},
	}[k]
}

// adjust sets what only makes statements faster. A server that does not allow it does the same more slowly.
// The session of the target sorts and compares the keys of some hundred thousand rows in memory. With the
// defaults, which are meant for many sessions at a time, that goes through files and takes several times as
// long.
func adjust(ctx context.Context, d *DB, target bool) {
	room := map[Kind][]string{
		SQLite: {"PRAGMA main.cache_size = -8000", "PRAGMA temp.cache_size = -8000"},
		MySQL: {"SET SESSION sort_buffer_size = 33554432", "SET SESSION tmp_table_size = 134217728",
			"SET SESSION max_heap_table_size = 134217728"},
		PostgreSQL: {"SET work_mem = '64MB'", "SET temp_buffers = '64MB'"},
	}[d.Kind]
	if !target {
		room = nil
	}
	if d.Kind == MySQL { // To start threads takes longer than to count a small table. MariaDB has none of them.
		room = append(room, "SET SESSION innodb_parallel_read_threads = 1")
	}
	for _, s := range room {
		_ = d.Exec(ctx, s)
	}
}

// kindOf asks a database what it is.
func kindOf(ctx context.Context, conn *sql.Conn) (kind Kind, version string, err error) {
	if conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil {
		return SQLite, version, nil
	}
	err = conn.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	if strings.Contains(version, "PostgreSQL") {
		return PostgreSQL, version, err
	}
	return MySQL, version, err
}

// Lock makes sure that no other run works on this database, and returns the function that releases the lock.
// The lock belongs to a connection of its own, so the database releases it when the process dies. If another
// run holds it, the error is [ErrLocked].
func Lock(ctx context.Context, d *DB) (func() error, error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, d.failed(err)
	}
	l := &DB{Name: d.Name, Kind: d.Kind, Catalog: d.Catalog, conn: conn, pool: d.pool}
	for _, s := range unlimited(d.Kind) {
		if err := l.Exec(ctx, s); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	free := func() error { return nil }
	if d.Kind == SQLite {
		free, err = lockFile(ctx, l)
	} else {
		// The connection of a run that was killed may end a little later.
		free, err = lockBy(ctx, l, "merge "+d.Catalog, 5)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return errors.Join(free(), conn.Close()) }, nil
}

// lockBy takes the lock of the server that a text stands for. PostgreSQL has it for each database, and MySQL,
// which waits for it so many seconds, for all of its databases.
func lockBy(ctx context.Context, d *DB, text string, seconds int) (func() error, error) {
	sum := sha256.Sum256([]byte(text))
	name := fmt.Sprintf("merge_%x", sum[:16])
	key := int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any bits will do
	take, release := d.SQL("SELECT COALESCE(GET_LOCK(").Bind(name).Add(", ").Bind(seconds).Add("), 0)"),
		d.SQL("DO RELEASE_LOCK(").Bind(name).Add(")")
	if d.Kind == PostgreSQL {
		take, release = d.SQL("SELECT pg_try_advisory_lock(").Bind(key).Add(")::int"),
			d.SQL("SELECT pg_advisory_unlock(").Bind(key).Add(")")
	}
	n, err := d.Number(ctx, take)
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, ErrLocked
	}
	return func() error {
		return d.Exec(context.WithoutCancel(ctx), release.String(), release.Args...)
	}, nil
}

// lockFile holds a transaction open in a file beside the database; its lock ends with the process. The file
// is never removed, because another process may hold its lock by then.
func lockFile(ctx context.Context, d *DB) (func() error, error) {
	if d.Catalog == "" { // no other process can open a database in memory
		return func() error { return nil }, nil
	}
	attach := d.SQL("ATTACH DATABASE ").Bind(d.Catalog + "-merge-lock").Add(" AS merge_lock")
	if _, err := d.Run(ctx, attach); err != nil {
		return nil, err
	}
	release := func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(d.Exec(ctx, "ROLLBACK"), d.Exec(ctx, "DETACH DATABASE merge_lock"))
	}
	for _, text := range []string{
		"PRAGMA busy_timeout = 0", "BEGIN", "CREATE TABLE IF NOT EXISTS merge_lock.held (by INTEGER)",
		"INSERT INTO merge_lock.held VALUES (1)",
	} {
		if err := d.Exec(ctx, text); err != nil {
			if strings.Contains(err.Error(), "locked") {
				err = ErrLocked
			}
			_ = release() // the failure itself is reported
			return nil, err
		}
	}
	return release, nil
}
