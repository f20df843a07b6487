package leasetest

import (
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func nodeHeld() clause {
	return clause{
		name: "a keeper that wants one node is told who holds it",
		why: "Who asks for exactly one node, which is held for longer than is worth waiting for, gets " +
			"ErrNodeHeld with the record of the holder, and changes nothing.",
		check: func(p *probe) {
			s := p.open()
			k := p.keeper(s, lease.Nodes(3, 3), lease.Span(long), lease.Owner("the holder"))
			before := p.find(s, 3)
			_, err := p.acquire(p.open(), layout(), lease.Nodes(3, 3), lease.Span(short))
			var held *lease.NodeHeldError
			if !errors.As(err, &held) || !errors.Is(err, lease.ErrNodeHeld) {
				p.failf("Acquire of a node that is held returned the error %v, want a NodeHeldError", err)
			}
			if d := difference(held.Record, before); d != "" || held.Record.Node != k.Window().Node {
				p.failf("the error is about node %d, not as it is stored: %s", held.Record.Node, d)
			}
			p.holds(s, before)
		},
	}
}
