package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// These errors are returned by [Ping].
var (
	// ErrAbsent is returned if no server listens, or if the server is still starting up.
	ErrAbsent = errors.New("dbtest: the server does not answer")
	// ErrRefused is returned if a server listens but refuses every login.
	ErrRefused = errors.New("dbtest: the server answers but takes no login")
)

const (
	// pingTimeout limits the search for a server, and adminTimeout limits a CREATE or DROP. Both
	// are far longer than a loaded machine needs. They only prevent a dead server from blocking a
	// test run.
	pingTimeout  = 5 * time.Second
	adminTimeout = time.Minute

	// driverPgx is the driver of PostgreSQL.
	driverPgx    = "pgx"
	driverSQLite = "sqlite3"
)

// A flavor describes one kind of server.
type flavor struct {
	name     string   // its name in SNOWFLAKE_REQUIRE
	driver   string   // its driver name in database/sql
	variable string   // the environment variable that holds the DSN
	logins   []string // DSNs to try in order if the variable is not set; all have one address

	// parse reads a DSN. Its error may quote parts of the DSN, so it must not be shown.
	parse func(dsn string) error
	// suits reports whether a server of this version is meant. If it is nil, every server is.
	suits func(version string) bool
	// starting reports whether an error means that the server will be ready soon.
	starting func(error) bool
	// create creates a database and returns its DSN and a function that drops it.
	create func(ctx context.Context, s *server, admin *sql.DB, name string) (string, dropFunc, error)
}

// A dropFunc drops one database even if there are open connections to it.
type dropFunc func(ctx context.Context, admin *sql.DB) error

// A server is a database server that answered.
type server struct {
	flavor  flavor
	dsn     string // the DSN of a login that may create databases; never to be logged
	version string // the version that the server reports

	mu   sync.Mutex // guards the rest
	pool *sql.DB    // open while uses > 0, so an idle process holds no connection
	uses int
	seen bool // what was left on the server has been looked for
}

// Without a server, the search takes up to pingTimeout, so a process searches only once.
//
//nolint:gochecknoglobals // memoized functions; nothing writes to them
var (
	postgresServer = sync.OnceValues(func() (*server, error) { return lookup(postgresFlavor()) })
	mariadbServer  = sync.OnceValues(func() (*server, error) { return lookup(mariadbFlavor()) })
	mysqlServer    = sync.OnceValues(func() (*server, error) { return lookup(mysqlFlavor()) })
	mysqlTrusted   = sync.OnceValues(func() (*server, error) { return lookup(mysqlTrustedFlavor()) })
	tidbServer     = sync.OnceValues(func() (*server, error) { return lookup(tidbFlavor()) })
)

func lookup(f flavor) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	return find(ctx, f)
}

// Ping looks for the server called "postgres", "mariadb", "mysql" or "tidb" in the same way as the tests, and
// returns the version that it reports. The error wraps [ErrAbsent] or [ErrRefused]. It wraps neither
// if the name is unknown, if the DSN in the environment is invalid, or if it leads to another kind of
// server. The error never contains a DSN.
func Ping(ctx context.Context, name string) (string, error) {
	for _, f := range []flavor{postgresFlavor(), mariadbFlavor(), mysqlFlavor(), tidbFlavor()} {
		if f.name == name {
			s, err := find(ctx, f)
			if err != nil {
				return "", err
			}
			return s.version, nil
		}
	}
	return "", fmt.Errorf("dbtest: unknown server %q: use %s, %s, %s or %s",
		name, namePostgres, nameMariaDB, nameMySQL, nameTiDB)
}

// find tries the DSN in the flavor's variable, or else the logins of the flavor until one works.
func find(ctx context.Context, f flavor) (*server, error) {
	logins := f.logins
	if dsn := os.Getenv(f.variable); dsn != "" {
		if f.parse(dsn) != nil {
			return nil, fmt.Errorf("dbtest: %s: the driver cannot read the DSN in %s", f.name, f.variable)
		}
		logins = []string{dsn}
	}
	var refused []error
	for _, dsn := range logins {
		version, err := greet(ctx, f.driver, dsn)
		if err == nil {
			if f.suits != nil && !f.suits(version) {
				return nil, fmt.Errorf("dbtest: the server is %s and not %s; set %s to another one",
					version, f.name, f.variable)
			}
			return &server{flavor: f, dsn: dsn, version: version}, nil
		}
		// The logins share one address, so the next login would get the same error.
		if silent(err) || f.starting(err) {
			return nil, fmt.Errorf("%w: %s: %w", ErrAbsent, f.name, err)
		}
		refused = append(refused, err)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrRefused, f.name, errors.Join(refused...))
}

// silent reports whether an error means that no server answered. The connection was refused, timed
// out, or was closed without any data, which the port of a container does until its server is
// ready.
func silent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func greet(ctx context.Context, driverName, dsn string) (version string, err error) {
	pool, err := sql.Open(driverName, dsn)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	err = pool.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	return version, err
}

// demand ends the test if err says that no server was found. The test is skipped, or it fails if
// the server is required or its variable is set.
func demand(tb testing.TB, f flavor, err error) {
	tb.Helper()
	must, badWord := servers.Required(f.name)
	if badWord != nil {
		tb.Fatal(badWord)
	}
	switch {
	case err == nil:
	case os.Getenv(f.variable) != "":
		tb.Fatalf("%v\n%s is set, so the server must answer", err, f.variable)
	case must:
		tb.Fatalf("%v\n%s names %s, so it must answer: start it, or set %s",
			err, servers.RequireVariable, f.name, f.variable)
	default:
		tb.Skipf("%v\nskipped; to run this test, start the server or set %s", err, f.variable)
	}
}

