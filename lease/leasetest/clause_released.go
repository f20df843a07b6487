package leasetest

func releasedAndTaken() clause {
	return clause{
		name: "a node that was given back is taken again",
		why: "A record whose owner is empty is an ordinary record: Swap compares the empty owner, List returns " +
			"it, and its version goes on. It holds the end of the last window, so it must not be removed, " +
			"nor may it expire.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			r := p.create(s, first(7, "one"))
			for _, owner := range []string{"", "two", "", "", "three"} {
				r = p.swap(s, r, following(r, owner))
				p.holds(other, r)
			}
		},
	}
}
