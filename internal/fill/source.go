package fill

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// ColumnSource is an optional ability of a [Source]: it has numbers for each column of each table, and no
// shards. It is for tests, whose numbers are then those that a database would count.
type ColumnSource interface {
	FillColumn(ctx context.Context, table, column string, ids []int64) error
}

// ofColumn is the source of one column.
type ofColumn struct {
	ColumnSource
	table, column string
}

// Fill sets every element of ids to a number of the column.
func (o ofColumn) Fill(ctx context.Context, ids []int64) error {
	return o.FillColumn(ctx, o.table, o.column, ids)
}

// Numbers hands out IDs, either from the plugin's own generator or from a [Source] of the
// application. It is safe for concurrent use.
type Numbers struct {
	source    Source
	generator *generator.Generator // nil for a source of the application
	closed    *atomic.Bool
	why       func() error // says why the generator was sealed, if it is known
}

// NewNumbers returns numbers from the generator, or from the source if the generator is nil. They
// end when closed is set. The function why, which may be nil, says why a generator is sealed that was not
// closed, or returns nil.
func NewNumbers(source Source, g *generator.Generator, closed *atomic.Bool, why func() error) *Numbers {
	return &Numbers{source: source, generator: g, closed: closed, why: why}
}

// orBackground returns a context that can be asked for everything. A nil pointer of an application does for a
// context of database/sql if its Done does not mind: most drivers ask for nothing else then.
func orBackground(ctx context.Context) context.Context {
	if v := reflect.ValueOf(ctx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return context.Background()
	}
	return ctx
}

// Next returns one new number.
func (n *Numbers) Next(ctx context.Context) (int64, error) {
	ctx = orBackground(ctx)
	if n.generator != nil && !n.closed.Load() {
		id, err := n.generator.Next(ctx)
		return id, n.closedBy(err)
	}
	ids := make([]int64, 1)
	err := n.Take(ctx, ids)
	return ids[0], err
}

// Take sets all elements of ids to new numbers, with one reservation.
func (n *Numbers) Take(ctx context.Context, ids []int64) error {
	ctx = orBackground(ctx)
	if n.generator == nil {
		return n.draw(ctx, n.source, ids)
	}
	if n.closed.Load() {
		return errs.ErrClosed
	}
	return n.closedBy(n.generator.Fill(ctx, ids))
}

// draw sets all elements of ids to new numbers of a source of the application.
func (n *Numbers) draw(ctx context.Context, source Source, ids []int64) error {
	if n.closed.Load() {
		return errs.ErrClosed
	}
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	if err := source.Fill(ctx, ids); err != nil {
		return err
	}
	for _, id := range ids {
		if id <= 0 {
			return fmt.Errorf("%w: it returned %d where a positive number is needed", errs.ErrSource, id)
		}
	}
	return nil
}

// columnSource returns the source if it has numbers for each column.
func (n *Numbers) columnSource() (source ColumnSource, has bool) {
	source, has = n.source.(ColumnSource)
	return source, has
}

// NextLike returns one new number on the shard of key. Both then share a shard for the number of
// shards that the generator spreads its IDs over, and for every divisor of that number. So rows that
// are colocated stay so when a router doubles its shards.
func (n *Numbers) NextLike(ctx context.Context, key int64) (int64, error) {
	ctx = orBackground(ctx)
	return n.chosen(key, func() (int64, error) { return n.generator.NextLike(ctx, key) })
}

// nextOn returns one new number on a shard of a router.
func (n *Numbers) nextOn(ctx context.Context, shard *Shard) (int64, error) {
	return n.chosen(int64(shard.Number), func() (int64, error) {
		return n.generator.NextOn(ctx, shard.Number, shard.Count)
	})
}

// chosen calls next, which asks the generator for a number on the shard of key.
func (n *Numbers) chosen(key int64, next func() (int64, error)) (int64, error) {
	switch {
	case n.closed.Load():
		return 0, errs.ErrClosed
	case n.generator == nil:
		return 0, fmt.Errorf("%w on the shard of %d: a source that WithSource sets cannot choose shards",
			errs.ErrSource, key)
	}
	id, err := next()
	return id, n.closedBy(err)
}

// nextFrom returns one new number of a named source on a shard of a router.
func (n *Numbers) nextFrom(ctx context.Context, named *namedSource, shard *Shard) (id int64, err error) {
	if n.closed.Load() {
		return 0, errs.ErrClosed
	}
	switch source := named.source.(type) {
	case onner:
		id, err = source.NextOn(ctx, shard.Number, shard.Count)
	case Liker:
		id, err = source.NextLike(ctx, int64(shard.Number))
	default:
		return 0, fmt.Errorf("%w on shard %d: the source %q cannot choose shards: it has no method NextLike",
			errs.ErrSource, shard.Number, named.name)
	}
	if err != nil {
		return 0, named.failed(err)
	}
	return id, nil
}

// closedBy names the plugin in the error of a caller that Close has overtaken, or says what else has sealed
// the generator.
func (n *Numbers) closedBy(err error) error {
	if !errors.Is(err, errs.ErrClosed) {
		return err
	}
	if !n.closed.Load() && n.why != nil {
		if why := n.why(); why != nil {
			return why
		}
	}
	return fmt.Errorf("%w: %w", errs.ErrClosed, err)
}

// Engine is what a router needs of a plugin.
type Engine struct {
	Plans *PlanCache
	// Numbers returns where IDs come from. It may lease a node number first, so it may wait.
	Numbers func(ctx context.Context) (*Numbers, error)
	// Generator returns the plugin's own generator, or nil if the plugin has none.
	Generator func() *generator.Generator

	// tables has a *sync.Mutex for each database, by the callbacks that its handles share.
	tables sync.Map
}

// LockTables locks the schemas by which GORM changes tables of a database, and returns what unlocks them.
// Some of them are changed for the time of one statement.
func (e *Engine) LockTables(db *gorm.DB) (unlock func()) {
	lock, _ := e.tables.LoadOrStore(db.Callback(), new(sync.Mutex))
	mutex, _ := lock.(*sync.Mutex)
	mutex.Lock()
	return mutex.Unlock
}
