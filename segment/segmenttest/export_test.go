package segmenttest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Put stores a counter without a look at the one that is there.
func (m *Memory) Put(c segment.Counter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters[c.Name] = c
}

// Delete removes a counter.
func (m *Memory) Delete(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.counters, name)
}

// Get returns a counter. Its Next is 0 if there is none.
func (m *Memory) Get(name string) segment.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counters[name]
}

// ClauseNames returns the names of all clauses.
func ClauseNames() []string {
	var names []string
	for _, c := range clauses() {
		names = append(names, c.name)
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
func Judge(name string, open func() segment.Store, patience time.Duration) (Verdict, error) {
	for _, c := range clauses() {
		if c.name == name {
			return c.judge(open, patience), nil
		}
	}
	return Verdict{}, fmt.Errorf("there is no clause %q", name)
}

func (c clause) judge(open func() segment.Store, patience time.Duration) Verdict {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j := &judge{ctx: ctx}
	done := make(chan struct{})
	go func() { // because a failure ends the goroutine
		defer close(done)
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
}

func (j *judge) Helper() {}

func (j *judge) Context() context.Context { return j.ctx }

func (j *judge) Fatalf(format string, args ...any) {
	j.verdict.Failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (j *judge) Skipf(string, ...any) {
	j.verdict.Skipped = true
	runtime.Goexit()
}
