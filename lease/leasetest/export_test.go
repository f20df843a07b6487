package leasetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Put stores a record without a look at the one that is there.
func (m *Memory) Put(r lease.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[r.Node] = r
}

// Remove removes the record of a node.
func (m *Memory) Remove(node int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, node)
}

// Get returns the record of a node, the zero Record if there is none.
func (m *Memory) Get(node int64) lease.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[node]
}

// ClauseNames returns the names of all clauses.
func ClauseNames() []string {
	var names []string
	for _, g := range groups() {
		for _, c := range g.clauses {
			names = append(names, c.name)
		}
	}
	return names
}

// A Verdict is what a clause says of a store.
type Verdict struct {
	Failure string // "" if the store keeps the clause
	Why     string // the clause's explanation
	Skipped bool
}

// Judge holds a store to a clause, outside of any test.
func Judge(name string, open func() lease.Store, patience time.Duration) (Verdict, error) {
	for _, g := range groups() {
		for _, c := range g.clauses {
			if c.name == name {
				return c.judge(open, patience), nil
			}
		}
	}
	return Verdict{}, fmt.Errorf("there is no clause %q", name)
}

func (c clause) judge(open func() lease.Store, patience time.Duration) Verdict {
	ctx, cancel := context.WithCancel(context.Background())
	j := &judge{ctx: ctx}
	done := make(chan struct{})
	go func() { // because a failure ends the goroutine
		defer close(done)
		defer func() {
			cancel()
			for _, f := range slices.Backward(j.cleanups) {
				f()
			}
		}()
		c.hold(j, open, patience)
	}()
	<-done
	j.verdict.Why = c.why
	return j.verdict
}

// judge stands in for *testing.T.
type judge struct {
	ctx     context.Context
	verdict Verdict

	mu       sync.Mutex
	cleanups []func() // guarded by mu
}

func (j *judge) Helper() {}

func (j *judge) Context() context.Context { return j.ctx }

func (j *judge) Cleanup(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cleanups = append(j.cleanups, f)
}

func (j *judge) Fatalf(format string, args ...any) {
	j.verdict.Failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (j *judge) Skipf(string, ...any) {
	j.verdict.Skipped = true
	runtime.Goexit()
}
