package leasetest

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func committed() clause {
	return clause{
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
	}
}

// breakOff begins requests whose contexts end before or in the middle of them, and returns the record
// that is stored then. A swap among them may have been done.
func (p *probe) breakOff(s lease.Store, r lease.Record, after time.Duration) lease.Record {
	p.t.Helper()
	ended, cancel := context.WithTimeout(p.ctx, after)
	defer cancel()
	next := following(r, "one")
	ok, err := s.Swap(ended, r, next)
	_, _ = s.Now(ended)
	_, _ = s.List(ended)
	switch {
	case err == nil && ok:
		return next
	case err == nil:
		p.failf("%s was refused, although the stored record has that owner and version", describe(r, next))
	}
	// Nothing is known of it. It may be done even later, but not after another swap of the record.
	stored := p.find(s, r.Node)
	if difference(stored, r) != "" && difference(stored, next) != "" {
		p.failf("after %s was broken off, the record is %+v", describe(r, next), stored)
	}
	again := following(stored, "one")
	if ok, err := s.Swap(p.ctx, stored, again); err == nil && ok {
		return again
	}
	return p.find(s, r.Node)
}

// swapEither swaps by SwapWithin, if the store can.
func (p *probe) swapEither(s lease.Store, prev, next lease.Record) lease.Record {
	p.t.Helper()
	if able, ok := s.(bounded); ok {
		return p.swap(hasty{able}, prev, next)
	}
	return p.swap(s, prev, next)
}
