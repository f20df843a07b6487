package leasetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// mutantsOfOptions have a wrong clock or a wrong one of the abilities that a store may leave out.
func mutantsOfOptions() []mutant {
	type withinFunc = func(context.Context, lease.Record, lease.Record, time.Time, time.Time) (bool, error)
	swappingWithin := func(alter func(m *leasetest.Memory) withinFunc) func() func() lease.Store {
		return one(func(m *leasetest.Memory) altered { return altered{within: alter(m)} })
	}
	const distant = 20 * 365 * 24 * time.Hour
	return []mutant{
		{
			name: "has a clock that stands still",
			storage: one(func(*leasetest.Memory) altered {
				start := time.Now()
				return altered{now: func(context.Context) (time.Time, error) { return start, nil }}
			}),
			breaks: []string{"the clock goes on and is one for all"},
		},
		{
			name: "has a clock that was never set",
			storage: one(func(*leasetest.Memory) altered {
				return altered{now: func(context.Context) (time.Time, error) { return time.Time{}, nil }}
			}),
			breaks: []string{
				"the clock goes on and is one for all", "keepers that start together get different nodes",
			},
		},
		{
			name: "has a clock for each handle",
			storage: func() func() lease.Store {
				m := leasetest.NewMemory(nil)
				var handles atomic.Int64
				return func() lease.Store {
					wrong := time.Duration(handles.Add(1)) * time.Hour
					return altered{Memory: m, now: func(context.Context) (time.Time, error) {
						return time.Now().Add(wrong), nil
					}}
				}
			},
			breaks: []string{"the clock goes on and is one for all"},
		},
		{
			name: "has the time of another zone",
			storage: func() func() lease.Store {
				m := leasetest.NewMemory(func() time.Time { return time.Now().Add(2 * time.Hour) })
				return func() lease.Store { return m }
			},
			breaks: []string{
				"a keeper extends its window before it ends",
				"the node of a holder that is gone is taken when its window has ended",
			},
		},
		{
			name: "never swaps within",
			storage: swappingWithin(func(*leasetest.Memory) withinFunc {
				return func(_ context.Context, prev, next lease.Record, _, _ time.Time) (bool, error) {
					return false, lease.CheckSwap(prev, next)
				}
			}),
			breaks: []string{"SwapWithin swaps while the clock is inside"},
		},
		{
			name: "looks at the hours of the bounds, whatever their zone",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					_, from := earliest.Zone()
					_, to := latest.Zone()
					return m.SwapWithin(ctx, prev, next,
						earliest.Add(time.Duration(from)*time.Second), latest.Add(time.Duration(to)*time.Second))
				}
			}),
			breaks: []string{"SwapWithin swaps while the clock is inside"},
		},
		{
			name: "looks at no clock",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, _, _ time.Time) (bool, error) {
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{"SwapWithin refuses while the clock is outside"},
		},
		{
			name: "does not look at the earliest time",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					return m.SwapWithin(ctx, prev, next, earliest.Add(-distant), latest)
				}
			}),
			breaks: []string{"SwapWithin refuses while the clock is outside"},
		},
		{
			name: "does not look at the latest time",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					return m.SwapWithin(ctx, prev, next, earliest, latest.Add(distant))
				}
			}),
			breaks: []string{"SwapWithin refuses while the clock is outside"},
		},
		{
			name: "fails outside",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					ok, err := m.SwapWithin(ctx, prev, next, earliest, latest)
					if !ok && err == nil {
						err = errors.New("not at this time")
					}
					return ok, err
				}
			}),
			breaks: []string{"SwapWithin refuses while the clock is outside", "SwapWithin compares as Swap does"},
		},
		{
			name: "ignores the context within",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					return m.SwapWithin(context.WithoutCancel(ctx), prev, next, earliest, latest)
				}
			}),
			breaks: []string{"a context that has ended is an error and stores nothing"},
		},
		{
			name: "does not check what it swaps within",
			storage: swappingWithin(func(m *leasetest.Memory) withinFunc {
				return func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
					if lease.CheckSwap(prev, next) != nil {
						return false, nil
					}
					return m.SwapWithin(ctx, prev, next, earliest, latest)
				}
			}),
			breaks: []string{"an invalid swap is an error and changes nothing"},
		},
		{
			name:    "hints at a negative span",
			storage: one(func(*leasetest.Memory) altered { return altered{hint: -time.Second} }),
			breaks:  []string{"a hint at the span is one for all and not negative"},
		},
		{
			name: "hints at another span each time",
			storage: func() func() lease.Store {
				m := leasetest.NewMemory(nil)
				var handles atomic.Int64
				return func() lease.Store {
					return altered{Memory: m, hint: time.Duration(handles.Add(1)) * time.Second}
				}
			},
			breaks: []string{"a hint at the span is one for all and not negative"},
		},
		{
			name: "fails when it is probed",
			storage: one(func(*leasetest.Memory) altered {
				return altered{probe: func(context.Context) error { return errors.New("busy") }}
			}),
			breaks: []string{"a probe is answered by a store that works, and changes nothing"},
		},
		{
			name: "says that it answers although nobody waits any more",
			storage: one(func(*leasetest.Memory) altered {
				return altered{probe: func(context.Context) error { return nil }}
			}),
			breaks: []string{"a context that has ended is an error and stores nothing"},
		},
		{
			name: "removes a record when it is probed",
			storage: one(func(m *leasetest.Memory) altered {
				return altered{probe: func(ctx context.Context) error {
					m.Remove(7)
					return ctx.Err()
				}}
			}),
			breaks: []string{"a probe is answered by a store that works, and changes nothing"},
		},
	}
}
