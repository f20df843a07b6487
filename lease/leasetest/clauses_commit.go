package leasetest

import "time"

func committed() clause {
	return clause{
		name: "what was acknowledged is committed, on every connection that the handle may use",
		why: "When Swap or SwapWithin has returned true, the record is committed: other sessions see it, and " +
			"it is still there when the connection that carried it is gone. A request that is broken off makes " +
			"many clients discard their connection, and the next one may be set otherwise: it may be inside " +
			"of a transaction, or commit nothing by itself. A swap that is lost after it was acknowledged " +
			"gives one node to two processes.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			began := time.Now()
			r := p.create(s, first(7, "one"))
			usual := time.Since(began)
			p.holds(other, r)
			const rounds = 12
			for i := range rounds {
				r = p.breakOff(s, r, usual*time.Duration(i)*2/rounds)
				swap := p.swap
				if i%2 == 1 {
					swap = p.swapEither
				}
				r = swap(s, r, following(r, "one"))
				p.holds(other, r) // another session sees it
				p.holds(p.open(), r)
				if i%3 == 2 { // so does this one, by its next connection
					r = p.breakOff(s, r, 0)
					p.holds(s, r)
				}
			}
			// And what was swapped without a look in between is there as well.
			for range rounds {
				r = p.swap(s, r, following(r, "one"))
			}
			p.holds(p.open(), r)
		},
	}
}
