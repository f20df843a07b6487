package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func clausesOfRequests() []clause {
	return []clause{
		{
			name: "a context that has ended is an error and stores nothing",
			why: "Every method checks its context. It returns an error at once if the context was canceled or " +
				"its deadline passed before the call. Then nothing is stored, not even in the background.",
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
						// A store that checks its context needs less than a tenth of this time.
						if took := time.Since(began); took > 10*time.Second {
							p.failf("%s with %s took %v", method, name, took)
						}
					}
				}
				p.holds(s, r)
				p.holds(other, r)
				p.swap(s, r, following(r, "one")) // the handle still works
			},
		},
		{
			name: "answers are true even where contexts end in the middle",
			why: "If a context ends during Swap, the swap may be done already, may be done later, or may " +
				"never be done. Swap then returns an error. It returns true only if next is stored, and " +
				"false only if next will never be stored. An error makes no statement about that.",
			check: func(p *probe) {
				const workers, each = 6, 25
				stores := p.handles(3)
				began := time.Now()
				r := p.create(stores[0], first(7, "one"))
				usual := time.Since(began)
				h := history{answers: make(map[string]bool), versions: map[int64]string{1: "one"}}
				p.together(workers, func(worker int) error {
					s := stores[worker%len(stores)]
					for i := range each {
						owner := fmt.Sprintf("worker %d, swap %d", worker, i)
						if err := h.swap(p.ctx, s, r.Node, owner, usual*time.Duration(i)*2/each); err != nil {
							return err
						}
					}
					return nil
				})
				last, err := patiently(func() (lease.Record, error) { return find(p.ctx, stores[0], r.Node) })
				if err == nil {
					err = h.end(last)
				}
				p.must("after requests that were broken off", err)
				// The node can then be used as if nothing had happened.
				_, err = patiently(func() (lease.Record, error) { return p.increment(stores[0], r.Node, "last") })
				p.must("after requests that were broken off", err)
			},
		},
		{
			name: "the clock goes on and is one for all",
			why: "Now reads the clock of the system that keeps the records and not the clock of the " +
				"calling process, so all processes agree on which nodes are free. It returns an instant " +
				"in any zone, and the clock advances.",
			check: func(p *probe) {
				a, b := p.open(), p.open()
				start := p.now(a)
				if start.IsZero() {
					p.failf("Now returned the zero time")
				}
				const tolerance = time.Second // allows for a system that is adjusting its clock
				for range 10 {
					before := p.now(a)
					between := p.now(b)
					after := p.now(a)
					if between.Before(before.Add(-tolerance)) || between.After(after.Add(tolerance)) {
						p.failf("one handle's clock showed %v and then %v, and another's %v in between",
							before, after, between)
					}
				}
				began := time.Now()
				for _, s := range []lease.Store{a, b} {
					p.eventually("the clock stood still", func() bool {
						waited := time.Since(began)
						goesOn := p.now(s).After(start)
						if !goesOn && waited > lease.MaxSkew { // no keeper could use it
							p.failf("the clock stood still for %v", waited)
						}
						return goesOn
					})
				}
			},
		},
		{
			name: "SwapWithin swaps while the clock is inside",
			why: "SwapWithin works like Swap if the store's clock is between earliest and latest, in whichever " +
				"zone these are. It creates and replaces records, and compares nothing else except the clock.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				able := p.withinSwapper(s)
				far := time.FixedZone("", -11*60*60-30*60)
				var r lease.Record
				next := first(7, "one")
				for range 3 {
					now := p.now(s)
					earliest, latest := now.Add(-time.Minute), now.Add(time.Minute).In(far)
					ok, err := able.SwapWithin(p.ctx, r, next, earliest, latest)
					if !ok || err != nil {
						p.failf("%s at %v, from %v to %v, returned %t, %v; want true and no error",
							describe(r, next), now, earliest, latest, ok, err)
					}
					p.holds(other, next)
					r = next
					next = following(r, "two")
				}
			},
		},
		{
			name: "SwapWithin refuses while the clock is outside",
			why: "If the store's clock is before earliest or after latest, SwapWithin returns false " +
				"without an error and stores nothing. The keeper then reads the clock to find out whether " +
				"the clock or the record was the reason.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				able := p.withinSwapper(s)
				r := p.create(s, first(7, "one"))
				far := time.FixedZone("", 14*60*60)
				for _, bounds := range [][2]time.Duration{
					{time.Minute, time.Hour}, {-time.Hour, -time.Minute},
					{24 * time.Hour, 48 * time.Hour}, {-48 * time.Hour, -24 * time.Hour},
					{time.Minute, -time.Minute}, // never
				} {
					for prev, next := range map[lease.Record]lease.Record{
						r:  following(r, "two"),
						{}: first(8, "two"),
					} {
						now := p.now(s)
						earliest, latest := now.Add(bounds[0]).In(far), now.Add(bounds[1])
						ok, err := able.SwapWithin(p.ctx, prev, next, earliest, latest)
						if ok || err != nil {
							p.failf("%s at %v, from %v to %v, returned %t, %v; want false and no error",
								describe(prev, next), now, earliest, latest, ok, err)
						}
					}
				}
				p.holds(other, r)
			},
		},
		{
			name: "SwapWithin compares as Swap does",
			why: "With the clock inside the bounds, SwapWithin works like Swap. It is atomic. It refuses another " +
				"owner, another version, a record that does not exist, and a creation of a record that exists.",
			check: func(p *probe) {
				s := p.open()
				able := hasty{p.withinSwapper(s)}
				old := p.create(s, first(7, "one"))
				r := p.swap(s, old, following(old, "two"))
				stranger := r
				stranger.Owner = "one"
				past := r
				past.Version = 1
				for reason, swap := range map[string][2]lease.Record{
					"the stored record has another owner":   {stranger, following(r, "three")},
					"the stored record has another version": {past, following(past, "three")},
					"the record has changed since then":     {old, following(old, "three")},
					"the node has no record":                {first(8, "one"), following(first(8, "one"), "three")},
					"the node has a record":                 {{}, first(7, "three")},
				} {
					p.refuse(able, swap[0], swap[1], reason)
					p.holds(s, r)
				}
				p.raceWithin(r)
			},
		},
		{
			name: "a hint at the span is one for all and not negative",
			why: "SpanHint is the span of a window that suits the system, or 0 for the default. It makes " +
				"no request and never changes, so all processes use the same span.",
			check: func(p *probe) {
				hints := make(map[string]bool)
				for _, s := range p.handles(3) {
					able, ok := s.(lease.SpanHinter)
					if !ok {
						p.t.Skipf("the store does not have the optional method SpanHint")
					}
					for range 3 {
						hint := able.SpanHint()
						if hint < 0 {
							p.failf("SpanHint returned %v", hint)
						}
						hints[hint.String()] = true
					}
				}
				if len(hints) != 1 {
					p.failf("SpanHint returned different spans: %v", hints)
				}
			},
		},
		{
			name: "a probe is answered by a store that works, and changes nothing",
			why: "Probe tells a keeper whether the store answers while another request has had no answer. It " +
				"returns an error that wraps errors.ErrUnsupported if the store cannot tell.",
			check: func(p *probe) {
				s := p.open()
				able, ok := s.(lease.Prober)
				if !ok {
					p.t.Skipf("the store does not have the optional method Probe")
				}
				r := p.create(s, first(7, "one"))
				for range 3 {
					if err := able.Probe(p.ctx); err != nil && !errors.Is(err, errors.ErrUnsupported) {
						p.failf("Probe: %v", err)
					}
					p.holds(s, r)
				}
				p.swap(s, r, following(r, "one"))
			},
		},
	}
}

