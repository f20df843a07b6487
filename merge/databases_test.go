package merge_test

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/nightly"
)

// kindPair is a kind of database from which rows come, and one into which they go.
type kindPair struct{ from, to dbtest.Target }

// kindPairs returns the pairs of kinds of databases on which a test runs in this tier. At night these are all.
// In tier one they are SQLite into SQLite and one more, which the name of the test chooses: the tests of this
// package together meet every kind as a source and as a target.
func kindPairs(name string) (pairs []kindPair) {
	all := dbtest.Servers()
	if !nightly.Enabled() {
		from, to := dbtest.Chosen(name+" from", all[1:]), dbtest.Chosen(name+" into", all[1:])
		return []kindPair{{all[0], all[0]}, {from[0], to[0]}}
	}
	for _, from := range all {
		for _, to := range all {
			pairs = append(pairs, kindPair{from, to})
		}
	}
	return pairs
}

// oneOf returns one of several in tier one, which the name chooses, and all of them at night.
func oneOf[V any](name string, all []V) []V {
	if nightly.Enabled() {
		return all
	}
	at := turn(name, len(all))
	return all[at : at+1]
}

// turn returns a number below n that a name chooses.
func turn(name string, n int) int {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return int(hash.Sum32() % uint32(n)) //nolint:gosec // a handful
}

// skipped reports whether tier one leaves out a case of a large table, of which SQLite meets every one: it takes
// every third one on a server or between kinds of databases, and the night takes all.
func skipped(name string) bool { return !nightly.Enabled() && turn(name, 3) != 0 }

// spares are empty databases of PostgreSQL that no test uses now. PostgreSQL takes longer to make a database and
// to greet the first sessions in it than for the rest of a small merge, so tests leave theirs to the next ones.
// A merge looks at a whole database, so schemas in one database are no substitute.
var spares struct {
	mu       sync.Mutex
	dsns     []string
	cleanups []func()
}

// emptyDSN returns the DSN of an empty database for one test.
func emptyDSN(t testing.TB, target dbtest.Target) string {
	t.Helper()
	if target.Dialect != "postgres" {
		return target.DSN(t)
	}
	spares.mu.Lock()
	dsn := ""
	if n := len(spares.dsns); n > 0 {
		dsn, spares.dsns = spares.dsns[n-1], spares.dsns[:n-1]
	}
	spares.mu.Unlock()
	if dsn == "" {
		dsn = target.DSN(ofPackage{t})
		settle(t, dsn, `DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
			END $$`)
	}
	t.Cleanup(func() {
		settle(t, dsn, "SELECT lo_unlink(oid) FROM pg_largeobject_metadata", "DROP SCHEMA public CASCADE", `DO $$
			DECLARE s name;
			BEGIN
				FOR s IN SELECT nspname FROM pg_namespace
					WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
				LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP;
			END $$`, "CREATE SCHEMA public")
		if !t.Failed() { // a test that failed may have left sessions in it
			spares.mu.Lock()
			spares.dsns = append(spares.dsns, dsn)
			spares.mu.Unlock()
		}
	})
	return dsn
}

// settle executes statements in a session of its own, together.
func settle(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal("a database of PostgreSQL cannot be opened") // without the error, which may quote the DSN
	}
	pool.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := pool.ExecContext(context.Background(), s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// ofPackage is a test in whose name something is made that lives until all tests have ended.
type ofPackage struct{ testing.TB }

func (ofPackage) Cleanup(fn func()) {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	spares.cleanups = append(spares.cleanups, fn)
}

func (ofPackage) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// dropSpares drops the databases that the package has made.
func dropSpares() {
	for i := len(spares.cleanups) - 1; i >= 0; i-- {
		spares.cleanups[i]()
	}
}
