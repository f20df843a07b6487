package leasetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Memory is a [lease.Store] in memory, for tests. Everybody who uses the same Memory shares its
// records, like processes that use the same database. The records are lost with the Memory. Create
// one with [NewMemory]. It must not be copied. Its methods are safe for concurrent use. If the
// context has ended, they return an error that wraps the cause. Otherwise they return only errors
// that wrap [lease.ErrInvalidRecord], and after [Memory.Empty] one that wraps snowflakeplugin.ErrAuthority.
type Memory struct {
	now func() time.Time // immutable

	mu      sync.Mutex
	records map[int64]lease.Record // guarded by mu
	emptied bool                   // guarded by mu
}

var (
	_ lease.Store         = (*Memory)(nil)
	_ lease.WithinSwapper = (*Memory)(nil)
	_ Emptier             = (*Memory)(nil)
)

// NewMemory returns an empty store whose clock is the function now. The function must be safe for
// concurrent use. A nil function means time.Now. Keepers need a clock that is within
// [lease.MaxSkew] of their own.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, records: make(map[int64]lease.Record)}
}

// Now returns the time of the store's clock.
func (m *Memory) Now(ctx context.Context) (time.Time, error) {
	if err := ended(ctx); err != nil {
		return time.Time{}, err
	}
	return m.clock(), nil
}

// List returns a copy of all records.
func (m *Memory) List(ctx context.Context) ([]lease.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.emptied {
		return nil, fmt.Errorf("leasetest: %w: the records were taken away with Empty: make a new Memory, and "+
			"start again what has used this one", errs.ErrAuthority)
	}
	return slices.Collect(maps.Values(m.records)), nil
}

// Empty takes all records away. From then on no first record is granted.
func (m *Memory) Empty(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.records)
	m.emptied = true
	return nil
}

// Swap stores next if the record of its node has the owner and the version of prev.
func (m *Memory) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return m.swapIf(ctx, prev, next, func() bool { return true })
}

// SwapWithin works like Swap if the store's clock is between earliest and latest.
func (m *Memory) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return m.swapIf(ctx, prev, next, func() bool {
		now := m.clock()
		return !now.Before(earliest) && !now.After(latest)
	})
}

func (m *Memory) swapIf(
	ctx context.Context, prev, next lease.Record, timely func() bool,
) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	if err := ended(ctx); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.emptied && prev.Version == 0 {
		return false, nil
	}
	stored := m.records[next.Node] // version 0 if there is none, as in prev
	if stored.Version != prev.Version || stored.Version != 0 && stored.Owner != prev.Owner || !timely() {
		return false, nil
	}
	next.Until, next.UpdatedAt = plain(next.Until), plain(next.UpdatedAt)
	m.records[next.Node] = next
	return true, nil
}

func (m *Memory) clock() time.Time { return plain(m.now()) }

// plain returns the instant without a zone and without a monotonic reading.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// ended returns the reason why the store does nothing more for ctx.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("leasetest: the store in memory was not called: %w", context.Cause(ctx))
	}
	return nil
}
