package leasetest

func absent() clause {
	return clause{
		name: "a record that is not there is not replaced",
		why: "If prev.Version is not 0 and the node has no record, Swap returns false and creates none. " +
			"An upsert would bring back a record that an operator has removed.",
		check: func(p *probe) {
			s := p.open()
			there := p.create(s, first(8, "one"))
			for _, owner := range []string{"one", ""} {
				prev := first(7, owner)
				p.refuse(s, prev, following(prev, "one"), "the node has no record")
				prev.Version = 5
				p.refuse(s, prev, following(prev, "one"), "the node has no record")
			}
			p.holds(s, there)
		},
	}
}