// database creates a database for the test and drops it when the test ends.
func (s *server) database(tb testing.TB) string {
	tb.Helper()
	admin, err := s.acquire()
	if err != nil {
		tb.Fatalf("dbtest: %s: %v", s.flavor.name, err)
	}
	// The context of the test is canceled before its cleanup runs, so it cannot be used here.
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	s.clean(ctx, admin)
	one, found := s.takeSpare()
	if !found {
		name := newName()
		if one.dsn, one.drop, err = s.flavor.create(ctx, s, admin, name); err != nil {
			s.release(tb)
			tb.Fatalf("dbtest: creating a database on %s: %v", s.flavor.name, err)
		}
	}
	tb.Cleanup(func() {
		defer s.release(tb)
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		if s.giveBack(ctx, tb, one) {
			return
		}
		if err := one.drop(ctx, admin); err != nil {
			tb.Errorf("dbtest: dropping a database on %s: %v", s.flavor.name, err)
		}
	})
	return one.dsn
}

// clean drops what was left on the server, before the first database of this process.
func (s *server) clean(ctx context.Context, admin *sql.DB) {
	s.mu.Lock()
	seen := s.seen
	s.seen = true
	s.mu.Unlock()
	if !seen {
		s.dropLeftovers(ctx, admin)
	}
}

// acquire returns the pool that creates and drops databases. A process has one such pool. It is
// open as long as any test uses a database.
func (s *server) acquire() (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool == nil {
		beginPatience()
		pool, err := sql.Open(s.flavor.driver, s.dsn)
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(2)
		s.pool = pool
	}
	s.uses++
	return s.pool, nil
}

// release is leave in a test.
func (s *server) release(tb testing.TB) {
	tb.Helper()
	if err := s.leave(); err != nil {
		tb.Errorf("dbtest: closing the administrator's pool on %s: %v", s.flavor.name, err)
	}
}

// leave ends the use that acquire began. The last one closes the pool.
func (s *server) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses--
	if s.uses > 0 {
		return nil
	}
	err := s.pool.Close()
	s.pool = nil
	return err
}

// admit waits until PostgreSQL has connections to spare. It gives up after a while, because the count is not
// worth more than a good guess: the pools of others may grow or shrink.
func (s *server) admit(tb testing.TB) {
	tb.Helper()
	const pause, most = 100 * time.Millisecond, 0.7 // of the connections that the server allows
	admin, err := s.acquire()
	if err != nil {
		tb.Fatalf("dbtest: %s: %v", s.flavor.name, err)
	}
	defer s.release(tb)
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	for {
		var used, allowed float64
		err := admin.QueryRowContext(ctx, "SELECT count(*), current_setting('max_connections')::int "+
			"FROM pg_stat_activity").Scan(&used, &allowed)
		if err != nil || used < most*allowed {
			return // an error will meet the test itself
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// takeSpare returns a database that another test has left, if there is one.
func (s *server) takeSpare() (one spare, found bool) {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	if n := len(spares.byServer[s]); n > 0 {
		one, found = spares.byServer[s][n-1], true
		spares.byServer[s] = spares.byServer[s][:n-1]
	}
	return one, found
}

// giveBack empties a database and keeps it for the next test. It reports whether it did. What a failed test
// has left may be anything, so nobody gets that.
func (s *server) giveBack(ctx context.Context, tb testing.TB, one spare) bool {
	tb.Helper()
	spares.mu.Lock()
	kept := spares.kept
	spares.mu.Unlock()
	if !kept || s.flavor.driver != driverPgx || tb.Failed() || empty(ctx, one.dsn) != nil {
		return false
	}
	spares.mu.Lock()
	defer spares.mu.Unlock()
	if spares.byServer == nil {
		spares.byServer = map[*server][]spare{}
	}
	spares.byServer[s] = append(spares.byServer[s], one)
	return true
}

func (s *server) dropSpare(one spare) error {
	admin, err := s.acquire()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return errors.Join(one.drop(ctx, admin), s.leave())
}

// dropLeftovers drops what killed processes have left on the server. What cannot be dropped is left to the
// next process: it takes space and disturbs no test.
func (s *server) dropLeftovers(ctx context.Context, admin *sql.DB) {
	query := "SELECT schema_name FROM information_schema.schemata " +
		"WHERE schema_name LIKE 'snowflaketest!_%' ESCAPE '!'"
	if s.flavor.driver == driverPgx {
		query = "SELECT datname FROM pg_database WHERE datname LIKE 'snowflaketest!_%' ESCAPE '!'"
	}
	rows, err := admin.QueryContext(ctx, query)
	if err != nil {
		return
	}
	defer func() { _ = rows.Close() }() // the second time it does nothing
	var names []string
	for rows.Next() {
		var name string
		if rows.Scan(&name) == nil && abandoned(name, time.Now(), alive) {
			names = append(names, name)
		}
	}
	if rows.Err() != nil || rows.Close() != nil {
		return
	}
	for _, name := range names {
		if s.flavor.driver == driverPgx {
			_ = dropPostgres(ctx, admin, name)
		} else {
			_ = dropMariaDB(ctx, admin, name)
		}
	}
}
