package routing_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// pool keeps the routers that tests have used, with their databases, for the tests after them.
var pool = routers{idle: map[string][]*sharded{}}

// routers makes a router over new databases only if none is idle that has the same tables. Tables are the
// dearest that most of these tests need.
type routers struct {
	mu      sync.Mutex
	idle    map[string][]*sharded
	cleanup []func()
	failed  bool
}

func TestMain(m *testing.M) {
	code := dbtest.Main(m, func() {
		for _, fn := range slices.Backward(pool.cleanup) {
			fn()
		}
	})
	if code == 0 && pool.failed {
		code = 1
	}
	os.Exit(code)
}

// pooled returns a router whose tables are empty. When the test ends, its tables are emptied for another test
// that asks for the same kind. The kind stands for the configuration of GORM and the models.
func pooled(
	t *testing.T, kind string, targets []dbtest.Target, cfg func() *gorm.Config, models ...any,
) *sharded {
	t.Helper()
	lasting := make([]dbtest.Target, len(targets))
	for i, target := range targets {
		lasting[i] = dbtest.Named(target.Name) // The databases of a shared target end with its test.
		kind += " " + target.Name
	}
	s := pool.take(kind)
	if s == nil {
		made := newShardedBy(lastingTB{t}, t, lasting, cfg, shards, models...)
		must(t, made.router.AutoMigrate(t.Context()), "AutoMigrate")
		made.noteTables()
		s = &made
	}
	mine := *s
	mine.T = t
	t.Cleanup(func() {
		mine.idle()
		if t.Failed() || mine.closed {
			return // The databases are dropped when the package ends.
		}
		mine.empty()
		pool.giveBack(kind, s)
	})
	return &mine
}

func (p *routers) take(kind string) *sharded {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[kind]
	if len(list) == 0 {
		return nil
	}
	p.idle[kind] = list[:len(list)-1]
	return list[len(list)-1]
}

func (p *routers) giveBack(kind string, s *sharded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[kind] = append(p.idle[kind], s)
}

// noteTables notes which tables the databases have.
func (s *sharded) noteTables() {
	s.Helper()
	for _, db := range s.dbs {
		tables, err := db.Migrator().GetTables()
		must(s.T, err, "GetTables")
		s.tables = append(s.tables, tables)
	}
}

// empty deletes all rows, and drops the tables that the test has added.
func (s *sharded) empty() {
	s.Helper()
	for i, db := range s.dbs {
		plain := db.Session(&gorm.Session{NewDB: true})
		tables, err := plain.Migrator().GetTables()
		must(s.T, err, "GetTables")
		for _, table := range tables {
			statement := "DELETE FROM "
			switch {
			case !slices.Contains(s.tables[i], table):
				statement = "DROP TABLE "
			case strings.HasPrefix(table, "snowflake_") || strings.HasPrefix(table, "sqlite_"):
				continue
			}
			must(s.T, plain.Exec(statement+plain.Statement.Quote(table)).Error, "empty "+table)
		}
	}
}

// lastingTB is for databases that outlive their test. Everything but its clean-up is that of the test.
type lastingTB struct{ testing.TB }

// Cleanup is that of the package.
func (lastingTB) Cleanup(fn func()) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.cleanup = append(pool.cleanup, fn)
}

// TempDir returns a directory that lasts as long as the package.
func (l lastingTB) TempDir() string {
	dir, err := os.MkdirTemp("", "routing")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { pool.report(os.RemoveAll(dir)) })
	return dir
}

// Errorf is called by clean-ups, when the test is over.
func (lastingTB) Errorf(format string, args ...any) {
	pool.report(fmt.Errorf(format, args...)) //nolint:err113 // It is only shown.
}

func (p *routers) report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "cleaning up:", err)
		p.failed = true
	}
}
