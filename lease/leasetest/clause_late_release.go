package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func lateRelease() clause {
	return clause{
		name: "a release that comes late does not free the next holder's node",
		why: "Close gives back by a swap of the owner's own record. If the node has a new holder, that swap is " +
			"refused, and the new holder's record stays as it is.",
		check: func(p *probe) {
			s := p.open()
			k := p.keeper(p.open(), lease.Nodes(5, 5), lease.Span(long))
			p.next(p.generator(k))
			stolen := p.steal(s, 5)
			if err := k.Close(p.ctx); err != nil {
				p.failf("Close, of a node that belongs to somebody else already: %v", err)
			}
			p.holds(s, stolen)
		},
	}
}
