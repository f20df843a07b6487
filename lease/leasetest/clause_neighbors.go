package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func neighbors() clause {
	return clause{
		name: "a swap leaves the other nodes alone",
		why: "Each node has a record of its own. A swap changes that of next.Node only, even where others " +
			"have the same owner and version.",
		check: func(p *probe) {
			s := p.open()
			stored := make([]lease.Record, 12)
			for i := range stored {
				stored[i] = p.create(s, first(int64(i), "one"))
			}
			for _, i := range []int{0, 1, 11, 5, 1} {
				stored[i] = p.swap(s, stored[i], following(stored[i], "two"))
				p.holds(s, stored...)
			}
		},
	}
}
