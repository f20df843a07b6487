package segmenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// A probe runs a clause. Its methods end the clause if the store does not do what their names say.
// They must therefore be called from the goroutine of the test.
type probe struct {
	t    reporter
	ctx  context.Context
	open func() segment.Store // opens another handle on the storage
	why  string
}

func (p *probe) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n\nThe contract: %s", fmt.Sprintf(format, args...), p.why)
}

func (p *probe) handles(n int) []segment.Store {
	stores := make([]segment.Store, n)
	for i := range stores {
		stores[i] = p.open()
	}
	return stores
}

func (p *probe) must(err error) {
	p.t.Helper()
	if err != nil {
		p.failf("there was an error: %v", err)
	}
}

func (p *probe) refuse(err, sentinel error) {
	p.t.Helper()
	if !errors.Is(err, sentinel) {
		p.failf("the error was %v, which does not wrap %q", err, sentinel)
	}
}

// claim claims n numbers, and expects them to begin at first, unless first is 0.
func (p *probe) claim(s segment.Store, name string, n, first int64) int64 {
	p.t.Helper()
	got, err := s.Claim(p.ctx, name, n)
	if err != nil {
		p.failf("%d numbers of counter %q could not be claimed: %v", n, name, err)
	}
	if first != 0 && got != first {
		p.failf("a claim of %d numbers of counter %q returned %d, want %d", n, name, got, first)
	}
	return got
}

func (p *probe) claimOn(s segment.TermsStore, name string, n int64, t segment.Terms, first int64) {
	p.t.Helper()
	got, err := s.ClaimOn(p.ctx, name, n, t)
	if err != nil || got != first {
		p.failf("a claim of %d numbers of counter %q on terms %+v returned %d, %v; want %d",
			n, name, t, got, err, first)
	}
}

// noClaimOn expects that a claim on terms is refused with an error that wraps the sentinel.
func (p *probe) noClaimOn(s segment.TermsStore, name string, n int64, t segment.Terms, sentinel error) {
	p.t.Helper()
	_, err := s.ClaimOn(p.ctx, name, n, t)
	p.refuse(err, sentinel)
}

// terms opens a handle that checks terms, or skips the clause.
func (p *probe) terms() segment.TermsStore {
	p.t.Helper()
	s, ok := p.open().(segment.TermsStore)
	if !ok {
		p.t.Skipf("the store checks no terms")
	}
	return s
}

// ledger opens a handle that lists counters, or skips the clause.
func (p *probe) ledger() segment.Ledger {
	p.t.Helper()
	s, ok := p.open().(segment.Ledger)
	if !ok {
		p.t.Skipf("the store lists no counters")
	}
	return s
}

// identity returns the identity of a store, or skips the clause.
func (p *probe) identity(s segment.Store) string {
	p.t.Helper()
	identified, ok := s.(segment.Identifier)
	if !ok {
		p.t.Skipf("the store has no identity")
	}
	is, err := identified.Identity(p.ctx)
	p.must(err)
	return is.ID
}

func (p *probe) counters(s segment.Ledger, prefix string) []segment.Counter {
	p.t.Helper()
	found, err := s.Counters(p.ctx, prefix)
	p.must(err)
	return found
}

func (p *probe) names(s segment.Ledger, prefix string) (names []string) {
	p.t.Helper()
	for _, c := range p.counters(s, prefix) {
		names = append(names, c.Name)
	}
	return names
}

func (p *probe) counter(s segment.Ledger, name string) segment.Counter {
	p.t.Helper()
	c, err := p.find(s, name)
	p.must(err)
	if c.Name != name {
		p.failf("counter %q is not listed", name)
	}
	return c
}

// find returns the counter, or none if it is not there. Any goroutine may call it.
func (p *probe) find(s segment.Ledger, name string) (segment.Counter, error) {
	found, err := s.Counters(p.ctx, name)
	for _, c := range found {
		if c.Name == name {
			return c, err
		}
	}
	return segment.Counter{}, err
}

// source returns a source of the counter "orders" that claims each number by itself.
func (p *probe) source(s segment.Store) *segment.Source {
	p.t.Helper()
	source, err := segment.New(s, "orders", segment.WithBlock(1, 1), segment.WithMaxWait(patience),
		segment.WithLogger(slog.New(slog.DiscardHandler)))
	p.must(err)
	return source
}

