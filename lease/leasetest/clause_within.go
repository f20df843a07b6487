package leasetest

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func within() clause {
	return clause{
		name: "SwapWithin swaps while the clock is inside",
		why: "SwapWithin is Swap as long as the store's clock is from earliest to latest, in whichever zone " +
			"those are given. It creates and replaces, and compares nothing but the clock in addition.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			able := p.withinSwapper(s)
			far := time.FixedZone("", -11*60*60-30*60)
			var r lease.Record
			next := first(7, "one")
			for range 3 {
				now := p.now(s)
				earliest, latest := now.Add(-time.Minute), now.Add(time.Minute).In(far)
				ok, err := able.SwapWithin(p.ctx, r, next, earliest, latest)
				if !ok || err != nil {
					p.failf("%s at %v, from %v to %v, returned %t, %v; want true and no error",
						describe(r, next), now, earliest, latest, ok, err)
				}
				p.holds(other, next)
				r = next
				next = following(r, "two")
			}
		},
	}
}

// bounded is a store that can look at its clock while it swaps.
type bounded interface {
	lease.Store
	lease.WithinSwapper
}

// withinSwapper skips the clause if the store lacks the ability.
func (p *probe) withinSwapper(s lease.Store) bounded {
	p.t.Helper()
	able, ok := s.(bounded)
	if !ok {
		p.t.Skipf("the store has no SwapWithin, which it may leave out")
	}
	return able
}
