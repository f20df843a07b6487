package snowflakeplugin

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
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
		return n.generator.Next(ctx)
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
		return n.generator.Fill(ctx, ids)
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
