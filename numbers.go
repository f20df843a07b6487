package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// numbers hands out IDs, from a generator or from the application's own source.
type numbers struct {
	source    Source
	generator *generator.Generator // nil for a source of the application
	closed    *atomic.Bool
}

// next returns one number.
func (n *numbers) next(ctx context.Context) (int64, error) {
	if n.generator != nil && !n.closed.Load() {
		id, err := n.generator.Next(ctx)
		if err != nil {
			err = sealed(err)
		}
		return id, err
	}
	ids := make([]int64, 1)
	err := n.fill(ctx, ids)
	return ids[0], err
}

// fill sets ids to new numbers.
func (n *numbers) fill(ctx context.Context, ids []int64) error {
	if n.closed.Load() {
		return ErrClosed
	}
	if n.generator != nil {
		return sealed(n.generator.Fill(ctx, ids))
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if err := n.source.Fill(ctx, ids); err != nil {
		return err
	}
	for _, id := range ids {
		if id <= 0 {
			return fmt.Errorf("%w: it returned %d where a positive number is needed", ErrSource, id)
		}
	}
	return nil
}

// nextLike returns one number on the shard of key, for the number of shards that the generator
// spreads its IDs over and every divisor of it: so rows that lie beside each other still do when a
// router doubles its shards.
func (n *numbers) nextLike(ctx context.Context, key int64) (int64, error) {
	return n.bound(key, func() (int64, error) { return n.generator.NextLike(ctx, key) })
}

// nextOn returns one number on a shard of a router.
func (n *numbers) nextOn(ctx context.Context, shard *shardSchema) (int64, error) {
	return n.bound(int64(shard.number), func() (int64, error) {
		return n.generator.NextOn(ctx, shard.number, shard.of.shards)
	})
}

// bound calls next, which asks the generator for a number on the shard of key.
func (n *numbers) bound(key int64, next func() (int64, error)) (int64, error) {
	switch {
	case n.closed.Load():
		return 0, ErrClosed
	case n.generator == nil:
		return 0, fmt.Errorf("%w on the shard of %d: WithSource cannot choose shards", ErrSource, key)
	}
	id, err := next()
	return id, sealed(err)
}

// sealed tells who was overtaken by Close what happened.
func sealed(err error) error {
	if errors.Is(err, generator.ErrSealed) || errors.Is(err, lease.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
