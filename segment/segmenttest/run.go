package segmenttest

import (
	"context"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Run tests a store with one sub-test for each clause of the contract. It returns when all clauses
// have ended. Clauses about optional abilities, such as [segment.TermsStore], are skipped if the store does
// not have them. Wrap a store, so that it is an [Emptier], if it is a [segment.Identifier].
//
// Each clause calls storage once. The returned function opens handles on an empty storage that no
// other clause uses. Handles on one storage represent processes, so each handle must find what
// another one has stored. Both functions are called on the goroutine of the clause's test, so they
// may use its t to fail, to skip and to clean up. Clauses run in parallel, so storage must be safe
// for concurrent use.
func Run(t *testing.T, storage func(t *testing.T) (open func() segment.Store)) {
	t.Helper()
	// Parallel clauses end before their group ends, and so before the caller's deferred functions run.
	t.Run("Store", func(t *testing.T) {
		for _, c := range clauses() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.hold(t, storage(t), patience)
			})
		}
	})
}

// Emptier is an optional ability of a store under test: it can be emptied, so that nothing is left of its
// counters, as an operator or a failure would do it.
type Emptier interface {
	segment.Store

	// Empty empties the storage of the handle.
	Empty(ctx context.Context) error
}

// patience limits how long a clause may take. No clause needs that long. The limit tells a store
// that hangs from a slow store.
const patience = 2 * time.Minute

// A clause is one requirement of the contract with its test.
type clause struct {
	name string
	// why explains the clause to a user whose store has failed it.
	why   string
	check func(p *probe)
}

// reporter is the part of *testing.T that a clause needs. The tests of this package can let it
// fail.
type reporter interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

func (c clause) hold(t reporter, open func() segment.Store, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.check(&probe{t: t, ctx: ctx, open: open, why: c.why})
}
