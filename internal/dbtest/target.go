package dbtest

import (
	"testing"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// The names of the targets, and the dialects that GORM calls them by.
const (
	nameSQLite             = "sqlite"
	namePostgres           = "postgres"
	nameMariaDB            = "mariadb"
	nameMariaDBNoReturning = "mariadb-noreturning"

	dialectSQLite   = "sqlite"
	dialectPostgres = "postgres"
	dialectMySQL    = "mysql"
)

// A Target is one database, opened in one way, that tests run on. The zero value is no target;
// take one from [Targets] or [Each]. It is a plain value and safe for concurrent use.
type Target struct {
	Name    string // "sqlite", "postgres", "mariadb" or "mariadb-noreturning"
	Dialect string // what GORM calls the dialect: "sqlite", "postgres" or "mysql"
}

// Targets lists every target, those whose server is absent included.
func Targets() []Target {
	return []Target{
		{Name: nameSQLite, Dialect: dialectSQLite},
		{Name: namePostgres, Dialect: dialectPostgres},
		{Name: nameMariaDB, Dialect: dialectMySQL},
		{Name: nameMariaDBNoReturning, Dialect: dialectMySQL},
	}
}

// Each runs fn as one sub-test a target, named after the target, in parallel with its siblings.
// Like every parallel sub-test they start when the body of t has returned.
func Each(t *testing.T, fn func(t *testing.T, target Target)) {
	t.Helper()
	for _, target := range Targets() {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			fn(t, target)
		})
	}
}

// Open returns a handle on a fresh, empty database, which is closed and dropped when the test
// ends. It is [Target.DSN] followed by [Target.OpenDSN].
func (t Target) Open(tb testing.TB, cfg *gorm.Config, opts ...Option) *gorm.DB {
	tb.Helper()
	return t.OpenDSN(tb, t.DSN(tb), cfg, opts...)
}

// OpenDSN returns a handle on the database of a DSN that came from [Target.DSN], so that a test
// can hold several handles on one database. The handle is closed when the test ends. Foreign
// keys are enforced on every target.
//
// GORM keeps cfg and writes to it, so give each handle a value of its own unless sharing one is
// what the test is about. A nil cfg is an empty one, and where it names no logger nothing is
// logged. An error ends the test; to look at the error of gorm.Open itself, call that with
// [Target.Dialector].
func (t Target) OpenDSN(tb testing.TB, dsn string, cfg *gorm.Config, opts ...Option) *gorm.DB {
	tb.Helper()
	if cfg == nil {
		cfg = &gorm.Config{}
	}
	if cfg.Logger == nil {
		cfg.Logger = logger.Discard
	}
	db, err := gorm.Open(t.Dialector(dsn, opts...), cfg)
	if err != nil {
		tb.Fatalf("dbtest: opening %s: %v", t.Name, err)
	}
	// The pool is taken now, not in the clean-up: by then a test may have put another one in its
	// place, and this is the one that is ours to close.
	pool, err := db.DB()
	if err != nil {
		tb.Fatalf("dbtest: the pool of %s: %v", t.Name, err)
	}
	tb.Cleanup(func() {
		if err := pool.Close(); err != nil {
			tb.Errorf("dbtest: closing %s: %v", t.Name, err)
		}
	})
	limit := settingsOf(opts).maxOpenConns
	pool.SetMaxOpenConns(limit)
	// As many idle ones as open ones, or bursts would spend their time on connecting.
	pool.SetMaxIdleConns(max(limit, 0))
	return db
}

// DSN makes a fresh, empty database that is dropped when the test ends, even with connections
// left on it, and returns its DSN: for a second handle, for the driver itself, for another
// process. It may hold a password, so it must not be logged.
//
// It skips the test, saying which variable to set, if the server does not answer, and fails it if
// the server is required.
func (t Target) DSN(tb testing.TB) string {
	tb.Helper()
	if t.Dialect == dialectSQLite {
		return sqliteDSN(tb.TempDir())
	}
	s := t.server(tb)
	if t.Name == nameMariaDB && !s.mariadb() {
		tb.Skipf("dbtest: the server is %s, which has no RETURNING; %s covers it",
			s.version, nameMariaDBNoReturning)
	}
	return s.database(tb)
}

// Dialector returns the dialect of the target for a DSN that came from [Target.DSN]. Of the
// options only [DSNParam] matters here, the others concern the pool. It panics on a Target that
// did not come from this package, because that is a fault of the test's own code.
func (t Target) Dialector(dsn string, opts ...Option) gorm.Dialector {
	switch t.Dialect {
	case dialectSQLite:
		return sqlite.Open(dsn)
	case dialectPostgres:
		return postgres.Open(dsn)
	case dialectMySQL:
		return mysql.New(mysql.Config{
			DSN:                  settingsOf(opts).mysqlDSN(dsn),
			DisableWithReturning: t.Name == nameMariaDBNoReturning,
		})
	}
	panic("dbtest: a Target that is not one of Targets()")
}

// server is the one that serves the target. It ends the test, with a skip or a failure, where
// there is none.
func (t Target) server(tb testing.TB) *server {
	tb.Helper()
	find, f := postgresServer, postgresFlavor()
	if t.Dialect == dialectMySQL {
		find, f = mariadbServer, mariadbFlavor()
	}
	s, err := find()
	demand(tb, f, err)
	return s
}
