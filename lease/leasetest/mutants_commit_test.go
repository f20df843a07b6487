package leasetest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

const isCommitted = "what was acknowledged is committed, on every connection that the handle may use"

// mutantsOfCommit acknowledge what they do not commit.
func mutantsOfCommit() []mutant {
	return []mutant{
		{
			name: "is in a transaction that nobody commits",
			storage: each(func(m *leasetest.Memory) altered {
				c := &connection{m: m, open: true}
				return c.altered()
			}),
			breaks: []string{isCommitted, "what one handle has stored all others see at once"},
		},
		{
			name: "commits nothing after its connection was renewed",
			storage: each(func(m *leasetest.Memory) altered {
				c := &connection{m: m, renewed: true}
				return c.altered()
			}),
			breaks: []string{isCommitted},
		},
		{
			name: "acknowledges and stores nothing after its connection was renewed",
			storage: each(func(m *leasetest.Memory) altered {
				var broken bool
				return altered{swap: func(ctx context.Context, prev, next lease.Record) (bool, error) {
					broken = broken || ctx.Err() != nil
					if broken && ctx.Err() == nil {
						stored := m.Get(next.Node)
						return stored.Version == prev.Version && stored.Owner == prev.Owner, lease.CheckSwap(prev, next)
					}
					return m.Swap(ctx, prev, next)
				}}
			}),
			breaks: []string{isCommitted},
		},
	}
}

// connection is one on which swaps may be in a transaction that is never committed. Whoever uses it
// sees them, nobody else does, and they end with it: a reading that is broken off breaks it, too.
type connection struct {
	m       *leasetest.Memory
	renewed bool // the next one is in a transaction

	mu    sync.Mutex
	open  bool           // it is in a transaction
	wrote []lease.Record // in the transaction
}

func (c *connection) altered() altered {
	return altered{
		swap: c.swap,
		list: c.list,
		within: func(ctx context.Context, prev, next lease.Record, earliest, latest time.Time) (bool, error) {
			if now, err := c.m.Now(ctx); err != nil || now.Before(earliest) || now.After(latest) {
				return false, err
			}
			return c.swap(ctx, prev, next)
		},
	}
}

func (c *connection) swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || ctx.Err() != nil {
		return c.m.Swap(ctx, prev, next)
	}
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	stored := c.seen(c.m.Get(next.Node), next.Node)
	if stored.Version != prev.Version || stored.Owner != prev.Owner && prev.Version != 0 {
		return false, nil
	}
	c.wrote = append(c.wrote, next)
	return true, nil
}

func (c *connection) list(ctx context.Context) ([]lease.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	records, err := c.m.List(ctx)
	if err != nil {
		c.wrote, c.open = nil, c.open || c.renewed
		return nil, err
	}
	for _, r := range c.wrote {
		records = slices.DeleteFunc(records, func(other lease.Record) bool { return other.Node == r.Node })
		records = append(records, r)
	}
	return records, nil
}

// seen is the record of a node as this connection sees it.
func (c *connection) seen(stored lease.Record, node int64) lease.Record {
	for _, r := range c.wrote {
		if r.Node == node {
			stored = r
		}
	}
	return stored
}
