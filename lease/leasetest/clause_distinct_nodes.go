package leasetest

import (
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func distinctNodes() clause {
	return clause{
		name: "keepers that start together get different nodes",
		why: "Every keeper takes a node by one swap and gets one that no other has: sixteen that start at " +
			"the same time share out sixteen nodes. No two IDs of their generators are equal.",
		check: func(p *probe) {
			const keepers, each = 16, 500
			stores := p.handles(4)
			held := make([]*lease.Keeper, keepers)
			ids := make([][]int64, keepers)
			p.together(keepers, func(i int) error {
				k, err := p.acquire(stores[i%len(stores)], layout(), lease.Nodes(0, keepers-1), lease.Span(long))
				if err != nil {
					return err
				}
				held[i], ids[i] = k, make([]int64, each)
				g, err := generator.New(layout(), k)
				if err != nil {
					return err
				}
				return g.Fill(p.ctx, ids[i])
			})
			nodes, all := make(map[int64]bool), make(map[int64]bool)
			for i, k := range held {
				nodes[k.Window().Node] = true
				for _, id := range ids[i] {
					all[id] = true
				}
			}
			if len(nodes) != keepers || len(all) != keepers*each {
				p.failf("%d keepers have %d nodes, and %d of %d IDs are different",
					keepers, len(nodes), len(all), keepers*each)
			}
			for _, r := range p.list(stores[0]) {
				if err := r.Validate(); err != nil || r.Version != 1 || r.Layout != lease.Fingerprint(layout()) {
					p.failf("a keeper's first record is %s", fmt.Sprintf("%+v (%v)", r, err))
				}
			}
		},
	}
}
