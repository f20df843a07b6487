package filling_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// openLedger is open with a plugin that takes its numbers from a ledger.
func openLedger(
	t *testing.T, target dbtest.Target, cfg *gorm.Config, models ...any,
) (*gorm.DB, *ledger) {
	t.Helper()
	db, numbers := target.Open(t, cfg), newLedger(t)
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), models...)
	return db, numbers
}

// ledger is a source that records its calls. Its numbers come from a generator.
type ledger struct {
	*generator.Generator
	// If step is set, it runs before each reservation. The first call has number 1. Fill returns
	// its error.
	step func(ctx context.Context, call int) error

	mu       sync.Mutex
	sizes    []int             // guarded by mu: how many numbers each reservation requested
	contexts []context.Context // guarded by mu: the context of each
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	numbers, err := generator.New(generator.Default(), generator.FixedNode(2))
	must(t, err, "a generator")
	return &ledger{Generator: numbers}
}

// Fill implements snowflakeplugin.Source.
func (l *ledger) Fill(ctx context.Context, ids []int64) error {
	l.mu.Lock()
	l.sizes = append(l.sizes, len(ids))
	l.contexts = append(l.contexts, ctx)
	call := len(l.sizes)
	l.mu.Unlock()
	if l.step != nil {
		if err := l.step(ctx, call); err != nil {
			return err
		}
	}
	return l.Generator.Fill(ctx, ids)
}

// take returns the sizes of the reservations since the last call.
func (l *ledger) take() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := l.sizes
	l.sizes, l.contexts = nil, nil
	return sizes
}

// contextMark is the key of a value that a test puts into a context to see which calls get it.
type contextMark struct{}

// marks returns the value of each reservation's context since the last call of take.
func (l *ledger) marks() (marks []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ctx := range l.contexts {
		marks = append(marks, ctx.Value(contextMark{}))
	}
	return marks
}

// outcome returns how fn ended, as text that can be compared.
func outcome(fn func() error) (how string) {
	defer func() {
		if caught := recover(); caught != nil {
			how = fmt.Sprintf("panic: %v", caught)
		}
	}()
	return fmt.Sprintf("error: %v", fn())
}

// inEveryMode runs a behavior with and without default transactions. The handles share a database, and each
// finds it empty.
func inEveryMode(models []any, run func(t *testing.T, db *gorm.DB)) func(*testing.T, dbtest.Target) {
	return func(t *testing.T, target dbtest.Target) {
		t.Helper()
		dsn, again := target.DSN(t), false
		for _, mode := range []struct {
			name              string
			config, bySession bool // whether they skip the default transaction
		}{
			{"default transactions", false, false}, {"none by Config", true, false}, {"none by Session", false, true},
		} {
			t.Run(mode.name, func(t *testing.T) {
				db := target.OpenDSN(t, dsn, &gorm.Config{SkipDefaultTransaction: mode.config})
				plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
				if again {
					must(t, db.Use(plugin), "Use")
					must(t, plugin.Prepare(db, models...), "Prepare")
					suite.Empty(t, db, models...)
				} else {
					use(t, db, plugin, models...)
				}
				again = true
				if mode.bySession {
					db = db.Session(&gorm.Session{SkipDefaultTransaction: true})
				}
				run(t, db)
			})
		}
	}
}

// Only TiDB is asked how it stores a table.
func TestPrepareAsksNothingOfADatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db, plugin := open(t, target, nil, &ticket{})
		watched, recorder := watch(db)
		must(t, plugin.Prepare(watched, &ticket{}), "Prepare")
		asked := len(recorder.Statements())
		if want := target.Dialect == "mysql" && target.IsTiDB(t); (asked > 0) != want {
			t.Errorf("the statements were %q", recorder.Statements())
		}
	})
}
