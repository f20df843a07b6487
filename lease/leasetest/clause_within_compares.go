package leasetest

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func withinCompares() clause {
	return clause{
		name: "SwapWithin compares as Swap does",
		why: "With the clock inside, SwapWithin is Swap: atomic, refused for another owner, another version, a " +
			"record that is not there, or a creation where there is one.",
		check: func(p *probe) {
			s := p.open()
			able := p.withinSwapper(s)
			old := p.create(s, first(7, "one"))
			r := p.swap(s, old, following(old, "two"))
			stranger := r
			stranger.Owner = "one"
			past := r
			past.Version = 1
			for reason, swap := range map[string][2]lease.Record{
				"the stored record has another owner":   {stranger, following(r, "three")},
				"the stored record has another version": {past, following(past, "three")},
				"the record has changed since then":     {old, following(old, "three")},
				"the node has no record":                {first(8, "one"), following(first(8, "one"), "three")},
				"the node has a record":                 {{}, first(7, "three")},
			} {
				prev, next := swap[0], swap[1]
				now := p.now(s)
				ok, err := able.SwapWithin(p.ctx, prev, next, now.Add(-time.Minute), now.Add(time.Minute))
				if ok || err != nil {
					p.failf("%s, although %s, returned %t, %v; want false and no error",
						describe(prev, next), reason, ok, err)
				}
				p.holds(s, r)
			}
			p.raceWithin(r)
		},
	}
}

// raceWithin swaps r by SwapWithin on several handles at once.
func (p *probe) raceWithin(r lease.Record) {
	p.t.Helper()
	var stores []lease.Store
	for _, s := range p.handles(4) {
		stores = append(stores, hasty{p.withinSwapper(s)})
	}
	for range 5 {
		r = p.race(stores, r, 8)
	}
}

// hasty swaps by SwapWithin.
type hasty struct{ bounded }

func (h hasty) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	now, err := h.Now(ctx)
	if err != nil {
		return false, err
	}
	return h.SwapWithin(ctx, prev, next, now.Add(-time.Minute), now.Add(time.Minute))
}
