package dbtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
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
	nameMySQL              = "mysql"
	nameTiDB               = "tidb"

	dialectSQLite   = "sqlite"
	dialectPostgres = "postgres"
	dialectMySQL    = "mysql"
)

// A Target is one database, opened in one way, that tests run on. The zero value is no target;
// take one from [Targets] or [Each]. It is a plain value and safe for concurrent use.
type Target struct {
	Name    string // "sqlite", "postgres", "mariadb", "mariadb-noreturning", "mysql" or "tidb"
	Dialect string // what GORM calls the dialect: "sqlite", "postgres" or "mysql"

	home    *home // if not nil, DSN creates a schema in it instead of a database
	trusted bool  // the login of MySQL may create triggers
}

// Targets lists every target, including those whose server is absent. TiDB is the last one, and is only
// there if its variable is set.
func Targets() []Target {
	all := []Target{
		{Name: nameSQLite, Dialect: dialectSQLite},
		{Name: namePostgres, Dialect: dialectPostgres},
		{Name: nameMariaDB, Dialect: dialectMySQL},
		{Name: nameMariaDBNoReturning, Dialect: dialectMySQL},
		{Name: nameMySQL, Dialect: dialectMySQL},
	}
	if os.Getenv(variableTiDB) != "" {
		all = append(all, Target{Name: nameTiDB, Dialect: dialectMySQL})
	}
	return all
}

// Servers lists one target for each kind of server. It is for tests that do not depend on how GORM
// reads rows back, which is all that distinguishes the other targets.
func Servers() []Target {
	return slices.DeleteFunc(Targets(), func(t Target) bool { return t.Name == nameMariaDBNoReturning })
}

// ServersOf lists the targets of [Servers] that have a dialect.
func ServersOf(dialect string) []Target {
	return slices.DeleteFunc(Servers(), func(t Target) bool { return t.Dialect != dialect })
}

// Named returns the target with a name. It panics if there is none, because that is a bug in the test.
func Named(name string) Target {
	for _, t := range Targets() {
		if t.Name == name {
			return t
		}
	}
	panic("dbtest: no target is called " + name)
}

// TiDB returns the target of TiDB, for tests of what only TiDB has. It skips the test if the variable of TiDB
// is not set.
func TiDB(tb testing.TB) Target {
	tb.Helper()
	for _, t := range Targets() {
		if t.Name == nameTiDB {
			return t
		}
	}
	tb.Skipf("dbtest: %s is not set; \"make tidb\" runs this test", variableTiDB)
	return Target{}
}

// Each runs fn in one parallel sub-test for each target that [Chosen] returns for t. The sub-test is named
// after the target. Like all parallel sub-tests, they start when the body of t has returned.
func Each(t *testing.T, fn func(t *testing.T, target Target)) {
	t.Helper()
	Run(t, Chosen(t.Name(), Targets()), fn)
}

// EachServer is [Each] for the targets of [Servers].
func EachServer(t *testing.T, fn func(t *testing.T, target Target)) {
	t.Helper()
	Run(t, Chosen(t.Name(), Servers()), fn)
}

// Run runs fn in one parallel sub-test for each of the targets, in both tiers. It is for tests of what
// differs from database to database.
func Run(t *testing.T, targets []Target, fn func(t *testing.T, target Target)) {
	t.Helper()
	for _, target := range targets {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			fn(t, target)
		})
	}
}

// EachShared is [Each] with targets from [Target.Shared]. Each target is shared within its
// sub-test.
func EachShared(t *testing.T, fn func(t *testing.T, target Target)) {
	t.Helper()
	Each(t, func(t *testing.T, target Target) {
		t.Helper()
		fn(t, target.Shared(t))
	})
}

// Shared returns the target for tests that create many databases and look only at their tables. A
// database of PostgreSQL is slow to create and to connect to for the first time. On PostgreSQL the
// returned target therefore creates schemas in one database, which is dropped when the test ends.
// The schemas share what PostgreSQL keeps for each database, such as advisory locks and the list of
// sessions. Shared returns the other targets unchanged.
func (t Target) Shared(tb testing.TB) Target {
	tb.Helper()
	if t.Dialect == dialectPostgres && t.home == nil {
		t.home = newHome(tb, t.DSN(tb))
	}
	return t
}

