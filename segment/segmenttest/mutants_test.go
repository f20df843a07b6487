package segmenttest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// A mutant is a store that is wrong in one way.
type mutant struct {
	name    string
	storage func() (open func() segment.Store)
	breaks  []string // clauses that notice it; there may be others
}

// A conformance suite is worth what it finds. Each of these stores is wrong, and each clause finds at least
// one of them, so no clause is there for nothing.
func TestEveryClauseFindsAWrongStore(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for _, m := range slices.Concat(mutantsOfClaims(), mutantsOfTerms(), mutantsOfLedgers(), mutantsOfIdentities()) {
		for _, name := range m.breaks {
			found[name] = true
			t.Run(m.name+" breaks "+name, func(t *testing.T) {
				t.Parallel()
				// In a bubble what a store must not do between two requests happens at any speed of the machine.
				synctest.Test(t, func(t *testing.T) {
					v, err := segmenttest.Judge(name, m.storage(), time.Minute)
					switch {
					case err != nil:
						t.Fatal(err)
					case v.Failure == "":
						t.Errorf("the clause passes (skipped: %t)", v.Skipped)
					case !strings.Contains(v.Failure, v.Why) || len(v.Why) < 60:
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
	for _, name := range segmenttest.ClauseNames() {
		if !found[name] {
			t.Errorf("no store here breaks the clause %q", name)
		}
	}
}

// What the wrong stores are made of is right when nothing is altered.
func TestAStoreThatIsNotAlteredKeepsEveryClause(t *testing.T) {
	t.Parallel()
	segmenttest.Run(t, func(*testing.T) func() segment.Store {
		return altering(func(*segmenttest.Memory, *altered) {})()
	})
}

func TestAStoreMayLeaveOutWhatIsOptional(t *testing.T) {
	t.Parallel()
	skipped := 0
	for _, name := range segmenttest.ClauseNames() {
		m := segmenttest.NewMemory()
		v, err := segmenttest.Judge(name, func() segment.Store { return struct{ segment.Store }{m} }, time.Minute)
		if err != nil || v.Failure != "" {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if v.Skipped {
			skipped++
		}
	}
	if skipped != 18 {
		t.Errorf("%d clauses are about what is optional, want 18", skipped)
	}
}

type (
	claimFunc  func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error)
	listFunc   func(ctx context.Context, prefix string) ([]segment.Counter, error)
	changeFunc func(ctx context.Context, prev, next segment.Counter) (bool, error)
	removeFunc func(ctx context.Context, prev segment.Counter) (bool, error)
)

// altered is a store whose methods may be replaced.
type altered struct {
	any    func(ctx context.Context, name string, n int64) (int64, error)
	claim  claimFunc
	list   listFunc
	change changeFunc
	remove removeFunc
	now    func(ctx context.Context) (time.Time, error)
}

func (a *altered) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return a.any(ctx, name, n)
}

func (a *altered) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	return a.claim(ctx, name, n, t)
}

func (a *altered) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	return a.list(ctx, prefix)
}

func (a *altered) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	return a.change(ctx, prev, next)
}

func (a *altered) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	return a.remove(ctx, prev)
}

func (a *altered) Now(ctx context.Context) (time.Time, error) { return a.now(ctx) }

// altering returns a storage in memory whose handles are altered. A handle claims on any terms by its claim,
// unless that is altered, too.
func altering(alter func(m *segmenttest.Memory, a *altered)) func() func() segment.Store {
	return func() func() segment.Store {
		m := segmenttest.NewMemory()
		return func() segment.Store {
			a := &altered{claim: m.ClaimOn, list: m.Counters, change: m.Change, remove: m.Remove, now: m.Now}
			a.any = func(ctx context.Context, name string, n int64) (int64, error) {
				if err := segment.CheckClaim(name, n); err != nil {
					return 0, err
				}
				return a.claim(ctx, name, n, segment.AnyTerms())
			}
			alter(m, a)
			return a
		}
	}
}

// claiming alters both kinds of claims.
func claiming(claim func(m *segmenttest.Memory) claimFunc) func() func() segment.Store {
	return altering(func(m *segmenttest.Memory, a *altered) { a.claim = claim(m) })
}

// onTerms alters the terms of claims.
func onTerms(change func(t segment.Terms) segment.Terms) func() func() segment.Store {
	return claiming(func(m *segmenttest.Memory) claimFunc {
		return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
			return m.ClaimOn(ctx, name, n, change(t))
		}
	})
}

// naming alters the names of counters.
func naming(change func(name string) string) func() func() segment.Store {
	return claiming(func(m *segmenttest.Memory) claimFunc {
		return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
			return m.ClaimOn(ctx, change(name), n, t)
		}
	})
}

// keeping alters how a counter is kept after a claim.
func keeping(change func(next int64) int64) func() func() segment.Store {
	return claiming(func(m *segmenttest.Memory) claimFunc {
		return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
			first, err := m.ClaimOn(ctx, name, n, t)
			if err == nil {
				c := m.Get(name)
				c.Next = change(c.Next)
				m.Put(c)
			}
			return first, err
		}
	})
}

// refusing does something to the counter when a claim is refused.
func refusing(damage func(c *segment.Counter, n int64, t segment.Terms)) func() func() segment.Store {
	return claiming(func(m *segmenttest.Memory) claimFunc {
		return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
			first, err := m.ClaimOn(ctx, name, n, t)
			if c := m.Get(name); err != nil && c.Next != 0 {
				damage(&c, n, t)
				m.Put(c)
			}
			return first, err
		}
	})
}
