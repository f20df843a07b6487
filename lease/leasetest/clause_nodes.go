package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func nodes() clause {
	return clause{
		name: "any node from 0 up has its own record",
		why: "Node 0 is a number like any other, although some libraries take a zero key for a missing one. " +
			"Numbers are kept in 64 bits, and each is told from those that begin with the same digits.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			var stored []lease.Record
			for _, node := range []int64{0, 1, 10, 100, 2, 1023, 1<<20 - 1, 1 << 31, 1<<53 + 1, 1 << 62} {
				stored = append(stored, p.create(s, first(node, "one")))
			}
			p.holds(other, stored...)
			for i, r := range stored {
				stored[i] = p.swap(other, r, following(r, "two"))
			}
			p.holds(s, stored...)
		},
	}
}
