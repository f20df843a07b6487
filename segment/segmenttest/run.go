package segmenttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Run tests a store with one sub-test for each clause of the contract. It returns when all clauses
// have ended. Clauses about optional abilities, such as [segment.TermsStore], are skipped if the store does
// not have them.
//
// Each clause calls storage once. The returned function opens handles on an empty storage that no
// other clause uses. Handles on one storage represent processes, so each handle must find what
// another one has stored. Both functions are called on the goroutine of the clause's test, so they
// may use its t to fail, to skip and to clean up. Clauses run in parallel, so storage must be safe
// for concurrent use.
func Run(t *testing.T, storage func(t *testing.T) (open func() segment.Store)) {
	t.Helper()
	// Parallel clauses end before their group ends, and so before the caller's deferred functions run.
	t.Run("Store", func(t *testing.T) {
		for _, c := range clauses() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.hold(t, storage(t), patience)
			})
		}
	})
}

// patience limits how long a clause may take. No clause needs that long. The limit tells a store
// that hangs from a slow store.
const patience = 2 * time.Minute

// A clause is one requirement of the contract with its test.
type clause struct {
	name string
	// why explains the clause to a user whose store has failed it.
	why   string
	check func(p *probe)
}

// reporter is the part of *testing.T that a clause needs. The tests of this package can let it
// fail.
type reporter interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// hold checks that a store satisfies the clause.
func (c clause) hold(t reporter, open func() segment.Store, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.check(&probe{t: t, ctx: ctx, open: open, why: c.why})
}

// A probe runs a clause. Its methods end the clause if the store does not do what their names say.
// They must therefore be called from the goroutine of the test.
type probe struct {
	t    reporter
	ctx  context.Context
	open func() segment.Store // opens another handle on the storage
	why  string
}

// failf ends the clause and prints its explanation.
func (p *probe) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n\nThe contract: %s", fmt.Sprintf(format, args...), p.why)
}

// must ends the clause if there is an error.
func (p *probe) must(err error) {
	p.t.Helper()
	if err != nil {
		p.failf("there was an error: %v", err)
	}
}

// refuse expects an error that wraps the sentinel.
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

// claimOn is claim on terms.
func (p *probe) claimOn(s segment.TermsStore, name string, n int64, t segment.Terms, first int64) {
	p.t.Helper()
	got, err := s.ClaimOn(p.ctx, name, n, t)
	if err != nil || got != first {
		p.failf("a claim of %d numbers of counter %q on terms %+v returned %d, %v; want %d",
			n, name, t, got, err, first)
	}
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

// counters returns the counters with a prefix.
func (p *probe) counters(s segment.Ledger, prefix string) []segment.Counter {
	p.t.Helper()
	found, err := s.Counters(p.ctx, prefix)
	p.must(err)
	return found
}

// counter returns one counter.
func (p *probe) counter(s segment.Ledger, name string) segment.Counter {
	p.t.Helper()
	for _, c := range p.counters(s, name) {
		if c.Name == name {
			return c
		}
	}
	p.failf("counter %q is not listed", name)
	return segment.Counter{}
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
		if err != nil {
			p.failf("%v", err)
		}
	}
}
