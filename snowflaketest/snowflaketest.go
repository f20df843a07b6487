// Package snowflaketest has plugins for the tests of applications. They need no database of their own, send
// no statement, write no table and log nothing, so they also work on a mock such as go-sqlmock. Do not use
// them in a program: two of them make the same IDs.
//
//	db.Use(snowflaketest.Counting())                                  // 1, 2, 3 in each table
//	db.Use(snowflaketest.At(generator.Default(), time.Unix(1e9, 0)))  // IDs of one time
//
// Take a new plugin for each test whose tables are empty.
package snowflaketest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Counting returns a plugin whose IDs are 1, 2, 3 in each column of each table, as those of a database that
// counts are. So tests that name such IDs pass as they are. Further options are those of
// [snowflakeplugin.New]; without WithLogger it logs nothing. See [Counter] for what it cannot do.
func Counting(opts ...snowflakeplugin.Option) *snowflakeplugin.Plugin {
	return withSource(&Counter{}, opts)
}

// At returns a plugin whose IDs have a layout and a time, such as those of a program that ran then. The first
// ID has node 0 and sequence 0, each further one is the next, in whichever table, and when the sequence of a
// tick is used up they go on in the next tick. So every run of a test gets the same IDs. As the plugin takes
// them from a source, its methods Layout and Range do not know the layout. A layout or a time that cannot be
// is the error of the first create.
func At(l generator.Layout, tick time.Time, opts ...snowflakeplugin.Option) *snowflakeplugin.Plugin {
	return withSource(&moments{layout: l, tick: tick}, opts)
}

// withSource returns a plugin with a source that logs nothing, unless an option says where.
func withSource(source snowflakeplugin.Source, opts []snowflakeplugin.Option) *snowflakeplugin.Plugin {
	return snowflakeplugin.New(append([]snowflakeplugin.Option{
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)), snowflakeplugin.WithSource(source),
	}, opts...)...)
}

// Counter is the source of [Counting], for tests that set it back: pass it to snowflakeplugin.WithSource, and
// call Reset when the tables are empty again. The zero Counter begins with 1. It is safe for concurrent use
// and must not be copied.
//
// It does not know which keys a table has already. A row with one that is there, such as one that the test
// has stored with a key of its own, is refused with snowflakeplugin.ErrContested.
type Counter struct {
	mu   sync.Mutex
	last map[[2]string]int64
}

// Fill sets every element of ids to the next number of those that belong to no table, such as those of
// NextID.
func (c *Counter) Fill(ctx context.Context, ids []int64) error { return c.FillColumn(ctx, "", "", ids) }

// FillColumn sets every element of ids to the next number of a column. The plugin calls it for its creates.
func (c *Counter) FillColumn(_ context.Context, table, column string, ids []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[[2]string]int64{}
	}
	key := [2]string{table, column}
	for i := range ids {
		c.last[key]++
		ids[i] = c.last[key]
	}
	return nil
}

// Reset begins with 1 again, in all tables.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.last)
}

// moments makes IDs of a layout, from a time on.
type moments struct {
	layout generator.Layout

	mu       sync.Mutex
	tick     time.Time
	sequence int64 // of the next ID in the tick
}

// Fill sets every element of ids to the next ID.
func (m *moments) Fill(_ context.Context, ids []int64) error {
	if err := m.layout.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ids {
		id, err := m.layout.Compose(generator.Parts{Time: m.tick, Sequence: m.sequence})
		if err != nil {
			return fmt.Errorf("snowflaketest: an ID for %v: %w", m.tick, err)
		}
		if m.sequence++; m.sequence > m.layout.MaxSequence() {
			m.tick, m.sequence = m.tick.Add(m.layout.Tick), 0
		}
		ids[i] = id
	}
	return nil
}

// FillColumn is Fill, because the IDs of all tables are one series. It says that shards do not matter.
func (m *moments) FillColumn(ctx context.Context, _, _ string, ids []int64) error {
	return m.Fill(ctx, ids)
}
