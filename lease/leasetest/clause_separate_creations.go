package leasetest

import (
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func separateCreations() clause {
	return clause{
		name: "creations of different nodes do not disturb each other",
		why: "Swaps of different nodes have nothing to do with each other. None is refused or fails because " +
			"of the others, whatever they lock in the system below, and all are stored.",
		check: func(p *probe) {
			const workers, each = 8, 5
			stores := p.handles(4)
			stored := make([]lease.Record, workers*each)
			for i := range stored {
				stored[i] = first(int64(i), fmt.Sprintf("worker %d", i%workers))
			}
			p.together(workers, func(worker int) error {
				for i := worker; i < len(stored); i += workers {
					next := stored[i]
					if err := settled(stores[worker%len(stores)].Swap(p.ctx, lease.Record{}, next)); err != nil {
						return fmt.Errorf("%s: %w", describe(lease.Record{}, next), err)
					}
				}
				return nil
			})
			p.holds(stores[0], stored...)
		},
	}
}
