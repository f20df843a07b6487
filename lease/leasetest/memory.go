package leasetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Memory is a [lease.Store] in memory, for tests. Whoever shares one shares its records, as
// processes do that use one database; they end with it. Make one with [NewMemory]; it must not be
// copied. Its methods are safe for concurrent use. They return an error that wraps the cause of the
// context's end, if it has ended, and otherwise none but those that wrap [lease.ErrInvalidRecord].
type Memory struct {
	now func() time.Time // immutable

	mu      sync.Mutex
	records map[int64]lease.Record // guarded by mu
}

var (
	_ lease.Store         = (*Memory)(nil)
	_ lease.WithinSwapper = (*Memory)(nil)
)

// NewMemory returns an empty store whose clock is now, which must be safe for concurrent use; nil
// stands for time.Now. Keepers need a clock that is within [lease.MaxSkew] of their own.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, records: make(map[int64]lease.Record)}
}

// Now returns what the store's clock shows.
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
	records := make([]lease.Record, 0, len(m.records))
	for _, r := range m.records {
		records = append(records, r)
	}
	return records, nil
}

// Swap stores next if the record of its node has the owner and the version of prev.
func (m *Memory) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return m.swapIf(ctx, prev, next, func() bool { return true })
}

// SwapWithin is Swap as long as the store's clock is from earliest to latest.
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
	stored := m.records[next.Node] // version 0 if there is none, as in prev
	if stored.Version != prev.Version || stored.Version != 0 && stored.Owner != prev.Owner || !timely() {
		return false, nil
	}
	next.Until, next.UpdatedAt = plain(next.Until), plain(next.UpdatedAt)
	m.records[next.Node] = next
	return true, nil
}

func (m *Memory) clock() time.Time { return plain(m.now()) }

// plain is the instant alone, without a zone and a monotonic reading.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// ended is why the store does nothing for ctx any more.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("leasetest: nothing was asked of the store in memory: %w", context.Cause(ctx))
	}
	return nil
}
