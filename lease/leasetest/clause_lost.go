package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func lost() clause {
	return clause{
		name: "a keeper whose record was taken away goes on with another node",
		why: "A refused extension tells the keeper to look at its record. If that has another owner, the " +
			"keeper leaves it as it is and takes a free node, and its generator goes on, still increasing.",
		check: func(p *probe) {
			s := p.open()
			k := p.keeper(p.open(), lease.Nodes(5, 6), lease.Span(short))
			g := p.generator(k)
			id, parts := p.next(g)
			stolen := p.steal(s, parts.Node)
			p.eventually("the keeper did not move to the other node", func() bool {
				w := k.Window()
				return w.Node != parts.Node && w.Until.After(w.From)
			})
			id2, parts2 := p.next(g)
			if parts2.Node == parts.Node || id2 <= id {
				p.failf("the ID %d of node %d was followed by %d of node %d", id, parts.Node, id2, parts2.Node)
			}
			if d := difference(p.find(s, stolen.Node), stolen); d != "" {
				p.failf("the record that belongs to somebody else was changed: %s", d)
			}
		},
	}
}
