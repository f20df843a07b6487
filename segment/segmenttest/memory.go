package segmenttest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Memory is a handle on a store in memory with all abilities. It serves tests of programs, and is what the
// suite is tried out on. Make one with [NewMemory]. It is safe for concurrent use.
type Memory struct {
	*kept

	identity string // of the store when the handle was made
}

// kept is what the handles share.
type kept struct {
	mu       sync.Mutex
	counters map[string]segment.Counter
	current  string // identity
}

var (
	_ segment.TermsStore = (*Memory)(nil)
	_ segment.Ledger     = (*Memory)(nil)
	_ segment.Identifier = (*Memory)(nil)
	_ Emptier            = (*Memory)(nil)
)

// NewMemory returns a handle on an empty store.
func NewMemory() *Memory {
	return (&Memory{kept: &kept{counters: make(map[string]segment.Counter), current: rand.Text()}}).Handle()
}

// Handle returns another handle on the store, like one of another process.
func (m *Memory) Handle() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{m.kept, m.current}
}

// Empty empties the store, which has another identity then.
func (m *Memory) Empty(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.counters)
	m.current = rand.Text()
	return nil
}

// Identity returns the identity that the store had when the handle was made.
func (m *Memory) Identity(ctx context.Context) (segment.Identity, error) {
	return segment.Identity{ID: m.identity, Place: "the memory of this process"}, ctx.Err()
}

// check returns an error if the context has ended, or the store was emptied. The caller holds mu.
func (m *Memory) check(ctx context.Context) error {
	if ctx.Err() == nil && m.identity != m.current {
		return fmt.Errorf("%w: the store in memory had the identity %s, and was emptied", segment.ErrWentBack,
			m.identity)
	}
	return ctx.Err()
}

// Claim reserves n numbers.
func (m *Memory) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return m.ClaimOn(ctx, name, n, segment.AnyTerms())
}

// ClaimOn reserves n numbers on terms.
func (m *Memory) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := segment.CheckTerms(name, n, t); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx); err != nil {
		return 0, err
	}
	c, found := m.counters[name]
	if !found {
		c = segment.Counter{Name: name, Next: 1, Remainder: t.Remainder, Modulus: t.Modulus, Kind: t.Kind}
	}
	if err := segment.Refusal(c, n, t); err != nil {
		return 0, err
	}
	first := max(c.Next, t.Start)
	if c.Next, c.UpdatedAt = first+n, now(); t.Kind != "" {
		c.Kind = t.Kind
	}
	m.counters[name] = c
	return first, nil
}

// Counters returns the counters whose names begin with prefix.
func (m *Memory) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []segment.Counter
	for _, name := range slices.Sorted(maps.Keys(m.counters)) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, m.counters[name])
		}
	}
	return found, m.check(ctx)
}

// Change replaces prev by next if the counter has the values of prev.
func (m *Memory) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	if err := segment.CheckChange(prev, next); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, found := m.counters[next.Name]
	if err := m.check(ctx); err != nil || found != (prev.Next != 0) || found && !same(stored, prev) {
		return false, err
	}
	next.UpdatedAt = now()
	m.counters[next.Name] = next
	return true, nil
}

// Remove removes the counter if it has the values of prev.
func (m *Memory) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, found := m.counters[prev.Name]
	if err := m.check(ctx); err != nil || !found || !same(stored, prev) {
		return false, err
	}
	delete(m.counters, prev.Name)
	return true, nil
}

// Now returns the time of this machine.
func (m *Memory) Now(ctx context.Context) (time.Time, error) { return now(), ctx.Err() }

// same compares what decides.
func same(a, b segment.Counter) bool {
	a.UpdatedAt, b.UpdatedAt = time.Time{}, time.Time{}
	return a == b
}

func now() time.Time { return time.Now().UTC().Round(0) }
