package leasetest

import (
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func allAtOnce() clause {
	return clause{
		name: "all methods may be called at once",
		why: "A handle is safe for concurrent use. Each goroutine here has a node of its own, so every swap is " +
			"done and every List shows what its goroutine has just stored. The race detector should be on.",
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
	}
}

// all calls each method of a store and returns what it has made of r.
func (p *probe) all(s lease.Store, r lease.Record) (lease.Record, error) {
	now, err := s.Now(p.ctx)
	if err != nil {
		return r, fmt.Errorf("Now: %w", err)
	}
	next := following(r, r.Owner)
	if err := settled(s.Swap(p.ctx, r, next)); err != nil {
		return r, fmt.Errorf("Swap: %w", err)
	}
	r = next
	if s, able := s.(lease.WithinSwapper); able {
		next = following(r, r.Owner)
		ok, err := s.SwapWithin(p.ctx, r, next, now.Add(-time.Hour), now.Add(time.Hour))
		if err := settled(ok, err); err != nil {
			return r, fmt.Errorf("SwapWithin: %w", err)
		}
		r = next
	}
	if s, able := s.(lease.SpanHinter); able {
		s.SpanHint()
	}
	stored, err := find(p.ctx, s, r.Node)
	if err != nil {
		return r, err
	}
	if d := difference(stored, r); d != "" {
		return r, fmt.Errorf("node %d, which was just stored: %s", r.Node, d)
	}
	return r, nil
}
