package leasetest

func seenAtOnce() clause {
	return clause{
		name: "what one handle has stored all others see at once",
		why: "When Swap has returned true, every List and Swap that begins later sees it, in whichever " +
			"process: neither may be answered from a cache, a snapshot that was opened earlier, or " +
			"a replica that lags behind.",
		check: func(p *probe) {
			stores := p.handles(3)
			r := p.create(stores[0], first(7, "one"))
			for i := range 30 {
				reader := stores[(i+1)%len(stores)]
				if i%2 == 0 {
					p.holds(reader, r)
				}
				r = p.swap(reader, r, following(r, "one"))
			}
			p.holds(stores[0], r)
			p.holds(p.open(), r) // a process that starts later
		},
	}
}
