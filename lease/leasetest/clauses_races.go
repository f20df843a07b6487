package leasetest

import (
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func clausesOfRaces() []clause {
	return []clause{
		{
			name: "of racing swaps exactly one is done",
			why: "Compare-and-swap is one atomic step. Of many swaps from the same record, one returns " +
				"true and the others return false. To lose a race is not an error, so the store must " +
				"handle what the system reports as a conflict, a deadlock or a busy database.",
			check: func(p *probe) {
				const workers, rounds = 8, 15
				stores := p.handles(4)
				r := p.create(stores[0], first(7, "one"))
				for range rounds {
					r = p.race(stores, r, workers)
				}
			},
		},
		{
			name: "of racing creations exactly one is done",
			why: "Processes that start together on an empty storage ask for the same numbers. Of many creations " +
				"of one node, one returns true and the others return false. A key that already exists is not " +
				"an error.",
			check: func(p *probe) {
				const workers, rounds = 8, 15
				stores := p.handles(4)
				for node := range int64(rounds) {
					p.race(stores, lease.Record{Node: node}, workers)
				}
			},
		},
		{
			name: "of many increments none is lost",
			why: "A change that Swap has acknowledged is never lost. If many processes read the record and " +
				"swap it for its successor until they succeed, each version is stored exactly once.",
			check: func(p *probe) {
				const workers, each = 8, 10
				stores := p.handles(4)
				r := p.create(stores[0], first(7, "one"))
				acknowledged := make([][]lease.Record, workers)
				p.together(workers, func(worker int) error {
					s := stores[worker%len(stores)]
					for i := range each {
						next, err := p.increment(s, r.Node, fmt.Sprintf("worker %d, increment %d", worker, i))
						if err != nil {
							return err
						}
						acknowledged[worker] = append(acknowledged[worker], next)
					}
					return nil
				})
				byVersion := make(map[int64]lease.Record)
				for _, records := range acknowledged {
					for _, next := range records {
						if other, twice := byVersion[next.Version]; twice {
							p.failf("version %d was acknowledged twice: to %q and to %q",
								next.Version, other.Owner, next.Owner)
						}
						byVersion[next.Version] = next
					}
				}
				last := int64(1 + workers*each)
				if got := p.find(stores[0], r.Node); got.Version != last {
					p.failf("after %d increments of version 1 the version is %d, want %d",
						workers*each, got.Version, last)
				}
				p.holds(stores[1], byVersion[last])
			},
		},
		{
			name: "creations of different nodes do not disturb each other",
			why: "Swaps of different nodes are independent. No swap is refused or fails because of the " +
				"others, whatever the system below locks, and all are stored.",
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
		},
		{
			name: "all methods may be called at once",
			why: "A handle is safe for concurrent use. Each goroutine here has its own node, so every swap " +
				"succeeds and every List shows what its goroutine has just stored. Run this clause with " +
				"the race detector.",
			check: func(p *probe) {
				const workers, rounds = 9, 8
				stores := p.handles(3)
				p.together(workers, func(worker int) error {
					s := stores[worker%len(stores)]
					r := first(int64(worker), fmt.Sprintf("worker %d", worker))
					if err := settled(s.Swap(p.ctx, lease.Record{}, r)); err != nil {
						return err
					}
					for range rounds {
						next, err := p.all(s, r)
						if err != nil {
							return fmt.Errorf("with %d goroutines on %d handles: %w", workers, len(stores), err)
						}
						r = next
					}
					return nil
				})
			},
		},
		{
			name: "what was acknowledged is committed, on every connection that the handle may use",
			why: "When Swap or SwapWithin has returned true, the record is committed: other sessions see it, and " +
				"it is still there when the connection that carried it is gone. A request that is broken off makes " +
				"many clients discard their connection, and the next one may be set otherwise: it may be inside " +
				"of a transaction, or commit nothing by itself. A swap that is lost after it was acknowledged " +
				"gives one node to two processes.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				began := time.Now()
				r := p.create(s, first(7, "one"))
				usual := time.Since(began)
				p.holds(other, r)
				const rounds = 12
				for i := range rounds {
					r = p.breakOff(s, r, usual*time.Duration(i)*2/rounds)
					swap := p.swap
					if i%2 == 1 {
						swap = p.swapEither
					}
					r = swap(s, r, following(r, "one"))
					p.holds(other, r) // another session sees it
					p.holds(p.open(), r)
					if i%3 == 2 { // so does this one, by its next connection
						r = p.breakOff(s, r, 0)
						p.holds(s, r)
					}
				}
				// And what was swapped without a look in between is there as well.
				for range rounds {
					r = p.swap(s, r, following(r, "one"))
				}
				p.holds(p.open(), r)
			},
		},
	}
}
