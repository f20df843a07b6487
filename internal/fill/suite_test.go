// The tests of this package look at one statement at a time, through the plugin, as a program uses it: which
// cells of which shapes it fills, which callbacks it survives, what it refuses, and what a struct holds after
// a failure. They run on SQLite in memory, so that a change here is judged in seconds, and at night on every
// database. What a database has a say in is tested in internal/integration.
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
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/integration/suite"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/nightly"
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
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}

func plainOne[V any](t *testing.T, db *gorm.DB, query string, args ...any) V {
	t.Helper()
	return suite.PlainOne[V](t, db, query, args...)
}

func plainRows[V any](t *testing.T, db *gorm.DB, query string, args ...any) []V {
	t.Helper()
	return suite.PlainRows[V](t, db, query, args...)
}

// account is the plain model. It has a key that the plugin fills, and a unique column for conflicts.
type account struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100;uniqueIndex"`
	Name  string             `gorm:"size:100"`
}

// ticket has a plain integer key and another tagged column.
type ticket struct {
	ID       int64              `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
	Title    string             `gorm:"size:100;uniqueIndex"`
}

// plainNote is not tagged. The database generates its key.
type plainNote struct {
	ID   uint   `gorm:"primaryKey"`
	Text string `gorm:"size:100"`
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

// use makes db use the plugin and migrates the models.
func use(t *testing.T, db *gorm.DB, plugin *snowflakeplugin.Plugin, models ...any) {
	t.Helper()
	must(t, db.Use(plugin), "Use")
	must(t, plugin.Prepare(db, models...), "Prepare")
	must(t, db.AutoMigrate(models...), "AutoMigrate")
}

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

// models returns its arguments as a list of models.
func models(list ...any) []any { return list }

// stored reads the row with that key in a session without earlier clauses.
func stored[T any](t *testing.T, db *gorm.DB, id any) T {
	t.Helper()
	var row T
	err := db.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Where("id = ?", id).Take(&row).Error
	if err != nil {
		t.Fatalf("read the %T with ID %v: %v", row, id, err)
	}
	return row
}

// allStored reads all rows of the model, by key.
func allStored[T any](t *testing.T, db *gorm.DB) []T {
	t.Helper()
	var rows []T
	err := db.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Order("id").Find(&rows).Error
	must(t, err, "read all rows")
	return rows
}

// holds fails the test unless the table of the model has the wanted number of rows.
func holds(t *testing.T, db *gorm.DB, model any, want int64) {
	t.Helper()
	var got int64
	err := db.Session(&gorm.Session{NewDB: true}).Model(model).Unscoped().Count(&got).Error
	must(t, err, "count")
	if got != want {
		t.Errorf("the table of %T has %d rows, want %d", model, got, want)
	}
}

// accountStored fails the test unless the account has an ID and its row is equal to it.
func accountStored(t *testing.T, db *gorm.DB, a account) {
	t.Helper()
	if a.ID == 0 {
		t.Fatalf("account %q has no ID", a.Email)
	}
	same(t, "the stored row", stored[account](t, db, a.ID), a)
}

// ticketStored fails the test unless the ticket has both IDs and its row is equal to it.
func ticketStored(t *testing.T, db *gorm.DB, v ticket) {
	t.Helper()
	if v.ID == 0 || v.PublicID == 0 || v.ID == int64(v.PublicID) {
		t.Fatalf("ticket %q has the IDs %d and %d, want two different ones", v.Title, v.ID, v.PublicID)
	}
	same(t, "the stored row", stored[ticket](t, db, v.ID), v)
}

// watch sets a recorder on the handle and returns both.
func watch(db *gorm.DB) (*gorm.DB, *dbtest.Recorder) {
	recorder := dbtest.NewRecorder()
	return db.Session(&gorm.Session{Logger: recorder}), recorder
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