// daily takes a daily number of the counter "orders", and expects the error. It returns when the source has
// done what it does beside that, or has not done it for long.
func (p *probe) daily(s segment.Store, clock func() time.Time, want error, done func() bool) {
	p.t.Helper()
	source, err := segment.Daily(s, "orders", 6, time.UTC, segment.WithClock(clock),
		segment.WithMaxWait(patience), segment.WithLogger(slog.New(slog.DiscardHandler)))
	p.must(err)
	_, err = source.Next(p.ctx)
	for range 1000 {
		if done() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.must(source.Close())
	if want != nil {
		p.refuse(err, want)
		return
	}
	p.must(err)
}

func (p *probe) numbers(s *segment.Source, first, last int64) {
	p.t.Helper()
	for want := first; want <= last; want++ {
		if n, err := s.Next(p.ctx); err != nil || n != want {
			p.failf("a source gave out %d, %v; want %d", n, err, want)
		}
	}
}

// race claims from many handles at the same time, and expects that no two claims overlap.
func (p *probe) race(handles, rounds int, what func(i, round int) (name string, n int64)) {
	p.t.Helper()
	stores := p.handles(handles)
	var (
		mu    sync.Mutex
		spans = map[string][]span{}
	)
	p.together(handles, func(i int) error {
		for round := range rounds {
			name, n := what(i, round)
			first, err := stores[i].Claim(p.ctx, name, n)
			if err != nil {
				return fmt.Errorf("a claim beside others failed: %w", err)
			}
			mu.Lock()
			spans[name] = append(spans[name], span{first, n})
			mu.Unlock()
		}
		return nil
	})
	for name, all := range spans {
		p.disjoint(name, all)
	}
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
	p.must(errors.Join(errs...))
}

// disjoint expects that no two claims have a common number.
func (p *probe) disjoint(name string, all []span) {
	p.t.Helper()
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; before.first+before.n > all[i].first {
			p.failf("counter %q: one claim got %d numbers from %d on, and another one %d from %d on", name,
				before.n, before.first, all[i].n, all[i].first)
		}
	}
}

// interrupted claims with contexts that end after some time.
func (p *probe) interrupted() {
	p.t.Helper()
	const handles, rounds = 4, 30
	stores := p.handles(handles)
	var (
		mu   sync.Mutex
		all  []span
		note = func(first, n int64) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, span{first, n})
		}
	)
	p.together(handles, func(i int) error {
		for round := range rounds {
			ctx, cancel := context.WithTimeout(p.ctx, time.Duration(round*round)*10*time.Microsecond)
			first, err := stores[i].Claim(ctx, "orders", 3)
			cancel()
			if err == nil {
				note(first, 3)
			}
		}
		first, err := stores[i].Claim(p.ctx, "orders", 3)
		if err != nil {
			return fmt.Errorf("after interrupted claims: %w", err)
		}
		note(first, 3)
		return nil
	})
	p.disjoint("orders", all)
}

// beside calls other with several handles, and claims from others as long as that takes. It returns the
// claims that succeeded: a store may give up a claim while others remove the counter again and again.
func (p *probe) beside(other func(s segment.Ledger) error) (claimed []span) {
	p.t.Helper()
	const claimers, others, rounds = 4, 2, 20
	var stores []segment.Ledger
	for range claimers + others {
		stores = append(stores, p.ledger())
	}
	var (
		mu      sync.Mutex
		failure error
		busy    atomic.Int64
	)
	busy.Store(others)
	p.together(claimers+others, func(i int) error {
		if i >= claimers {
			defer busy.Add(-1)
			for range rounds {
				time.Sleep(pause)
				if err := other(stores[i]); err != nil {
					return fmt.Errorf("beside claims: %w", err)
				}
			}
			return nil
		}
		for round := int64(0); busy.Load() > 0; round++ {
			time.Sleep(pause)
			n := 1 + round%3
			first, err := stores[i].Claim(p.ctx, "orders", n)
			if p.ctx.Err() != nil {
				return fmt.Errorf("a claim beside changes does not end: %w", p.ctx.Err())
			}
			mu.Lock()
			if err == nil {
				claimed = append(claimed, span{first, n})
			} else {
				failure = err
			}
			mu.Unlock()
		}
		return nil
	})
	if len(claimed) == 0 {
		p.failf("no claim succeeded beside changes: %v", failure)
	}
	return claimed
}

// change changes a counter, and expects that it was done or not.
func (p *probe) change(s segment.Ledger, prev, next segment.Counter, want bool) {
	p.t.Helper()
	if ok, err := s.Change(p.ctx, prev, next); err != nil || ok != want {
		p.failf("the change from %+v to %+v returned %t, %v; want %t", prev, next, ok, err, want)
	}
}

// remove removes a counter, and expects that it was done or not.
func (p *probe) remove(s segment.Ledger, prev segment.Counter, want bool) {
	p.t.Helper()
	if ok, err := s.Remove(p.ctx, prev); err != nil || ok != want {
		p.failf("the removal of %+v returned %t, %v; want %t", prev, ok, err, want)
	}
}
