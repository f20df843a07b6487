package leasetest

import (
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func noFreeNode() clause {
	return clause{
		name: "when all nodes are held the next keeper is told by whom",
		why: "A node whose record ends in the future is not free. When List shows that of all, Acquire returns " +
			"ErrNoFreeNode with their records, and takes none.",
		check: func(p *probe) {
			const nodes = 3
			for range nodes {
				p.keeper(p.open(), lease.Nodes(10, 10+nodes-1), lease.Span(long))
			}
			before := p.list(p.open())
			_, err := p.acquire(p.open(), layout(), lease.Nodes(10, 10+nodes-1))
			var full *lease.NoFreeNodeError
			if !errors.As(err, &full) || !errors.Is(err, lease.ErrNoFreeNode) {
				p.failf("with all %d nodes held, Acquire returned the error %v, want a NoFreeNodeError", nodes, err)
			}
			if len(full.Holders) != nodes {
				p.failf("of %d holders the error names %d: %v", nodes, len(full.Holders), err)
			}
			p.holds(p.open(), before...)
		},
	}
}
