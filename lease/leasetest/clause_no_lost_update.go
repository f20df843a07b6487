package leasetest

import (
	"errors"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func noLostUpdate() clause {
	return clause{
		name: "of many increments none is lost",
		why: "What Swap has acknowledged is never lost. Many that read the record and swap it for its " +
			"successor until they succeed get every version exactly once.",
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
	}
}

// increment replaces the record of a node by a successor, however often others are faster.
func (p *probe) increment(s lease.Store, node int64, owner string) (lease.Record, error) {
	for {
		prev, err := find(p.ctx, s, node)
		if err != nil {
			return lease.Record{}, err
		}
		next := following(prev, owner)
		ok, err := s.Swap(p.ctx, prev, next)
		switch {
		case err != nil:
			return lease.Record{}, fmt.Errorf("%s, among others, ended with an error where true or false is "+
				"the answer: %w", describe(prev, next), err)
		case ok:
			return next, nil
		case p.ctx.Err() != nil:
			return lease.Record{}, errors.New("in all the time there was, a swap did not get its turn")
		}
	}
}
