package leasetest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// A mutant is a store that is wrong in one way.
type mutant struct {
	name    string
	storage func() (open func() lease.Store)
	breaks  []string // clauses that notice it; there may be others
}

// A conformance suite is worth what it finds. Each of these stores is wrong, and each clause finds
// at least one of them, so no clause is there for nothing.
func TestEveryClauseFindsAWrongStore(t *testing.T) {
	t.Parallel()
	mutants := slices.Concat(mutantsOfSwap(), mutantsOfRecords(), mutantsOfRaces(), mutantsOfCommit(), mutantsOfOptions())
	found := make(map[string]bool)
	for _, m := range mutants {
		for _, name := range m.breaks {
			found[name] = true
			t.Run(m.name+" breaks "+name, func(t *testing.T) {
				t.Parallel()
				// In a bubble what a store must not do between two requests happens at any speed of the machine.
				synctest.Test(t, func(t *testing.T) {
					// When a bubble begins, no layout has begun yet.
					time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
					const patience = 2 * time.Minute // as in Run
					began := time.Now()
					v, err := leasetest.Judge(name, m.storage(), patience)
					switch {
					case time.Since(began) >= patience:
						t.Errorf("the clause took all the time there is: %s", v.Failure)
					case err != nil:
						t.Fatal(err)
					case v.Failure == "":
						t.Errorf("the clause passes (skipped: %t)", v.Skipped)
					case !strings.Contains(v.Failure, v.Why) || len(v.Why) < 80:
						t.Errorf("the failure does not explain the contract: %s", v.Failure)
					}
					t.Log(v.Failure)
				})
			})
		}
		if len(m.breaks) == 0 {
			t.Errorf("no clause is said to find the store that %s", m.name)
		}
	}
	for _, name := range leasetest.ClauseNames() {
		if !found[name] {
			t.Errorf("no store here breaks the clause %q", name)
		}
	}
}

// What the wrong stores are made of is right when nothing is altered, with and without the
// abilities that a store may leave out.
func TestAStoreThatIsNotAlteredKeepsEveryClause(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) func() lease.Store {
		return one(func(*leasetest.Memory) altered { return altered{hint: time.Minute} })()
	})
}

func TestAStoreMayLeaveOutWhatIsOptional(t *testing.T) {
	t.Parallel()
	var skipped int
	for _, name := range leasetest.ClauseNames() {
		if !strings.Contains(name, "SwapWithin") && !strings.Contains(name, "hint") &&
			!strings.Contains(name, "lost its records") {
			continue
		}
		m := leasetest.NewMemory(nil)
		v, err := leasetest.Judge(name, func() lease.Store { return struct{ lease.Store }{m} }, time.Minute)
		if err != nil || !v.Skipped || v.Failure != "" {
			t.Errorf("%s: %+v, %v; want it skipped", name, v, err)
		}
		skipped++
	}
	if skipped != 5 {
		t.Errorf("%d clauses are about what is optional, want 5", skipped)
	}
}
