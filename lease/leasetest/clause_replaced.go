package leasetest

func replaced() clause {
	return clause{
		name: "a swap replaces the record",
		why: "If the stored record has the owner and the version of prev, Swap stores next in its place, " +
			"all fields of it, and returns true. The old record is gone.",
		check: func(p *probe) {
			s := p.open()
			r := p.create(s, first(7, "one"))
			for _, owner := range []string{"one", "one", "two", "one", "three"} {
				r = p.swap(s, r, following(r, owner))
				p.holds(s, r)
			}
		},
	}
}
