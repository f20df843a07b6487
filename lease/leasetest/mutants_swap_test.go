package leasetest_test

import (
	"context"
	"errors"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

// mutantsOfSwap compare or store wrongly.
func mutantsOfSwap() []mutant {
	return []mutant{
		{
			name:    "compares nothing",
			storage: matching(func(_, _ lease.Record) bool { return true }),
			breaks: []string{
				"a creation is refused where there is a record",
				"another owner is refused",
				"owners are equal only byte by byte",
				"another version is refused",
				"a record that is not there is not replaced",
				"a refused swap changes nothing",
				"a swap that comes late is refused",
				"of racing swaps exactly one is done",
				"of racing creations exactly one is done",
				"SwapWithin compares as Swap does",
				"a keeper whose record was taken away goes on with another node",
				"a release that comes late does not free the next holder's node",
			},
		},
		{
			name:    "compares the version only",
			storage: matching(func(stored, prev lease.Record) bool { return stored.Version == prev.Version }),
			breaks: []string{
				"another owner is refused", "owners are equal only byte by byte", "a refused swap changes nothing",
			},
		},
		{
			name: "compares the owner only",
			storage: matching(func(stored, prev lease.Record) bool {
				return (stored.Version == 0) == (prev.Version == 0) && (prev.Version == 0 || stored.Owner == prev.Owner)
			}),
			breaks: []string{
				"another version is refused", "a swap that comes late is refused", "a refused swap changes nothing",
			},
		},
		{
			name: "accepts versions that are newer than the stored one",
			storage: matching(func(stored, prev lease.Record) bool {
				return stored.Version <= prev.Version && stored.Owner == prev.Owner
			}),
			breaks: []string{"another version is refused", "a record that is not there is not replaced"},
		},
		{
			name: "compares owners like a case-insensitive collation",
			storage: matching(func(stored, prev lease.Record) bool {
				return stored.Version == prev.Version && (prev.Version == 0 || strings.EqualFold(stored.Owner, prev.Owner))
			}),
			breaks: []string{"owners are equal only byte by byte"},
		},
		{
			name: "compares the end as well",
			storage: matching(func(stored, prev lease.Record) bool {
				return stored.Version == prev.Version &&
					(prev.Version == 0 || stored.Owner == prev.Owner && stored.Until.Equal(prev.Until))
			}),
			breaks: []string{"only the owner and the version are compared"},
		},
		{
			name: "takes an empty owner for NULL, which equals nothing",
			storage: matching(func(stored, prev lease.Record) bool {
				return stored.Version == prev.Version &&
					(prev.Version == 0 || stored.Owner == prev.Owner && stored.Owner != "")
			}),
			breaks: []string{
				"a node that was given back is taken again",
				"a node that was given back is free from the last tick on",
			},
		},
		{
			name: "overwrites with a creation",
			storage: matching(func(stored, prev lease.Record) bool {
				return prev.Version == 0 || stored.Version == prev.Version && stored.Owner == prev.Owner
			}),
			breaks: []string{"a creation is refused where there is a record"},
		},
		{
			name: "creates where the record was given back",
			storage: matching(func(stored, prev lease.Record) bool {
				return prev.Version == 0 && stored.Owner == "" ||
					stored.Version == prev.Version && stored.Owner == prev.Owner
			}),
			breaks: []string{"a creation is refused where there is a record"},
		},
		{
			name: "creates what it should replace",
			storage: matching(func(stored, prev lease.Record) bool {
				return stored.Version == 0 || stored.Version == prev.Version && stored.Owner == prev.Owner
			}),
			breaks: []string{"a record that is not there is not replaced", "a refused swap changes nothing"},
		},
		{
			name: "refuses an earlier end",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if next.Until.Before(m.Get(next.Node).Until) {
						return false, nil
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{
				"the end may be moved to an earlier time", "a node that was given back is free from the last tick on",
			},
		},
		{
			name: "stores what it refuses",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(ctx, prev, next)
					if !ok && err == nil {
						m.Put(next)
					}
					return ok, err
				}
			}),
			breaks: []string{"a refused swap changes nothing", "a record that is not there is not replaced"},
		},
		{
			name: "says no with an error",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(ctx, prev, next)
					if !ok && err == nil {
						err = errors.New("duplicate key")
					}
					return ok, err
				}
			}),
			breaks: []string{
				"a creation is refused where there is a record", "another version is refused",
				"of racing swaps exactly one is done", "SwapWithin refuses while the clock is outside",
			},
		},
		{
			name: "acknowledges what it does not store",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if prev.Version != 0 && m.Get(next.Node).Version == prev.Version {
						return true, nil
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{
				"a swap replaces the record", "a keeper extends its window before it ends",
				"of many increments none is lost",
			},
		},
		{
			name: "creates only under the node of prev",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if prev.Version == 0 {
						next.Node = prev.Node
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{"a record is created where there is none"},
		},
		{
			name: "changes every record of the same owner and version",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					ok, err := m.Swap(ctx, prev, next)
					if records, _ := m.List(ctx); ok && prev.Version != 0 {
						for _, r := range records {
							if r.Owner == prev.Owner && r.Version == prev.Version {
								next.Node = r.Node
								m.Put(next)
							}
						}
					}
					return ok, err
				}
			}),
			breaks: []string{"a swap leaves the other nodes alone"},
		},
		{
			name: "does not check what it stores",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if stored := m.Get(next.Node); stored.Version != prev.Version {
						return false, ctx.Err()
					}
					m.Put(next)
					return true, ctx.Err()
				}
			}),
			breaks: []string{"an invalid swap is an error and changes nothing"},
		},
		{
			name: "refuses what is invalid without an error",
			storage: swapping(func(m *leasetest.Memory) swapFunc {
				return func(ctx context.Context, prev, next lease.Record) (bool, error) {
					if lease.CheckSwap(prev, next) != nil {
						return false, nil
					}
					return m.Swap(ctx, prev, next)
				}
			}),
			breaks: []string{"an invalid swap is an error and changes nothing"},
		},
	}
}
