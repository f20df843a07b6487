package gameworld

import (
	"context"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// opened is when every server opened. They all live through the same days, so that their keys interleave.
func opened() time.Time { return time.Date(2026, time.January, 5, 2, 0, 0, 0, time.UTC) }

// pace is how much faster than real time a server lives. In real time the layout of a game makes ten thousand
// keys in a second, and the tests would have to wait for them.
const pace = 1200

// mint makes the keys of one server. It is not safe for concurrent use.
type mint struct {
	ctx       context.Context
	generator *generator.Generator
	block     []int64 // of keys, as one call for many is faster
	left      []int64 // of block
}

func newMint(ctx context.Context, server int64) (*mint, error) {
	began := time.Now()
	clock := func() time.Time { return opened().Add(2*time.Hour + time.Since(began)*pace) }
	g, err := generator.New(generator.Game(), generator.FixedNode(server), generator.WithClock(clock))
	if err != nil {
		return nil, fmt.Errorf("%w: Server %d: %w", ErrConfig, server, err)
	}
	return &mint{ctx: ctx, generator: g, block: make([]int64, 512)}, nil
}

// next returns a key.
func (m *mint) next() (int64, error) {
	if len(m.left) == 0 {
		if err := m.generator.Fill(m.ctx, m.block); err != nil {
			return 0, fmt.Errorf("gameworld: a key could not be made: %w", err)
		}
		m.left = m.block
	}
	key := m.left[0]
	m.left = m.left[1:]
	return key, nil
}

// fill sets every key.
func (m *mint) fill(keys []int64) error {
	for i := range keys {
		key, err := m.next()
		if err != nil {
			return err
		}
		keys[i] = key
	}
	return nil
}
