package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A probe runs a clause. Its methods end the clause if the store does not do what their names say.
// They must therefore be called from the goroutine of the test.
type probe struct {
	t    reporter
	ctx  context.Context
	open func() lease.Store // opens another handle on the storage
	why  string
}

func (p *probe) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n\nThe contract: %s", fmt.Sprintf(format, args...), p.why)
}

// must ends the clause if what was done has ended with an error.
func (p *probe) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.failf("%s: %v", what, err)
	}
}

func (p *probe) handles(n int) []lease.Store {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = p.open()
	}
	return stores
}

func (p *probe) create(s lease.Store, first lease.Record) lease.Record {
	p.t.Helper()
	return p.swap(s, lease.Record{Node: first.Node}, first)
}

func (p *probe) swap(s lease.Store, prev, next lease.Record) lease.Record {
	p.t.Helper()
	p.must(describe(prev, next), settled(s.Swap(p.ctx, prev, next)))
	return next
}

// refuse expects that a swap is refused for the given reason.
func (p *probe) refuse(s lease.Store, prev, next lease.Record, reason string) {
	p.t.Helper()
	switch ok, err := s.Swap(p.ctx, prev, next); {
	case err != nil:
		p.failf("%s, although %s, ended with an error where false is the answer: %v",
			describe(prev, next), reason, err)
	case ok:
		p.failf("%s was done, although %s", describe(prev, next), reason)
	}
}

// list returns all records, sorted by node.
func (p *probe) list(s lease.Store) []lease.Record {
	p.t.Helper()
	records, err := s.List(p.ctx)
	p.must("List", err)
	records = slices.Clone(records)
	slices.SortFunc(records, byNode)
	for i := 1; i < len(records); i++ {
		if records[i].Node == records[i-1].Node {
			p.failf("List returned node %d twice: %+v and %+v", records[i].Node, records[i-1], records[i])
		}
	}
	return records
}

func (p *probe) holds(s lease.Store, want ...lease.Record) {
	p.t.Helper()
	want = slices.Clone(want)
	slices.SortFunc(want, byNode)
	got := p.list(s)
	for _, r := range got {
		if !slices.ContainsFunc(want, func(w lease.Record) bool { return w.Node == r.Node }) {
			p.failf("List returned a record that was never stored, or not under this node: %+v", r)
		}
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(r lease.Record) bool { return r.Node == w.Node })
		if i < 0 {
			p.failf("List returned %d records, and none of node %d, which has %+v", len(got), w.Node, w)
		}
		if d := difference(got[i], w); d != "" {
			p.failf("node %d: %s", w.Node, d)
		}
	}
}

func (p *probe) now(s lease.Store) time.Time {
	p.t.Helper()
	now, err := s.Now(p.ctx)
	p.must("Now", err)
	return now
}

func (p *probe) find(s lease.Store, node int64) lease.Record {
	p.t.Helper()
	r, err := find(p.ctx, s, node)
	p.must("looking for the record", err)
	return r
}

// together calls f(0) to f(n-1) at the same time, and ends the clause with the first error.
func (p *probe) together(n int, f func(i int) error) {
	p.t.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		p.must("among others at the same time", err)
	}
}

// eventually waits until f returns true. The argument what describes the condition.
func (p *probe) eventually(what string, f func() bool) {
	p.t.Helper()
	for !f() {
		select {
		case <-p.ctx.Done():
			p.failf("in all the time there was, %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// race makes many concurrent swaps of prev and returns the record that is stored afterwards.
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
			return fmt.Errorf("%s, in a race, returned an error instead of true or false: %w",
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

// raceWithin makes concurrent swaps of r with SwapWithin on several handles.
func (p *probe) raceWithin(r lease.Record) {
	p.t.Helper()
	var stores []lease.Store
	for _, s := range p.handles(4) {
		stores = append(stores, hasty{p.withinSwapper(s)})
	}
	for range 5 {
		r = p.race(stores, r, 8)
	}
}

// increment replaces the record of a node with a successor. It retries as long as others are
// faster.
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
			return lease.Record{}, fmt.Errorf("%s, among others, returned an error instead of true or false: "+
				"the answer: %w", describe(prev, next), err)
		case ok:
			return next, nil
		case p.ctx.Err() != nil:
			return lease.Record{}, errors.New("a swap did not succeed in the whole time of the clause")
		}
	}
}

// all calls each method of a store and returns the record that follows r.
func (p *probe) all(s lease.Store, r lease.Record) (lease.Record, error) {
	if _, err := s.Now(p.ctx); err != nil {
		return r, fmt.Errorf("Now: %w", err)
	}
	for method, s := range swappers(s) {
		next := following(r, r.Owner)
		if err := settled(s.Swap(p.ctx, r, next)); err != nil {
			return r, fmt.Errorf("%s: %w", method, err)
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
	stored, broken := patiently(func() (lease.Record, error) { return find(p.ctx, s, r.Node) })
	switch {
	case broken != nil:
		p.failf("after a request was broken off, no request of the handle succeeds any more: %v", broken)
	case err == nil:
		p.must(describe(r, next), settled(ok, nil))
		return next
	}
	// Nothing is known of it. It may be done even later, but not after another swap of the record.
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

// withinSwapper skips the clause if the store does not have SwapWithin.
func (p *probe) withinSwapper(s lease.Store) bounded {
	p.t.Helper()
	able, ok := s.(bounded)
	if !ok {
		p.t.Skipf("the store does not have the optional method SwapWithin")
	}
	return able
}

// grantsNothing expects that a store has lost its records and says so.
func (p *probe) grantsNothing(s lease.Store) {
	p.t.Helper()
	for _, node := range []int64{5, 6} {
		for _, s := range swappers(s) {
			p.refuse(s, lease.Record{Node: node}, first(node, "two"), "nothing tells who has the node")
		}
	}
	if records, err := s.List(p.ctx); !errors.Is(err, errs.ErrAuthority) {
		p.failf("List returned %+v and the error %v, want one that wraps ErrAuthority", records, err)
	}
	if k, err := p.acquire(s, layout(), lease.WithNodes(5, 6)); !errors.Is(err, errs.ErrAuthority) {
		p.failf("Acquire returned the error %v, want one that wraps ErrAuthority (a keeper: %t)", err, k != nil)
	}
}
