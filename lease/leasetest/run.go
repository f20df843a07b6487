package leasetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Run tests a store with one sub-test for each clause of the contract. It returns when all clauses
// have ended.
//
// Each clause calls storage once. The returned function opens handles on an empty storage that no
// other clause uses. Handles on one storage represent processes, so each handle must find what
// another one has stored. Both functions are called on the goroutine of the clause's test, so they
// may use its t to fail, to skip and to clean up. Clauses run in parallel, so storage must be safe
// for concurrent use.
func Run(t *testing.T, storage func(t *testing.T) (open func() lease.Store)) {
	t.Helper()
	for _, group := range groups() {
		// Parallel clauses end before their group ends, and so before the caller's deferred
		// functions run.
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.clauses {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.hold(t, storage(t), patience)
				})
			}
		})
	}
}

// Emptier is an optional ability of a store that is tested: its records can be lost. A test gives it to the
// store with a type of its own, which embeds the store.
type Emptier interface {
	// Empty takes all records away without the store's help, as somebody does who drops its table, or a server
	// that evicts its key. What the store has noted elsewhere stays.
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
	Cleanup(f func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

func (c clause) hold(t reporter, open func() lease.Store, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.check(&probe{t: t, ctx: ctx, open: open, why: c.why})
}

// A group is a list of clauses about the same subject.
type group struct {
	name    string
	clauses []clause
}

// groups returns the contract. Simple clauses come first.
func groups() []group {
	return []group{
		{"Store", slices.Concat(clausesOfRecords(), clausesOfSwaps(), clausesOfRaces(), clausesOfRequests())},
		{"Keeper", clausesOfKeepers()},
	}
}