// Privileged returns the target with a login that may create triggers. On MySQL with its binary log, the
// usual login may not, like that of most applications. On other databases it is the same target.
func (t Target) Privileged() Target {
	t.trusted = t.Name == nameMySQL
	return t
}

// Open returns a handle on a fresh, empty database, which is closed and dropped when the test
// ends. It is [Target.DSN] followed by [Target.OpenDSN].
func (t Target) Open(tb testing.TB, cfg *gorm.Config, opts ...Option) *gorm.DB {
	tb.Helper()
	return t.OpenDSN(tb, t.DSN(tb), cfg, opts...)
}

// OpenDSN returns a handle on the database of a DSN that [Target.DSN] returned. A test can open
// several handles on one database in this way. The handle is closed when the test ends. Foreign
// keys are enforced on every target.
//
// GORM keeps cfg and writes to it. Give each handle its own cfg unless the test is about sharing
// one. A nil cfg means an empty one. If cfg has no logger, nothing is logged. An error ends the
// test. A test of the error of gorm.Open calls gorm.Open itself with [Target.Dialector].
func (t Target) OpenDSN(tb testing.TB, dsn string, cfg *gorm.Config, opts ...Option) *gorm.DB {
	tb.Helper()
	if cfg == nil {
		cfg = &gorm.Config{}
	}
	if cfg.Logger == nil {
		cfg.Logger = logger.Discard
	}
	if t.Dialect == dialectPostgres {
		t.server(tb).admit(tb)
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	var db *gorm.DB
	err := retryWhileBusy(ctx, func() (err error) {
		db, err = gorm.Open(t.Dialector(dsn, opts...), cfg)
		return err
	})
	if err != nil {
		tb.Fatalf("dbtest: opening %s: %v", t.Name, err)
	}
	// The pool is taken now and not in the cleanup, because a test may have replaced it by then.
	// This is the pool that must be closed.
	pool, err := db.DB()
	if err != nil {
		tb.Fatalf("dbtest: getting the pool of %s: %v", t.Name, err)
	}
	tb.Cleanup(func() {
		if err := pool.Close(); err != nil {
			tb.Errorf("dbtest: closing %s: %v", t.Name, err)
		}
	})
	limit := settingsOf(opts).maxOpenConns
	pool.SetMaxOpenConns(limit)
	// The pool keeps every open connection for a while when it is idle. Otherwise bursts would keep
	// reconnecting. Another test may be waiting for it, so it is not kept for long.
	pool.SetMaxIdleConns(max(limit, 0))
	pool.SetConnMaxIdleTime(2 * time.Second)
	return db
}

// DSN creates a new, empty database and returns its DSN, for example for a second handle, for the
// driver itself or for another process. The database is dropped when the test ends, even if there
// are open connections to it. The DSN may hold a password, so it must not be logged.
//
// If the server does not answer, DSN skips the test and names the variable to set. If the server is
// required, DSN fails the test instead.
func (t Target) DSN(tb testing.TB) string {
	tb.Helper()
	if t.Dialect == dialectSQLite {
		return newSQLite(tb)
	}
	if t.home != nil {
		return t.home.schema(tb)
	}
	s := t.server(tb)
	if t.Name == nameMariaDBNoReturning && !isMariaDB(s.version) {
		tb.Skipf("dbtest: the server is %s, which never has RETURNING; %s covers it", s.version, nameMariaDB)
	}
	return s.database(tb)
}

// Connections returns the numbers of the connections to the database of db, without the one that asks.
// The pool of db must not use more than one.
func (t Target) Connections(tb testing.TB, db *gorm.DB) (ids []int64) {
	tb.Helper()
	pool, err := db.DB()
	if err != nil {
		tb.Fatal(err)
	}
	query := "SELECT pg_backend_pid(), current_database()"
	if t.Dialect == dialectMySQL {
		query = "SELECT connection_id(), database()"
	}
	var own int64
	var database string
	if err := pool.QueryRowContext(tb.Context(), query).Scan(&own, &database); err != nil {
		tb.Fatal(err)
	}
	switch t.Dialect {
	case dialectMySQL:
		ids, err = mysqlConnections(tb.Context(), pool, database)
	case dialectPostgres:
		err = db.Raw("SELECT pid FROM pg_stat_activity WHERE datname = ?", database).Scan(&ids).Error
	}
	if err != nil {
		tb.Fatal(err)
	}
	return slices.DeleteFunc(ids, func(id int64) bool { return id == own })
}

// Dialector returns the dialect of the target for a DSN that [Target.DSN] returned. Only the option
// [DSNParam] has an effect here, because the others concern the pool. Dialector panics on a Target
// that this package did not create, because that is a bug in the test itself.
func (t Target) Dialector(dsn string, opts ...Option) gorm.Dialector {
	switch t.Dialect {
	case dialectSQLite:
		return sqlite.Open(dsn)
	case dialectPostgres:
		if path := settingsOf(opts).searchPath; path != "" {
			var err error
			if dsn, err = pgDSN(dsn, "search_path", path); err != nil {
				panic("dbtest: the DSN is not one of PostgreSQL")
			}
		}
		return postgres.Open(dsn)
	case dialectMySQL:
		beginPatience()
		return mysql.New(mysql.Config{
			DSN:                  settingsOf(opts).mysqlDSN(dsn),
			DisableWithReturning: t.Name == nameMariaDBNoReturning,
		})
	}
	panic("dbtest: the Target is not one of Targets()")
}

// IsMySQL reports whether the target's server is MySQL and neither MariaDB nor TiDB, whatever the target is
// called. Like [Target.DSN], it skips or fails the test if the server does not answer.
func (t Target) IsMySQL(tb testing.TB) bool {
	tb.Helper()
	return t.Dialect == dialectMySQL && isMySQL(t.server(tb).version)
}

// IsTiDB is [Target.IsMySQL] for TiDB.
func (t Target) IsTiDB(tb testing.TB) bool {
	tb.Helper()
	return t.Dialect == dialectMySQL && isTiDB(t.server(tb).version)
}

// server returns the server of the target. Without a server it skips or fails the test.
func (t Target) server(tb testing.TB) *server {
	tb.Helper()
	find, f := postgresServer, postgresFlavor()
	switch t.Name {
	case nameMariaDB, nameMariaDBNoReturning:
		find, f = mariadbServer, mariadbFlavor()
	case nameMySQL:
		find, f = mysqlServer, mysqlFlavor()
		if t.trusted {
			find, f = mysqlTrusted, mysqlTrustedFlavor()
		}
	case nameTiDB:
		find, f = tidbServer, tidbFlavor()
	}
	s, err := find()
	demand(tb, f, err)
	return s
}

// Login makes a user of the server who may connect to the database of a DSN and do nothing there, until the
// test ends. It returns the user as GRANT wants it, its password, and the DSN with both. The test is skipped
// if the login of admin may not make users.
func (t Target) Login(tb testing.TB, admin *gorm.DB, dsn string) (user, password, login string) {
	tb.Helper()
	exec := func(statement string) {
		tb.Helper()
		if err := admin.Exec(statement).Error; err != nil {
			tb.Errorf("%s: %v", statement, err)
		}
	}
	name := "snowflakerole_" + strings.ToLower(rand.Text()[:12])
	password = rand.Text()
	if t.Dialect == dialectPostgres {
		if err := admin.Exec("CREATE ROLE " + name + " LOGIN PASSWORD '" + password + "'").Error; err != nil {
			tb.Skipf("the login of the tests may not create roles: %v", err)
		}
		tb.Cleanup(func() {
			// PostgreSQL keeps the role as long as it has rights somewhere.
			exec("DROP OWNED BY " + name)
			exec("DROP ROLE " + name)
		})
		if !strings.Contains(dsn, "://") {
			return name, password, dsn + " user=" + name + " password=" + password
		}
		u, err := url.Parse(dsn)
		if err != nil {
			tb.Fatal("the DSN is not a URL")
		}
		u.User = url.UserPassword(name, password)
		return name, password, u.String()
	}
	user = "'" + name + "'@'%'"
	if err := admin.Exec("CREATE USER " + user + " IDENTIFIED BY '" + password + "'").Error; err != nil {
		tb.Skipf("the login of the tests may not create users: %v", err)
	}
	tb.Cleanup(func() { exec("DROP USER " + user) })
	cfg, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		tb.Fatal("the DSN is not one of the mysql driver")
	}
	// Some right on the database is needed to connect to it.
	exec("GRANT DROP ON `" + cfg.DBName + "`.* TO " + user)
	cfg.User, cfg.Passwd = name, password
	return user, password, cfg.FormatDSN()
}
