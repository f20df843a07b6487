package dbtest

import (
	"context"
	"testing"
)

// Exists reports whether the server of a target still has the database or schema with a name.
func (t Target) Exists(tb testing.TB, name string) bool {
	tb.Helper()
	s := t.server(tb)
	query := `SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?`
	if t.Dialect == dialectPostgres {
		query = `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) +
			(SELECT count(*) FROM pg_namespace WHERE nspname = $1)`
	}
	admin, err := s.acquire()
	if err != nil {
		tb.Fatal(err)
	}
	defer s.release(tb)
	var n int
	if err := admin.QueryRowContext(context.Background(), query, name).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n > 0
}

// AdminPools returns how many databases of the target's server are in use, and whether the
// administrator's pool is open.
func (t Target) AdminPools(tb testing.TB) (uses int, open bool) {
	tb.Helper()
	s := t.server(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses, s.pool != nil
}

// Admin runs a statement as the login that creates databases.
func (t Target) Admin(tb testing.TB, statement string) error {
	tb.Helper()
	s := t.server(tb)
	admin, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(tb)
	_, err = admin.ExecContext(context.Background(), statement)
	return err
}

// AdminDSN returns the DSN of the login that creates databases. Tests derive other DSNs from it and
// must never log it.
func (t Target) AdminDSN(tb testing.TB) string {
	tb.Helper()
	return t.server(tb).dsn
}

// PostgresDSNAs creates a database as if dsn had been set in the environment.
func PostgresDSNAs(tb testing.TB, dsn string) string {
	tb.Helper()
	return (&server{flavor: postgresFlavor(), dsn: dsn}).database(tb)
}

// Demand ends a test as if the search for PostgreSQL had returned err.
func Demand(tb testing.TB, err error) {
	tb.Helper()
	demand(tb, postgresFlavor(), err)
}

// PostgresDSN returns a DSN with one setting replaced.
func PostgresDSN(dsn, key, value string) (string, error) { return pgDSN(dsn, key, value) }

// MySQLDSN appends the parameters of the options to a DSN.
func MySQLDSN(dsn string, opts ...Option) string { return settingsOf(opts).mysqlDSN(dsn) }
