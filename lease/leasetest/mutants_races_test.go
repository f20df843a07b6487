package leasetest_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// mutantsOfRaces are wrong when several use them, or when a context ends.
func mutantsOfRaces() []mutant {
	// What two requests must not do in between is given a millisecond to happen.
	const gap = time.Millisecond
	return []mutant{
		{
			name: "compares, and then stores",
			storage: matching(func(stored, prev lease.Record) bool {
				time.Sleep(gap)
				return stored.Version == prev.Version && (prev.Version == 0 || stored.Owner == prev.Owner)
			}),
			breaks: []string{
				"of racing swaps exactly one is done", "of racing creations exactly one is done",
				"of many increments none is lost", "SwapWithin compares as Swap does",
			},
		},
		{
			name: "fails when it is busy",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				var busy sync.Mutex
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if !busy.TryLock() {
						return false, errors.New("database is locked")
					}
					defer busy.Unlock()
					time.Sleep(gap)
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{
				"of racing swaps exactly one is done", "of racing creations exactly one is done",
				"of many increments none is lost", "all methods may be called at once",
				"creations of different nodes do not disturb each other", "List returns all of many records",
			},
		},
		{
			name: "refuses when it is busy",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				var busy sync.Mutex
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if !busy.TryLock() {
						return false, lease.CheckSwap(prev, next)
					}
					defer busy.Unlock()
					time.Sleep(gap)
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{
				"creations of different nodes do not disturb each other", "all methods may be called at once",
			},
		},
		{
			name: "ignores its context",
			storage: one(func(m *leasetest.Memory) altered {
				return altered{
					now:  func(ctx context.Context) (time.Time, error) { return m.Now(context.WithoutCancel(ctx)) },
					list: func(ctx context.Context) ([]lease.Record, error) { return m.List(context.WithoutCancel(ctx)) },
					swap: func(ctx context.Context, prev, next lease.Record) (bool, error) {
						return m.Swap(context.WithoutCancel(ctx), prev, next)
					},
				}
			}),
			breaks: []string{"a context that has ended is an error and stores nothing"},
		},
		{
			name: "ignores the context of List",
			storage: one(func(m *leasetest.Memory) altered {
				return altered{list: func(ctx context.Context) ([]lease.Record, error) {
					return m.List(context.WithoutCancel(ctx))
				}}
			}),
			breaks: []string{"a context that has ended is an error and stores nothing"},
		},
		{
			name: "looks at its context when all is done",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(context.WithoutCancel(ctx), prev, next)
					return ok && ctx.Err() == nil, errors.Join(err, ctx.Err())
				}
			}),
			breaks: []string{"a context that has ended is an error and stores nothing"},
		},
		{
			name: "takes a context that ended for a refusal",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(context.WithoutCancel(ctx), prev, next)
					return ok && ctx.Err() == nil, err
				}
			}),
			breaks: []string{"answers are true even where contexts end in the middle"},
		},
		{
			name: "takes a context that ended for a success",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if ctx.Err() != nil {
						return true, nil
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{"answers are true even where contexts end in the middle"},
		},
	}
}
