package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
)

// Errors of [Ping].
var (
	// ErrAbsent is returned when nothing listens, or what listens is still starting up.
	ErrAbsent = errors.New("dbtest: the server does not answer")
	// ErrRefused is returned when a server listens but takes none of the logins.
	ErrRefused = errors.New("dbtest: the server answers but takes no login")
)

const (
	// pingTimeout bounds the search for a server, adminTimeout a CREATE or DROP. Both are far
	// above what a loaded machine needs; they only keep a dead server from hanging a test run.
	pingTimeout  = 5 * time.Second
	adminTimeout = time.Minute

	// namePrefix marks databases of tests, for those that a killed process leaves behind.
	namePrefix = "snowflaketest_"
)

// A flavor is what there is to know about one kind of server.
type flavor struct {
	name     string   // as in SNOWFLAKE_REQUIRE
	driver   string   // of database/sql
	variable string   // of the environment, holds the DSN
	logins   []string // DSNs to try in turn where the variable is not set, all of one address

	// parse reads a DSN. Its error may quote parts of it, so it is not shown to anybody.
	parse func(dsn string) error
	// starting tells whether an error means that the server will be ready in a moment.
	starting func(error) bool
	// create makes a database and returns its DSN and the function that drops it.
	create func(ctx context.Context, s *server, admin *sql.DB, name string) (string, dropFunc, error)
}

// A dropFunc drops one database, whoever is still connected to it.
type dropFunc func(ctx context.Context, admin *sql.DB) error

// A server is one that answered.
type server struct {
	flavor  flavor
	dsn     string // of a login that may create databases; never to be logged
	version string // what it calls itself

	mu   sync.Mutex // guards the rest
	pool *sql.DB    // open while users > 0, so that an idle process holds no connection
	uses int
}

// The search for a server costs up to pingTimeout where there is none, so a process does it once.
//
//nolint:gochecknoglobals // memoized functions; nothing writes to them
var (
	postgresServer = sync.OnceValues(func() (*server, error) { return lookup(postgresFlavor()) })
	mariadbServer  = sync.OnceValues(func() (*server, error) { return lookup(mariadbFlavor()) })
)

func lookup(f flavor) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	return find(ctx, f)
}

// Ping looks for the server called "postgres" or "mariadb" as the tests would, and returns what it
// calls itself. The error wraps [ErrAbsent] or [ErrRefused], or neither if the name or the DSN in
// the environment is no such thing. It holds no DSN.
func Ping(ctx context.Context, name string) (string, error) {
	for _, f := range []flavor{postgresFlavor(), mariadbFlavor()} {
		if f.name == name {
			s, err := find(ctx, f)
			if err != nil {
				return "", err
			}
			return s.version, nil
		}
	}
	return "", fmt.Errorf("dbtest: no server is called %q: say %s or %s", name, namePostgres, nameMariaDB)
}

// find tries the logins of a flavor, or the one of its variable, until one is let in.
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
			return &server{flavor: f, dsn: dsn, version: version}, nil
		}
		// The logins share an address, so when nobody is at home the next would hear the same.
		if silent(err) || f.starting(err) {
			return nil, fmt.Errorf("%w: %s: %w", ErrAbsent, f.name, err)
		}
		refused = append(refused, err)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrRefused, f.name, errors.Join(refused...))
}

// silent tells whether an error means that no server spoke: a connection that was refused, that
// timed out, or that was closed without a word, as the ports of a container do until it is ready.
func silent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
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

// demand ends the test if err says that there is no server: with a skip, or with a failure where
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
		tb.Fatalf("%v\n%s is set, so that server has to answer", err, f.variable)
	case must:
		tb.Fatalf("%v\n%s names %s, so it has to answer: start it, or set %s",
			err, servers.RequireVariable, f.name, f.variable)
	default:
		tb.Skipf("%v\nskipped; to run this test start the server, or set %s", err, f.variable)
	}
}

// mariadb tells MariaDB from MySQL.
func (s *server) mariadb() bool { return strings.Contains(s.version, "MariaDB") }

// database makes a database for the test and has it dropped at the end.
func (s *server) database(tb testing.TB) string {
	tb.Helper()
	admin, err := s.acquire()
	if err != nil {
		tb.Fatalf("dbtest: %s: %v", s.flavor.name, err)
	}
	// Not the test's context: that is over when the clean-up runs.
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	name := namePrefix + strings.ToLower(rand.Text())
	dsn, drop, err := s.flavor.create(ctx, s, admin, name)
	if err != nil {
		s.release(tb)
		tb.Fatalf("dbtest: creating a database on %s: %v", s.flavor.name, err)
	}
	tb.Cleanup(func() {
		defer s.release(tb)
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		if err := drop(ctx, admin); err != nil {
			tb.Errorf("dbtest: dropping %s on %s: %v", name, s.flavor.name, err)
		}
	})
	return dsn
}

// acquire returns the pool that databases are created and dropped through. There is one a process,
// open as long as somebody holds a database.
func (s *server) acquire() (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool == nil {
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

// release gives back what acquire returned; the last one closes the pool.
func (s *server) release(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses--
	if s.uses > 0 {
		return
	}
	if err := s.pool.Close(); err != nil {
		tb.Errorf("dbtest: closing the administrator's pool on %s: %v", s.flavor.name, err)
	}
	s.pool = nil
}
