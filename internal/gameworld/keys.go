package gameworld

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// opened is when every server opened. They all live through the same days, so that their keys
// interleave.
func opened() time.Time { return time.Date(2026, time.January, 5, 2, 0, 0, 0, time.UTC) }

// pace is how much faster than real time a server lives. In its own time no game needs keys as fast
// as a database takes rows: the layout of a game has ten thousand in a second, and that would be
// the speed of the tests.
const pace = 1200

const (
	minters  = 4
	keyBlock = 512
)

// generator is one of the server's, on a clock.
func (c Config) generator(clock func() time.Time, opts ...generator.Option) (*generator.Generator, error) {
	g, err := generator.New(c.Layout, generator.Node(c.node()), append(opts, generator.WithClock(clock))...)
	if err != nil {
		which := "Server"
		if c.Faults.Node != 0 {
			which = "Faults.Node"
		}
		return nil, fmt.Errorf("%w: %s %d in layout %q: %w", ErrConfig, which, c.node(), c.Layout.Name, err)
	}
	return g, nil
}

// firstKeys are made before a server opens, by nobody but the one who installs it. They depend on
// nothing but the node, so two servers with the same node begin with the same keys.
func (c Config) firstKeys(ctx context.Context, n int) ([]int64, error) {
	now := opened()
	g, err := c.generator(func() time.Time { return now }, generator.WithShards(1))
	if err != nil {
		return nil, err
	}
	// A generator takes none of the ticks in which an earlier one of that node may have been at work.
	now = now.Add(time.Hour)
	keys := make([]int64, n)
	return keys, g.Fill(ctx, keys)
}

// mint makes keys, several goroutines at a time, until it is closed.
type mint struct {
	blocks chan []int64
	left   []int64
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu  sync.Mutex
	err error // the first one; guarded by mu
}

func (c Config) newMint(ctx context.Context) (*mint, error) {
	began := time.Now()
	g, err := c.generator(func() time.Time { return opened().Add(2*time.Hour + time.Since(began)*pace) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &mint{blocks: make(chan []int64, 2*minters), cancel: cancel}
	for i := range minters {
		m.done.Go(func() { m.work(ctx, g, i%2 == 0) })
	}
	go func() {
		m.done.Wait()
		close(m.blocks)
	}()
	return m, nil
}

// work makes blocks of keys: in batches, as a game hands out rewards, or one by one.
func (m *mint) work(ctx context.Context, g *generator.Generator, batches bool) {
	for {
		block := make([]int64, keyBlock)
		if err := mintBlock(ctx, g, block, batches); err != nil {
			m.fail(err)
			return
		}
		select {
		case m.blocks <- block:
		case <-ctx.Done():
			m.fail(context.Cause(ctx))
			return
		}
	}
}

func mintBlock(ctx context.Context, g *generator.Generator, block []int64, batches bool) error {
	if batches {
		return g.Fill(ctx, block)
	}
	for i := range block {
		id, err := g.Next(ctx)
		if err != nil {
			return err
		}
		block[i] = id
	}
	return nil
}

// fail keeps the first error and stops the others.
func (m *mint) fail(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.cancel()
}

// next returns a key.
func (m *mint) next() (int64, error) {
	if len(m.left) == 0 {
		block, ok := <-m.blocks
		if !ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			return 0, fmt.Errorf("gameworld: a key could not be made: %w", m.err)
		}
		m.left = block
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

// close ends the goroutines.
func (m *mint) close() {
	m.cancel()
	m.done.Wait()
}
