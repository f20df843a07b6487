package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func manyRecords() clause {
	return clause{
		name: "List returns all of many records",
		why: "List returns every record, once, however many pages the system needs for it. A keeper takes " +
			"a node that it does not find for one that was never used.",
		check: func(p *probe) {
			stores := p.handles(4)
			stored := make([]lease.Record, 300)
			for i := range stored {
				stored[i] = first(int64(i)*3491, "one") // up to 2^20
			}
			p.together(len(stores), func(worker int) error {
				for i := worker; i < len(stored); i += len(stores) {
					if err := settled(stores[worker].Swap(p.ctx, lease.Record{}, stored[i])); err != nil {
						return err
					}
				}
				return nil
			})
			for _, s := range stores {
				p.holds(s, stored...)
			}
		},
	}
}
