package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// When a shard is split, joined or moved, its rows go to tables under new names, and the old ones are renamed
// away in the step that records the new map. So a statement by an older map does not find its table, and has
// done nothing. That is when a process reads the map again. It repeats the statement by the new map, unless
// the statement ran in a transaction.

const (
	// maxFollow is how long a statement waits for the entry of its shard to be replaced.
	maxFollow = 10 * time.Second
	// followPoll is the time between two looks at the records meanwhile.
	followPoll = 5 * time.Millisecond
	// maxTries is how often a statement runs at the most.
	maxTries = 8
)

func newCluster(t *shardmap.Topology, current *current) *cluster {
	c := &cluster{
		Topology: t, current: current, schemas: schemas{t, make([]shardSchemas, t.ShardCount)},
		relations: relationsOf(t), plugins: make([]atomic.Pointer[map[string]gorm.Plugin], t.ShardCount),
	}
	t.Examines = migrator{c}.refuseStrangersIn
	return c
}

// reread replaces a cluster by that of the map that the databases have recorded, if that is another one.
func (f *current) reread(ctx context.Context, from *cluster) error {
	f.adopting.Lock()
	defer f.adopting.Unlock()
	if f.cluster.Load() != from {
		return nil
	}
	t, err := shardmap.Registry{Topology: from.Topology}.Successor(ctx)
	if err != nil {
		return err
	}
	from.doubted.Store(false)
	if t == nil {
		return nil
	}
	next := newCluster(t, f)
	if err := next.install(from); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	f.cluster.Store(next)
	return nil
}

// await is reread that waits while the map is being changed. It reports whether the tables of the valid map
// are others than those of a cluster that did not find its own.
func (f *current) await(ctx context.Context, from *cluster) (changed bool, err error) {
	for began := time.Now(); ; {
		err := f.reread(ctx, f.cluster.Load())
		c := f.cluster.Load()
		switch {
		case err != nil && !errors.Is(err, errs.ErrShardMap):
			return false, err
		case err == nil && !sameTables(from, c):
			return true, nil
		case err == nil && !hasClosed(c):
			return false, nil
		case time.Since(began) > maxFollow:
			return false, cmp.Or(err, shardmap.Invalid(shardmap.ErrMapClosed))
		}
		select {
		case <-ctx.Done():
			return false, errs.Ended(ctx)
		case <-time.After(followPoll):
		}
	}
}

// sameTables reports whether the maps of two clusters lead to the same tables.
func sameTables(a, b *cluster) bool {
	return a == b || slices.EqualFunc(a.Entries(), b.Entries(), func(x, y shardmap.Entry) bool {
		x.Closed, y.Closed = false, false
		return x == y
	})
}

func hasClosed(c *cluster) bool {
	return slices.ContainsFunc(c.Entries(), func(e shardmap.Entry) bool { return e.Closed })
}
