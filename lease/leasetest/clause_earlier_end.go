package leasetest

import "time"

func earlierEnd() clause {
	return clause{
		name: "the end may be moved to an earlier time",
		why: "A store does not judge what it keeps: keepers write an earlier Until when they give a node back, " +
			"and may write one that is past or far ahead. A record never expires.",
		check: func(p *probe) {
			s := p.open()
			r := p.create(s, first(7, "one"))
			for _, until := range []time.Time{
				r.Until.Add(-time.Nanosecond), time.Date(2025, 1, 1, 0, 0, 0, 1_000_000, time.UTC),
				time.Date(1970, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC),
			} {
				next := following(r, "one")
				next.Until = until
				r = p.swap(s, r, next)
				p.holds(s, r)
			}
		},
	}
}
