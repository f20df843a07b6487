package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func racingCreations() clause {
	return clause{
		name: "of racing creations exactly one is done",
		why: "Processes that start together on an empty storage want the same numbers. Of many creations of " +
			"one node one returns true and the others false: a key that exists already is no error.",
		check: func(p *probe) {
			const workers, rounds = 8, 15
			stores := p.handles(4)
			for node := range int64(rounds) {
				p.race(stores, lease.Record{Node: node}, workers)
			}
		},
	}
}