// methods lists the ways to use a store that holds r.
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
	if s, able := s.(lease.Prober); able {
		calls["Probe"] = func() (bool, error) { return false, s.Probe(ctx) }
	}
	return calls
}

// patiently repeats a request a few times. Drivers may find out only by a later request that a context which
// has ended has left its connection broken.
func patiently[T any](request func() (T, error)) (answer T, err error) {
	for range 4 {
		if answer, err = request(); err == nil {
			break
		}
	}
	return answer, err
}

// A history is what a store has reported about one node. Each swap has its own owner.
type history struct {
	mu       sync.Mutex
	answers  map[string]bool  // the answer to each swap, by its owner
	versions map[int64]string // the owner of each version that was seen or acknowledged
}

// swap replaces the record of a node but gives up after a time.
func (h *history) swap(
	ctx context.Context, s lease.Store, node int64, owner string, timeout time.Duration,
) error {
	prev, err := patiently(func() (lease.Record, error) { return find(ctx, s, node) })
	if err != nil {
		return err
	}
	if err := h.see(prev); err != nil {
		return err
	}
	next := following(prev, owner)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ok, err := s.Swap(limited, prev, next)
	if err != nil {
		return nil // the context has ended, so the result of the swap is unknown
	}
	h.mu.Lock()
	h.answers[owner] = ok
	h.mu.Unlock()
	if ok {
		return h.see(next)
	}
	return nil
}

// see adds a record that is or was stored. It returns an error if another record has the same
// version.
func (h *history) see(r lease.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if owner, seen := h.versions[r.Version]; seen && owner != r.Owner {
		return fmt.Errorf("version %d belongs to %q and also to %q", r.Version, owner, r.Owner)
	}
	h.versions[r.Version] = r.Owner
	return nil
}

// end returns an error if the history contradicts itself or r, the record that is stored now.
func (h *history) end(r lease.Record) error {
	if err := h.see(r); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for version, owner := range h.versions {
		if done, answered := h.answers[owner]; answered && !done {
			return fmt.Errorf("the swap to %q, version %d, returned false, but was stored", owner, version)
		}
		if version > r.Version {
			return fmt.Errorf("version %d of %q was stored, but now there is version %d", version, owner, r.Version)
		}
	}
	return nil
}

// bounded is a store that can check its clock during a swap.
type bounded interface {
	lease.Store
	lease.WithinSwapper
}

// swappers returns the ways to swap in a store, by the names of its methods.
func swappers(s lease.Store) map[string]lease.Store {
	ways := map[string]lease.Store{"Swap": s}
	if able, ok := s.(bounded); ok {
		ways["SwapWithin"] = hasty{able}
	}
	return ways
}

// hasty is a store whose Swap calls SwapWithin.
type hasty struct{ bounded }

func (h hasty) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	now, err := h.Now(ctx)
	if err != nil {
		return false, err
	}
	return h.SwapWithin(ctx, prev, next, now.Add(-time.Minute), now.Add(time.Minute))
}
