package leasetest_test

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// altered is a handle on a store in memory some of whose methods do something else; those that are
// nil are as they should be.
type altered struct {
	*leasetest.Memory
	now    func(ctx context.Context) (time.Time, error)
	list   func(ctx context.Context) ([]lease.Record, error)
	swap   swapFunc
	within func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error)
	hint   time.Duration
	probe  func(ctx context.Context) error
	empty  func(ctx context.Context) error
}

type swapFunc func(ctx context.Context, prev, next lease.Record) (bool, error)

var (
	_ lease.WithinSwapper = altered{}
	_ lease.SpanHinter    = altered{}
	_ lease.Prober        = altered{}
	_ leasetest.Emptier   = altered{}
)

func (a altered) Now(ctx context.Context) (time.Time, error) {
	if a.now != nil {
		return a.now(ctx)
	}
	return a.Memory.Now(ctx)
}

func (a altered) List(ctx context.Context) ([]lease.Record, error) {
	if a.list != nil {
		return a.list(ctx)
	}
	return a.Memory.List(ctx)
}

func (a altered) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if a.swap != nil {
		time.Sleep(time.Millisecond) // a keeper that is refused again and again comes to the end of its time
		return a.swap(ctx, prev, next)
	}
	return a.Memory.Swap(ctx, prev, next)
}

// SwapWithin is as wrong as Swap if it is not altered itself.
func (a altered) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	switch {
	case a.within != nil:
		return a.within(ctx, prev, next, earliest, latest)
	case a.swap != nil:
		return a.swap(ctx, prev, next)
	}
	return a.Memory.SwapWithin(ctx, prev, next, earliest, latest)
}

func (a altered) Probe(ctx context.Context) error {
	if a.probe != nil {
		return a.probe(ctx)
	}
	return ctx.Err()
}

func (a altered) Empty(ctx context.Context) error {
	if a.empty != nil {
		return a.empty(ctx)
	}
	return a.Memory.Empty(ctx)
}

func (a altered) SpanHint() time.Duration { return a.hint }

// one makes storages all of whose handles have the same fault.
func one(alter func(m *leasetest.Memory) altered) func() func() lease.Store {
	return func() func() lease.Store {
		m := leasetest.NewMemory(nil)
		handle := alter(m)
		handle.Memory = m
		return func() lease.Store { return handle }
	}
}

// each makes storages whose handles are all altered anew.
func each(alter func(m *leasetest.Memory) altered) func() func() lease.Store {
	return func() func() lease.Store {
		m := leasetest.NewMemory(nil)
		return func() lease.Store {
			handle := alter(m)
			handle.Memory = m
			return handle
		}
	}
}

// swapping makes storages whose Swap is another.
func swapping(alter func(m *leasetest.Memory) swapFunc) func() func() lease.Store {
	return one(func(m *leasetest.Memory) altered { return altered{swap: alter(m)} })
}

// keeping makes storages that keep something else than they are given, but find it again.
func keeping(change func(lease.Record) lease.Record) func() func() lease.Store {
	return swapping(func(m *leasetest.Memory) swapFunc {
		return func(ctx context.Context, prev, next lease.Record) (bool, error) {
			kept := prev
			if prev.Version != 0 {
				kept = change(prev)
			}
			ok, err := m.Swap(ctx, kept, next)
			if ok && err == nil {
				m.Remove(next.Node)
				m.Put(change(next))
			}
			return ok, err
		}
	})
}

// listing makes storages whose List shows something else.
func listing(change func([]lease.Record) []lease.Record) func() func() lease.Store {
	return one(func(m *leasetest.Memory) altered {
		return altered{list: func(ctx context.Context) ([]lease.Record, error) {
			records, err := m.List(ctx)
			return change(records), err
		}}
	})
}

// matching makes storages that compare in their own way. They are not atomic.
func matching(match func(stored, prev lease.Record) bool) func() func() lease.Store {
	return swapping(func(m *leasetest.Memory) swapFunc {
		return func(ctx context.Context, prev, next lease.Record) (bool, error) {
			if err := lease.CheckSwap(prev, next); err != nil {
				return false, err
			}
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			if !match(m.Get(next.Node), prev) {
				return false, nil
			}
			m.Put(next)
			return true, nil
		}
	})
}
