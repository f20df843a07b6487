package dbtest

import (
	"context"
	"testing"
)

// Exists tells whether the server of a target still has the database or schema of a DSN.
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

// AdminPools returns how many databases of the target's server are held, and whether the
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

// AdminDSN is the DSN that creates databases. It is for building others from; never log it.
func (t Target) AdminDSN(tb testing.TB) string {
	tb.Helper()
	return t.server(tb).dsn
}

// PostgresDSNAs makes a database as if dsn had been in the environment.
func PostgresDSNAs(tb testing.TB, dsn string) string {
	tb.Helper()
	return (&server{flavor: postgresFlavor(), dsn: dsn}).database(tb)
}

// Demand tells a test that looking for PostgreSQL ended with err.
func Demand(tb testing.TB, err error) {
	tb.Helper()
	demand(tb, postgresFlavor(), err)
}

// PostgresDSN sets one setting of a DSN.
func PostgresDSN(dsn, key, value string) (string, error) { return pgDSN(dsn, key, value) }

// MySQLDSN appends the parameters of the options to a DSN.
func MySQLDSN(dsn string, opts ...Option) string { return settingsOf(opts).mysqlDSN(dsn) }
