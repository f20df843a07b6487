package leasetest

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func endedContext() clause {
	return clause{
		name: "a context that has ended is an error and stores nothing",
		why: "Every method looks at its context, and returns an error at once if it was canceled or its " +
			"deadline has passed before the call. Nothing is stored then: not in the background either.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			r := p.create(s, first(1, "one"))
			canceled, cancel := context.WithCancel(p.ctx)
			cancel()
			overdue, cancel := context.WithDeadline(p.ctx, time.Now().Add(-time.Second))
			defer cancel()
			for name, ctx := range map[string]context.Context{
				"a canceled context": canceled, "a context whose deadline has passed": overdue,
			} {
				for method, call := range methods(ctx, s, r) {
					began := time.Now()
					ok, err := call()
					if ok || err == nil {
						p.failf("%s with %s returned %t and error %v, want false and an error", method, name, ok, err)
					}
					// No store that looks at its context takes a tenth of that.
					if took := time.Since(began); took > 10*time.Second {
						p.failf("%s with %s took %v", method, name, took)
					}
				}
			}
			p.holds(s, r)
			p.holds(other, r)
			p.swap(s, r, following(r, "one")) // the handle is as good as before
		},
	}
}

// methods are the ways to use a store that holds r.
func methods(ctx context.Context, s lease.Store, r lease.Record) map[string]func() (bool, error) {
	calls := map[string]func() (bool, error){
		"Now":               func() (bool, error) { _, err := s.Now(ctx); return false, err },
		"List":              func() (bool, error) { _, err := s.List(ctx); return false, err },
		"Swap":              func() (bool, error) { return s.Swap(ctx, r, following(r, "two")) },
		"Swap that creates": func() (bool, error) { return s.Swap(ctx, lease.Record{}, first(2, "two")) },
		"Swap in vain":      func() (bool, error) { return s.Swap(ctx, lease.Record{}, first(r.Node, "two")) },
	}
	if s, able := s.(lease.WithinSwapper); able {
		calls["SwapWithin"] = func() (bool, error) {
			return s.SwapWithin(ctx, r, following(r, "two"), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		}
	}
	return calls
}
