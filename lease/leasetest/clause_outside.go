package leasetest

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func outside() clause {
	return clause{
		name: "SwapWithin refuses while the clock is outside",
		why: "SwapWithin returns false, no error, and stores nothing if the store's clock is before earliest " +
			"or after latest. The keeper then asks for the time, and learns whether it was that or the record.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			able := p.withinSwapper(s)
			r := p.create(s, first(7, "one"))
			far := time.FixedZone("", 14*60*60)
			for _, bounds := range [][2]time.Duration{
				{time.Minute, time.Hour}, {-time.Hour, -time.Minute},
				{24 * time.Hour, 48 * time.Hour}, {-48 * time.Hour, -24 * time.Hour},
				{time.Minute, -time.Minute}, // never
			} {
				for prev, next := range map[lease.Record]lease.Record{
					r:  following(r, "two"),
					{}: first(8, "two"),
				} {
					now := p.now(s)
					earliest, latest := now.Add(bounds[0]).In(far), now.Add(bounds[1])
					ok, err := able.SwapWithin(p.ctx, prev, next, earliest, latest)
					if ok || err != nil {
						p.failf("%s at %v, from %v to %v, returned %t, %v; want false and no error",
							describe(prev, next), now, earliest, latest, ok, err)
					}
				}
			}
			p.holds(other, r)
		},
	}
}
