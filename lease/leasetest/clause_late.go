package leasetest

func late() clause {
	return clause{
		name: "a swap that comes late is refused",
		why: "A swap that was under way while others changed the record must not undo what they did, even if " +
			"the same owner has it again: versions only grow, so that no record comes back.",
		check: func(p *probe) {
			s, slow := p.open(), p.open()
			one := p.create(s, first(7, "one"))
			seen := p.find(slow, 7)
			two := p.swap(s, one, following(one, "two"))
			three := p.swap(s, two, following(two, "one")) // the owner that slow has seen
			p.refuse(slow, seen, following(seen, "one"), "the record has changed twice since it was read")
			p.refuse(slow, two, following(two, "three"), "the record has changed since it was read")
			p.holds(s, three)
			p.swap(slow, three, following(three, "three"))
		},
	}
}
