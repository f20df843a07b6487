// Package sources has the sources of IDs that the service can be configured with. Above all it has the
// generator, whose node number is leased from the database of the service.
package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve/idcollector"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
)

const (
	// application is the name that the database shows.
	application = "snowflaked"

	// A database that does not answer at the start is asked again after these pauses.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// slowAnswer is how long a database may take at the start until the log says that the service waits for it.
	slowAnswer = time.Second
)

// GeneratorOptions says where a generator leases its number, and how.
type GeneratorOptions struct {
	Database Database
	Table    string
	Layout   generator.Layout
	Lease    []lease.Option
	Log      *slog.Logger
}

// Generator is the source of snowflakes. Start one with [StartGenerator]. Its methods are safe for
// concurrent use.
type Generator struct {
	options GeneratorOptions
	held    atomic.Pointer[holding] // nil until a number is leased
	failed  chan error
	cancel  context.CancelFunc
	done    chan struct{}

	refused atomic.Bool // a number could not be leased, and the database is asked again
	closing sync.Once
}

// holding is a leased number and what was made on it.
type holding struct {
	store     *sqllease.Store
	keeper    *lease.Keeper
	generator *generator.Generator
}

// Check returns the error with which a generator would end because its options are wrong. It needs no
// database.
func (o GeneratorOptions) Check() error {
	if _, err := sqllease.DDL(o.Database.Dialect, o.table()...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := lease.Acquire(ctx, noStore{}, o.Layout, o.Lease...)
	if errors.Is(err, lease.ErrStore) {
		return nil // it came to the store, so the options are right
	}
	return err
}

// table is the option for the table, if it is not the default.
func (o GeneratorOptions) table() (opts []sqllease.Option) {
	if o.Table != "" {
		opts = append(opts, sqllease.WithTable(o.Table))
	}
	return opts
}

// noStore is a store that is never there, so it is asked for nothing but its clock.
type noStore struct{ lease.Store }

func (noStore) Now(context.Context) (time.Time, error) { return time.Time{}, lease.ErrStore }

// StartGenerator begins to lease a number, and returns at once. A database that does not answer is asked
// again, so the service may start before its database.
func StartGenerator(o GeneratorOptions) *Generator {
	ctx, cancel := context.WithCancel(context.Background())
	g := &Generator{
		options: o, cancel: cancel, done: make(chan struct{}), failed: make(chan error, 1),
	}
	go g.acquire(ctx)
	return g
}

// Failed receives the error if no number can be leased and waiting does not help.
func (g *Generator) Failed() <-chan error { return g.failed }

func (g *Generator) acquire(ctx context.Context) {
	defer close(g.done)
	pause := firstPause
	for {
		slow := time.AfterFunc(slowAnswer, func() {
			g.options.Log.Warn("snowflaked: the database has not answered yet; if it is an SQLite file, another "+
				"process may hold its write lock", "database", g.options.Database.Name, "waited", slowAnswer)
		})
		held, err := g.lease(ctx)
		slow.Stop()
		if err == nil {
			g.held.Store(&held)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !passing(err) {
			g.failed <- err
			return
		}
		g.refused.Store(true)
		g.options.Log.Warn("snowflaked: no node number could be leased; trying again",
			"database", g.options.Database.Name, "error", err, "pause", pause)
		if attempt.Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// passing says whether time heals an error.
func passing(err error) bool {
	return errs.IsAny(err, lease.ErrStore, lease.ErrNoFreeNode, lease.ErrNodeHeld, lease.ErrClockSkew) &&
		!errs.IsAny(err, lease.ErrLayoutMismatch, lease.ErrInvalidOption, lease.ErrInvalidRecord)
}

// lease opens the store and takes a number.
func (g *Generator) lease(ctx context.Context) (h holding, err error) {
	pool, err := g.options.Database.Open(application)
	if err != nil {
		return holding{}, err
	}
	opts := append(g.options.table(), sqllease.WithDedicatedPool())
	h.store, err = sqllease.New(ctx, pool, g.options.Database.Dialect, opts...)
	if err != nil {
		return holding{}, errors.Join(err, pool.Close())
	}
	if err := g.note(ctx, h.store); err != nil {
		return holding{}, errors.Join(err, h.store.Close())
	}
	leasing := append([]lease.Option{lease.WithLogger(g.options.Log)}, g.options.Lease...)
	h.keeper, err = lease.Acquire(ctx, h.store, g.options.Layout, leasing...)
	if err != nil {
		return holding{}, errors.Join(err, h.store.Close())
	}
	h.generator, err = generator.New(g.options.Layout, h.keeper)
	if err != nil {
		return holding{}, errors.Join(err, h.keeper.Close(ctx), h.store.Close())
	}
	return h, nil
}

// note notes the identity of the leases, so that a table which is emptied later is known to have been in use.
// A login that may not note it leases all the same.
func (g *Generator) note(ctx context.Context, store *sqllease.Store) error {
	noted, err := store.Identity(ctx)
	if err == nil || noted.ID != "" || errors.Is(err, lease.ErrStore) {
		return err
	}
	g.options.Log.Warn("snowflaked: the identity of the leases cannot be noted, so nobody will notice if "+
		"their table is emptied", "error", err)
	return nil
}

// Fill makes IDs.
func (g *Generator) Fill(ctx context.Context, ids []int64) error {
	h := g.held.Load()
	if h == nil {
		return &issue.Fault{Kind: issue.Unavailable, Text: "this replica has no node number yet; ask another one"}
	}
	return h.generator.Fill(ctx, ids)
}

// Ready says whether IDs can be made now, and in a few public words what else is of interest.
func (g *Generator) Ready() (ready bool, why string) {
	h := g.held.Load()
	switch {
	case h == nil && g.refused.Load():
		return false, "no node number is leased yet; the database is asked again"
	case h == nil:
		return false, "the node number is being leased"
	}
	s := h.keeper.Status()
	switch {
	case s.Closed:
		return false, "the replica is ending"
	case s.Window.Until.IsZero():
		return false, "the node number was lost, and another one is being leased"
	case s.Overdue:
		return false, "the lease has ended, and the database has not extended it"
	case s.Failure != nil:
		return true, fmt.Sprintf("ready until %s; the lease has not been extended since %s",
			s.Window.Until.UTC().Format(time.RFC3339), s.FailingSince.UTC().Format(time.RFC3339))
	}
	return true, "ready"
}

// Reading returns how the generator is, for the metrics, in the words of snowflakeplugin.Health.
func (g *Generator) Reading() idcollector.Reading {
	h := g.held.Load()
	if h == nil {
		return idcollector.Reading{State: "idle"}
	}
	s := h.keeper.Status()
	r := idcollector.Reading{
		State: "leased", WindowUntil: s.Window.Until, FailingSince: s.FailingSince, Stats: h.generator.Stats(),
	}
	switch {
	case s.Closed:
		r.State = "closed"
	case s.Window.Until.IsZero():
		r.State = "lost"
	case s.Overdue:
		r.State = "overdue"
	}
	return r
}

// Close ends the generator and gives the number back.
func (g *Generator) Close(ctx context.Context) error {
	g.cancel()
	<-g.done
	var err error
	g.closing.Do(func() {
		if h := g.held.Load(); h != nil {
			err = errors.Join(h.keeper.Close(ctx), h.store.Close())
		}
	})
	return err
}
