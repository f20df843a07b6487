// The tests of this package look at one statement at a time, through the plugin, as a program uses it: which
// cells of which shapes it fills, which callbacks it survives, what it refuses, and what a struct holds after
// a failure. They run on SQLite in memory, so that a change here is judged in seconds, and at night on every
// database. What a database has a say in is tested in test/filling and test/statements.
package fill_test

import (
	"context"
	"sync"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// A behavior is one promise. It runs in memory, and at night on every database.
type behavior struct {
	Name string // a sentence
	Run  func(t *testing.T, target database)
}

func run(t *testing.T, behaviors []behavior) {
	t.Helper()
	t.Parallel()
	targets := nightly.Pick([]dbtest.Target{dbtest.Named("sqlite")}, dbtest.Targets())
	dbtest.Run(t, targets, func(t *testing.T, target dbtest.Target) {
		shared := database{target.Shared(t)}
		for _, b := range behaviors {
			t.Run(b.Name, func(t *testing.T) { b.Run(t, shared) })
		}
	})
}

// database is a target of which SQLite is in memory in tier one.
type database struct{ dbtest.Target }

// Open returns a handle on a new and empty database. In memory it has one connection, because another one
// would have a database of its own.
func (d database) Open(t *testing.T, cfg *gorm.Config, opts ...dbtest.Option) *gorm.DB {
	t.Helper()
	if nightly.Enabled() {
		return d.Target.Open(t, cfg, opts...)
	}
	if cfg == nil {
		cfg = &gorm.Config{}
	}
	if cfg.Logger == nil {
		cfg.Logger = logger.Discard
	}
	db, err := gorm.Open(sqlite.Open(":memory:?_foreign_keys=1"), cfg)
	must(t, err, "open a database in memory")
	pool, err := db.DB()
	must(t, err, "the pool")
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { must(t, pool.Close(), "close") })
	return db
}

var (
	must      = suite.Must
	wantErr   = suite.WantErr
	says      = suite.Says
	plainExec = suite.PlainExec
	use       = suite.Use
	models    = suite.Models
	holds     = suite.Holds
	watch     = suite.Watch

	accountStored = suite.AccountStored
	ticketStored  = suite.TicketStored
)

type (
	account   = suite.Account
	ticket    = suite.Ticket
	plainNote = suite.PlainNote
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}

func plainOne[V any](t *testing.T, db *gorm.DB, query string, args ...any) V {
	t.Helper()
	return suite.PlainOne[V](t, db, query, args...)
}

func stored[T any](t *testing.T, db *gorm.DB, id any) T {
	t.Helper()
	return suite.Stored[T](t, db, id)
}

func allStored[T any](t *testing.T, db *gorm.DB) []T {
	t.Helper()
	return suite.AllStored[T](t, db)
}

func plainRows[V any](t *testing.T, db *gorm.DB, query string, args ...any) []V {
	t.Helper()
	return suite.PlainRows[V](t, db, query, args...)
}

func newAccount(name string) account { return account{Email: name, Name: name} }

func newTicket(name string) ticket { return ticket{Title: name} }

// counter is a source that counts, and records how many numbers each reservation requested.
type counter struct {
	step func() error // if it is set, it runs before each reservation, which fails with its error

	mu    sync.Mutex
	last  int64 // guarded by mu
	sizes []int // guarded by mu
}

// Fill implements snowflakeplugin.Source.
func (c *counter) Fill(_ context.Context, ids []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes = append(c.sizes, len(ids))
	if c.step != nil {
		if err := c.step(); err != nil {
			return err
		}
	}
	for i := range ids {
		c.last++
		ids[i] = c.last
	}
	return nil
}

// take returns the sizes of the reservations since the last call.
func (c *counter) take() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sizes := c.sizes
	c.sizes = nil
	return sizes
}

// newCounter returns a source whose first number is far from the IDs that tests set by hand.
func newCounter() *counter { return &counter{last: 1_000_000} }

// open returns a new database that uses the plugin. The models are migrated.
func open(t *testing.T, target database, cfg *gorm.Config, models ...any) *gorm.DB {
	t.Helper()
	db := target.Open(t, cfg)
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithNode(1)), models...)
	return db
}

// openCounted is open with a plugin that takes its numbers from a counter.
func openCounted(t *testing.T, target database, models ...any) (*gorm.DB, *counter) {
	t.Helper()
	db, numbers := target.Open(t, nil), newCounter()
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), models...)
	return db, numbers
}

// inEveryMode runs a behavior with and without default transactions.
func inEveryMode(models []any, run func(t *testing.T, db *gorm.DB)) func(*testing.T, database) {
	return func(t *testing.T, target database) {
		t.Helper()
		for mode, skip := range map[string][2]bool{
			"default transactions": {false, false}, "none by Config": {true, false}, "none by Session": {false, true},
		} {
			t.Run(mode, func(t *testing.T) {
				db := open(t, target, &gorm.Config{SkipDefaultTransaction: skip[0]}, models...)
				if skip[1] {
					db = db.Session(&gorm.Session{SkipDefaultTransaction: true})
				}
				run(t, db)
			})
		}
	}
}

// emptied deletes all rows of the tables, in that order.
func emptied(t *testing.T, db *gorm.DB, tables ...string) {
	t.Helper()
	for _, table := range tables {
		plainExec(t, db, "DELETE FROM "+table)
	}
}

// doNothing keeps an existing row, whichever key conflicts.
func doNothing() clause.OnConflict { return clause.OnConflict{DoNothing: true} }

// pointerTo returns a pointer to a copy of v.
func pointerTo[V any](v V) *V { return &v }

// takenEmail is the email or title of an existing row that makes a create fail.
const takenEmail = "taken@example.com"
