package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
)

// Counters are the sources that count in a database: segments, tickets and daily numbers.
type Counters struct {
	// ByName has every source by the name that requests use.
	ByName map[string]*segment.Source

	stores []*lazyStore
}

// OpenCounters makes the sources of the settings. It connects to nothing: a database is opened when the
// first number is needed. Home is the database of the sources that name none, and maxWait is how long a
// request waits for a database.
func OpenCounters(
	list []settings.Source, home Database, maxWait time.Duration, log *slog.Logger,
) (c *Counters, err error) {
	c = &Counters{ByName: make(map[string]*segment.Source)}
	// All sources in the database of the service share one connection.
	var shared *lazyStore
	for _, s := range list {
		if shared == nil && s.Kind != settings.KindTickets {
			shared = c.store(home)
		}
		source, err := c.open(s, shared, segment.WithLogger(log), segment.WithMaxWait(maxWait))
		if err != nil {
			return nil, fmt.Errorf("the source %q: %w", s.Name, errors.Join(err, c.Close()))
		}
		c.ByName[s.Name] = source
	}
	return c, nil
}

func (c *Counters) store(d Database) *lazyStore {
	store := &lazyStore{database: d, turn: make(chan struct{}, 1)}
	c.stores = append(c.stores, store)
	return store
}

func (c *Counters) open(
	s settings.Source, home *lazyStore, opts ...segment.Option,
) (*segment.Source, error) {
	if s.Least != 0 {
		opts = append(opts, segment.WithBlock(s.Least, s.Most))
	}
	if s.Horizon != 0 {
		opts = append(opts, segment.WithHorizon(s.Horizon))
	}
	if s.Start != 0 {
		opts = append(opts, segment.WithStart(s.Start))
	}
	switch s.Kind {
	case settings.KindSegment:
		return segment.New(home, s.Counter, opts...)
	case settings.KindDaily:
		return segment.Daily(home, s.Counter, s.Digits, s.Location, opts...)
	}
	var lanes []*segment.Source
	for i, server := range s.Servers {
		database, err := ParseDSN(server.DSN)
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", i, err)
		}
		own := append(slices.Clone(opts), segment.WithResidue(int64(i), int64(len(s.Servers))))
		lane, err := segment.New(c.store(database), s.Counter, own...)
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, lane)
	}
	return segment.Tickets(lanes...)
}

// Close closes the sources and their databases.
func (c *Counters) Close() error {
	var faults []error
	for _, source := range c.ByName {
		faults = append(faults, source.Close())
	}
	for _, store := range c.stores {
		faults = append(faults, store.Close())
	}
	return errors.Join(faults...)
}

// lazyStore opens its database when it is needed, and tries again with the next request if that fails. So a
// service starts before its ticket servers.
type lazyStore struct {
	database Database
	turn     chan struct{} // held while the store is opened
	mu       sync.Mutex
	opened   *sqlsegment.Store // guarded by mu
	closed   bool              // guarded by mu
}

var (
	_ segment.TermsStore = (*lazyStore)(nil)
	_ segment.Ledger     = (*lazyStore)(nil)
)

// store returns the store, and opens it first if necessary.
func (l *lazyStore) store(ctx context.Context) (*sqlsegment.Store, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the database is being opened: %w", segment.ErrStore, context.Cause(ctx))
	}
	l.mu.Lock()
	opened, closed := l.opened, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return nil, segment.ErrClosed
	case opened != nil:
		return opened, nil
	}
	pool, err := l.database.Open(application)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", segment.ErrStore, err)
	}
	dialect := sqlsegment.Dialect(l.database.Dialect)
	opened, err = sqlsegment.New(ctx, pool, dialect, sqlsegment.WithDedicatedPool())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.Join(segment.ErrClosed, opened.Close())
	}
	l.opened = opened
	return opened, nil
}

// call opens the store if necessary, and calls a method of it.
func call[T any](ctx context.Context, l *lazyStore, method func(*sqlsegment.Store) (T, error)) (T, error) {
	s, err := l.store(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return method(s)
}

func (l *lazyStore) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return call(ctx, l, func(s *sqlsegment.Store) (int64, error) { return s.Claim(ctx, name, n) })
}

func (l *lazyStore) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	return call(ctx, l, func(s *sqlsegment.Store) (int64, error) { return s.ClaimOn(ctx, name, n, t) })
}

func (l *lazyStore) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	return call(ctx, l, func(s *sqlsegment.Store) ([]segment.Counter, error) { return s.Counters(ctx, prefix) })
}

func (l *lazyStore) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	return call(ctx, l, func(s *sqlsegment.Store) (bool, error) { return s.Change(ctx, prev, next) })
}

func (l *lazyStore) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	return call(ctx, l, func(s *sqlsegment.Store) (bool, error) { return s.Remove(ctx, prev) })
}

func (l *lazyStore) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, l, func(s *sqlsegment.Store) (time.Time, error) { return s.Now(ctx) })
}

// Close closes the store if it was opened.
func (l *lazyStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
