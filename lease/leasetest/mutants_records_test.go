package leasetest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// mutantsOfRecords are wrong in what they keep.
func mutantsOfRecords() []mutant {
	return slices.Concat(mutantsOfKeeping(), mutantsOfLoss())
}

// mutantsOfLoss grant something when their records are lost.
func mutantsOfLoss() []mutant {
	const clause = "a store that has lost its records grants nothing"
	return []mutant{
		{
			name: "does not notice that its records are lost",
			storage: one(func(m *leasetest.Memory) altered {
				return altered{empty: func(context.Context) error {
					m.Remove(5)
					return nil
				}}
			}),
			breaks: []string{clause},
		},
		{
			name: "lists nothing when its records are lost",
			storage: one(func(m *leasetest.Memory) altered {
				return altered{list: func(ctx context.Context) ([]lease.Record, error) {
					records, err := m.List(ctx)
					if errors.Is(err, errs.ErrAuthority) {
						return nil, nil
					}
					return records, err
				}}
			}),
			breaks: []string{clause},
		},
		{
			name: "writes the next record of a holder where its last one is lost",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if _, err := m.List(ctx); errors.Is(err, errs.ErrAuthority) && prev.Version > 0 {
						return true, nil
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{clause},
		},
	}
}

// mutantsOfKeeping keep or list something else than they are given.
func mutantsOfKeeping() []mutant {
	return []mutant{
		{
			name:    "keeps microseconds",
			storage: keeping(until(func(t time.Time) time.Time { return t.Truncate(time.Microsecond) })),
			breaks:  []string{"times are kept to the nanosecond", "the end may be moved to an earlier time"},
		},
		{
			name:    "keeps nanoseconds in 64 bits",
			storage: keeping(until(func(t time.Time) time.Time { return time.Unix(0, t.UnixNano()).UTC() })),
			breaks:  []string{"times are kept to the nanosecond"},
		},
		{
			name: "drops the zone of a time",
			storage: keeping(until(func(t time.Time) time.Time {
				_, offset := t.Zone()
				return t.UTC().Add(time.Duration(offset) * time.Second)
			})),
			breaks: []string{"times are kept to the nanosecond"},
		},
		{
			name:    "returns times in another zone",
			storage: keeping(until(func(t time.Time) time.Time { return t.In(time.FixedZone("", 3600)) })),
			breaks:  []string{"times are kept to the nanosecond", "a swap replaces the record"},
		},
		{
			name: "does not keep when a record was written",
			storage: keeping(func(r lease.Record) lease.Record {
				r.UpdatedAt = time.Time{}
				return r
			}),
			breaks: []string{"times are kept to the nanosecond", "a record is created where there is none"},
		},
		{
			name:    "ends windows at the minute before",
			storage: keeping(until(func(t time.Time) time.Time { return t.Truncate(time.Minute) })),
			breaks: []string{
				"the node of a holder that is gone is taken when its window has ended",
				"a holder that cannot reach the store stops before the next one begins",
			},
		},
		{
			name: "keeps 128 bytes of an owner",
			storage: keeping(func(r lease.Record) lease.Record {
				r.Owner = r.Owner[:min(len(r.Owner), 128)]
				return r
			}),
			breaks: []string{"owners are kept as they are given", "owners are equal only byte by byte"},
		},
		{
			name: "keeps owners in ASCII",
			storage: keeping(func(r lease.Record) lease.Record {
				owner := []byte(r.Owner)
				for i := range owner {
					if owner[i] > 127 {
						owner[i] = '?'
					}
				}
				r.Owner = string(owner)
				return r
			}),
			breaks: []string{"owners are kept as they are given", "owners are equal only byte by byte"},
		},
		{
			name: "keeps 64 bytes of a layout",
			storage: keeping(func(r lease.Record) lease.Record {
				r.Layout = r.Layout[:min(len(r.Layout), 64)]
				return r
			}),
			breaks: []string{"layouts are kept as they are given"},
		},
		{
			name: "does not change the layout of a record",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if stored := m.Get(next.Node); stored.Version != 0 && next.Layout != "" {
						next.Layout = stored.Layout
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{"layouts are kept as they are given"},
		},
		{
			name: "gives node 0 another number",
			storage: keeping(func(r lease.Record) lease.Record {
				if r.Node == 0 {
					r.Node = 1 << 40
				}
				return r
			}),
			breaks: []string{"any node from 0 up has its own record"},
		},
		{
			name: "keeps nodes in 32 bits",
			storage: keeping(func(r lease.Record) lease.Record {
				r.Node = int64(int32(r.Node))
				return r
			}),
			breaks: []string{"any node from 0 up has its own record"},
		},
		{
			name: "removes what was given back",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(ctx, prev, next)
					if ok && next.Owner == "" {
						m.Remove(next.Node)
					}
					return ok, err
				}
			}),
			breaks: []string{
				"a node that was given back is taken again",
				"a node that was given back is free from the last tick on",
			},
		},
		{
			name: "does not list what has ended",
			storage: listing(func(records []lease.Record) []lease.Record {
				return slices.DeleteFunc(records, func(r lease.Record) bool { return r.Until.Before(time.Now()) })
			}),
			breaks: []string{"the end may be moved to an earlier time", "times are kept to the nanosecond"},
		},
		{
			name: "does not list what was given back",
			storage: listing(func(records []lease.Record) []lease.Record {
				return slices.DeleteFunc(records, func(r lease.Record) bool { return r.Owner == "" })
			}),
			breaks: []string{"a node that was given back is taken again"},
		},
		{
			name: "lists one page",
			storage: listing(func(records []lease.Record) []lease.Record {
				return records[:min(len(records), 256)]
			}),
			breaks: []string{"List returns all of many records"},
		},
		{
			name: "lists the last of a page twice",
			storage: listing(func(records []lease.Record) []lease.Record {
				if len(records) > 100 {
					records = append(records, records[100])
				}
				return records
			}),
			breaks: []string{"List returns all of many records"},
		},
		{
			name: "lists a record that nobody stored",
			storage: func() func() lease.Store {
				m := leasetest.NewMemory(nil)
				m.Put(lease.Record{Node: 1000, Version: 1, Layout: "example", Until: time.Now()})
				return func() lease.Store { return m }
			},
			breaks: []string{"a new storage has no records"},
		},
		{
			name: "lists from a cache that lives for three requests",
			storage: each(func(m *leasetest.Memory) altered {
				var cached []lease.Record
				age := 0
				return altered{list: func(ctx context.Context) ([]lease.Record, error) {
					if age++; age < 4 && cached != nil {
						return slices.Clone(cached), nil
					}
					age = 0
					records, err := m.List(ctx)
					cached = slices.Clone(records)
					return records, err
				}}
			}),
			breaks: []string{"what one handle has stored all others see at once", "a swap replaces the record"},
		},
		{
			name: "lists its own slice",
			storage: one(func(m *leasetest.Memory) altered {
				var own []lease.Record
				return altered{list: func(ctx context.Context) ([]lease.Record, error) {
					records, err := m.List(ctx)
					if len(own) != len(records) {
						own = records
					}
					return own, err
				}}
			}),
			breaks: []string{"what List returns belongs to the caller"},
		},
		{
			name: "has records for each handle",
			storage: func() func() lease.Store {
				return func() lease.Store { return leasetest.NewMemory(nil) }
			},
			breaks: []string{
				"what one handle has stored all others see at once",
				"of racing creations exactly one is done",
				"creations of different nodes do not disturb each other",
				"keepers that start together get different nodes",
				"when all nodes are held the next keeper is told by whom",
				"a keeper of another layout is turned away",
				"a node is reserved only in a store of its layout, even if a keeper of another one is faster",
				"a keeper that wants one node is told who holds it",
			},
		},
	}
}

// until changes the end of a record.
func until(change func(time.Time) time.Time) func(lease.Record) lease.Record {
	return func(r lease.Record) lease.Record {
		r.Until = change(r.Until)
		return r
	}
}
