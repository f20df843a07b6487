package leasetest

import (
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func racingSwaps() clause {
	return clause{
		name: "of racing swaps exactly one is done",
		why: "Compare and swap are one atomic step. Of many swaps from the same record one returns true and " +
			"the others false; to lose a race is no error, so what the system reports as a conflict, " +
			"a deadlock or a busy database is for the store to sort out.",
		check: func(p *probe) {
			const workers, rounds = 8, 15
			stores := p.handles(4)
			r := p.create(stores[0], first(7, "one"))
			for range rounds {
				r = p.race(stores, r, workers)
			}
		},
	}
}

// race swaps prev from many sides at once and returns what is stored then.
func (p *probe) race(stores []lease.Store, prev lease.Record, workers int) lease.Record {
	p.t.Helper()
	won := make([]bool, workers)
	proposal := func(worker int) lease.Record {
		if prev.Version == 0 {
			return first(prev.Node, fmt.Sprintf("worker %d", worker))
		}
		return following(prev, fmt.Sprintf("worker %d", worker))
	}
	p.together(workers, func(worker int) error {
		next := proposal(worker)
		ok, err := stores[worker%len(stores)].Swap(p.ctx, prev, next)
		if err != nil {
			return fmt.Errorf("%s, in a race, ended with an error where true or false is the answer: %w",
				describe(prev, next), err)
		}
		won[worker] = ok
		return nil
	})
	var winners []lease.Record
	for worker, ok := range won {
		if ok {
			winners = append(winners, proposal(worker))
		}
	}
	if len(winners) != 1 {
		p.failf("of %d swaps from version %d of node %d, %d returned true, want exactly one",
			workers, prev.Version, prev.Node, len(winners))
	}
	if d := difference(p.find(stores[0], prev.Node), winners[0]); d != "" {
		p.failf("node %d is not what the winner of a race has stored: %s", prev.Node, d)
	}
	return winners[0]
}
