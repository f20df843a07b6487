package leasetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// failf ends the clause and prints its explanation.
func (p *probe) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n\nThe contract: %s", fmt.Sprintf(format, args...), p.why)
}

// handles opens n handles.
func (p *probe) handles(n int) []lease.Store {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = p.open()
	}
	return stores
}

// create stores the first record of a node.
func (p *probe) create(s lease.Store, first lease.Record) lease.Record {
	p.t.Helper()
	ok, err := s.Swap(p.ctx, lease.Record{Node: first.Node}, first)
	if err != nil {
		p.failf("the first record of node %d could not be stored: %v", first.Node, err)
	}
	if !ok {
		p.failf("the first record of node %d was refused, although there was none", first.Node)
	}
	return first
}

// swap replaces a record.
func (p *probe) swap(s lease.Store, prev, next lease.Record) lease.Record {
	p.t.Helper()
	ok, err := s.Swap(p.ctx, prev, next)
	if err != nil {
		p.failf("%s could not be swapped: %v", describe(prev, next), err)
	}
	if !ok {
		p.failf("%s was refused, although the stored record has that owner and version", describe(prev, next))
	}
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
	if err != nil {
		p.failf("List: %v", err)
	}
	records = slices.Clone(records)
	slices.SortFunc(records, byNode)
	for i := 1; i < len(records); i++ {
		if records[i].Node == records[i-1].Node {
			p.failf("List returned node %d twice: %+v and %+v", records[i].Node, records[i-1], records[i])
		}
	}
	return records
}

// holds expects exactly the given records.
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

// now reads the store's clock.
func (p *probe) now(s lease.Store) time.Time {
	p.t.Helper()
	now, err := s.Now(p.ctx)
	if err != nil {
		p.failf("Now: %v", err)
	}
	return now
}

// find returns the record of a node. The node must have one.
func (p *probe) find(s lease.Store, node int64) lease.Record {
	p.t.Helper()
	r, err := find(p.ctx, s, node)
	if err != nil {
		p.failf("%v", err)
	}
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
		if err != nil {
			p.failf("%v", err)
		}
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
