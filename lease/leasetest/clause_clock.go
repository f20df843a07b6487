package leasetest

import "time"

func clock() clause {
	return clause{
		name: "the clock goes on and is one for all",
		why: "Now is the clock of the system that keeps the records, not of the process that asks, so that all " +
			"processes agree on which nodes are free. It is an instant, in whichever zone, and it goes on.",
		check: func(p *probe) {
			a, b := p.open(), p.open()
			start := p.now(a)
			if start.IsZero() {
				p.failf("Now returned the zero time")
			}
			const tolerance = time.Second // for a system that is adjusting its clock
			for range 10 {
				before := p.now(a)
				between := p.now(b)
				after := p.now(a)
				if between.Before(before.Add(-tolerance)) || between.After(after.Add(tolerance)) {
					p.failf("one handle's clock showed %v and then %v, and another's %v in between",
						before, after, between)
				}
			}
			p.eventually("the clock stood still", func() bool { return p.now(a).After(start) })
			p.eventually("the clock stood still", func() bool { return p.now(b).After(start) })
		},
	}
}
