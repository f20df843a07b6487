package leasetest

import (
	"errors"
	"math"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func invalid() clause {
	return clause{
		name: "an invalid swap is an error and changes nothing",
		why: "Swap and SwapWithin begin with lease.CheckSwap and return its error, which wraps " +
			"lease.ErrInvalidRecord. What they would store otherwise no keeper could read.",
		check: func(p *probe) {
			s := p.open()
			r := p.create(s, first(5, "one"))
			for fault, spoil := range faults() {
				prev, next := r, following(r, "two")
				spoil(&prev, &next)
				ok, err := s.Swap(p.ctx, prev, next)
				if ok || !errors.Is(err, lease.ErrInvalidRecord) {
					p.failf("Swap with %s returned %t, %v; want false, ErrInvalidRecord", fault, ok, err)
				}
				if s, able := s.(lease.WithinSwapper); able {
					ok, err := s.SwapWithin(p.ctx, prev, next, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
					if ok || !errors.Is(err, lease.ErrInvalidRecord) {
						p.failf("SwapWithin with %s returned %t, %v; want false, ErrInvalidRecord", fault, ok, err)
					}
				}
			}
			p.holds(s, r)
		},
	}
}

// faults make a swap invalid that would be done otherwise.
func faults() map[string]func(prev, next *lease.Record) {
	type record = *lease.Record
	return map[string]func(prev, next record){
		"a negative node":           func(prev, next record) { prev.Node, next.Node = -1, -1 },
		"no layout":                 func(_, next record) { next.Layout = "" },
		"no end":                    func(_, next record) { next.Until = time.Time{} },
		"the same version":          func(_, next record) { next.Version = 1 },
		"a version left out":        func(_, next record) { next.Version = 3 },
		"no version":                func(_, next record) { next.Version = 0 },
		"a negative version before": func(prev, next record) { prev.Version, next.Version = -1, 0 },
		"a version beyond the last": func(prev, next record) {
			prev.Version, next.Version = math.MaxInt64, math.MinInt64
		},
		"another node":                   func(_, next record) { next.Node = 6 },
		"nothing in place of the record": func(_, next record) { *next = lease.Record{} },
		"a creation with the version 2":  func(prev, next record) { *prev, next.Node = lease.Record{}, 6 },
		"a creation without an end": func(prev, next record) {
			*prev, *next = lease.Record{}, first(6, "two")
			next.Until = time.Time{}
		},
	}
}
