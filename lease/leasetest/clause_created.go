package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func created() clause {
	return clause{
		name: "a record is created where there is none",
		why: "If prev.Version is 0, Swap stores next as the first record of next.Node and returns true. " +
			"Nothing else of prev counts then; it may be the zero Record.",
		check: func(p *probe) {
			s := p.open()
			one, two := first(7, "one"), first(8, "two")
			p.swap(s, lease.Record{}, one)
			p.holds(s, one)
			p.swap(s, lease.Record{Node: 8, Owner: "somebody else", Layout: "another"}, two)
			p.holds(s, one, two)
		},
	}
}
