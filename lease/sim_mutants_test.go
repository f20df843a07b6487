package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
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

// In tier one each fault is looked for with seeds that are known to find it. At night the share of seeds that find
// it says how sharp the simulation is.
func TestSimulationFindsAFaultInTheProtocol(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mutant simMutant
		known  uint64 // a seed that finds it
		share  int    // of seeds that find it, in percent, at the least
	}{
		"an extension that does not compare":         {extendWithoutCompare, 6, 85},
		"a window without an end":                    {windowNotBounded, 6, 95},
		"an end that falls":                          {untilMayFall, 8, 4},
		"a swap without an answer taken for granted": {unansweredIsGranted, 6, 80},
		"a close before the generator is sealed":     {closedBeforeSealed, 6, 30},
		"a store that loses what it acknowledged":    {acknowledgedIsLost, 6, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := simnet.Seeds{Known: []uint64{c.known}, Night: 48}.Choose(t)
			var found atomic.Int64
			simEach(t, seeds, func(t *testing.T, seed uint64) {
				t.Helper()
				if simulate(t, newSimScenario(seed), c.mutant, false).duplicates > 0 {
					found.Add(1)
				}
			})
			t.Logf("%s: duplicates in %d of %d seeds", name, found.Load(), len(seeds))
			if found.Load()*100 < int64(c.share*len(seeds)) {
				t.Errorf("%d of %d seeds are less than %d percent", found.Load(), len(seeds), c.share)
			}
		})
	}
}
