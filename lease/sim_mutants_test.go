package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// simMutant is a deliberate fault in the protocol. A simulation that does not notice one proves
// nothing.
type simMutant int

const (
	noMutant simMutant = iota
	extendWithoutCompare
	windowNotBounded
	untilMayFall
	unansweredIsGranted
	closedBeforeSealed
	acknowledgedIsLost // not of the protocol, but of the store
)

// simTenant is what a generator gets in place of the keeper.
type simTenant interface {
	generator.Lease
	Close(ctx context.Context) error
	closed() // is called when Close has done what it can
}

func (m simMutant) tenure(k *lease.Keeper, p *simProcess) simTenant {
	switch m {
	case windowNotBounded:
		return simUnbounded{simHonest{k}, p.w.layout.End()}
	case closedBeforeSealed:
		return &simUnsealed{Keeper: k, p: p}
	default:
		return simHonest{k}
	}
}

// simHonest is the keeper as it is.
type simHonest struct{ *lease.Keeper }

func (simHonest) closed() {}

// simUnbounded is a keeper whose windows have no end.
type simUnbounded struct {
	simHonest
	never time.Time
}

func (u simUnbounded) Window() generator.Window {
	w := u.Keeper.Window()
	if !w.Until.IsZero() {
		w.Until = u.never
	}
	return w
}

// simUnsealed is a keeper that gives its number back before it seals the generator, up to the last
// ID that it has seen.
type simUnsealed struct {
	*lease.Keeper
	p     *simProcess
	seal  func() time.Time
	still atomic.Pointer[generator.Window] // the window that the generator has while Close is at work
}

func (u *simUnsealed) Claim(c generator.Claim) error {
	u.seal = c.Seal
	c.Seal = func() time.Time {
		if end := u.p.lastEnd.Load(); end != 0 {
			return time.Unix(0, end).UTC()
		}
		return time.Time{}
	}
	return u.Keeper.Claim(c)
}

func (u *simUnsealed) Window() generator.Window {
	if w := u.still.Load(); w != nil {
		return *w
	}
	return u.Keeper.Window()
}

func (u *simUnsealed) Close(ctx context.Context) error {
	if u.still.Load() == nil {
		w := u.Keeper.Window()
		u.still.Store(&w)
	}
	return u.Keeper.Close(ctx)
}

func (u *simUnsealed) closed() { u.seal() }

// Without SNOWFLAKE_SIMULATE a fault is looked for until it is found once. With it, all seeds are
// run, and the share of those that find the fault says how sharp the simulation is.
func TestSimulationFindsAFaultInTheProtocol(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mutant simMutant
		within int // seeds that suffice, with a margin
		share  int // of seeds that find it, in percent, at the least
	}{
		"an extension that does not compare":         {extendWithoutCompare, 10, 85},
		"a window without an end":                    {windowNotBounded, 10, 95},
		"an end that falls":                          {untilMayFall, 60, 4},
		"a swap without an answer taken for granted": {unansweredIsGranted, 10, 80},
		"a close before the generator is sealed":     {closedBeforeSealed, 20, 30},
		"a store that loses what it acknowledged":    {acknowledgedIsLost, 20, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds := func(t *testing.T, seed int) bool {
				t.Helper()
				return simulate(t, newSimScenario(uint64(seed)), c.mutant, false).duplicates > 0
			}
			all := simSeeds(t, 0) / 2
			if all < c.within {
				seed := 0
				for seed < c.within && !finds(t, seed) {
					seed++
				}
				if seed == c.within {
					t.Errorf("no duplicate in %d seeds", seed)
				}
				return
			}
			var found atomic.Int64
			simEach(t, all, func(t *testing.T, seed int) {
				t.Helper()
				if finds(t, seed) {
					found.Add(1)
				}
			})
			t.Logf("%s: duplicates in %d of %d seeds", name, found.Load(), all)
			if found.Load()*100 < int64(c.share*all) {
				t.Errorf("%d of %d seeds are less than %d percent", found.Load(), all, c.share)
			}
		})
	}
}
