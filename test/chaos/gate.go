package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A gate keeps a worker from its store. It is open at first, and nil is a gate that is always open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open; guarded by mu
	inside sync.WaitGroup
}

// newGate returns a gate, which is shut until somebody opens it, or open.
func newGate(shut bool) *gate {
	g := &gate{opened: make(chan struct{})}
	if !shut {
		close(g.opened)
	}
	return g
}

// enter waits until the gate is open, and says so if it has to wait. Whoever has entered has to leave.
func (g *gate) enter(ctx context.Context) error {
	if g == nil {
		return nil
	}
	for {
		g.mu.Lock()
		opened := g.opened
		select {
		case <-opened:
			g.inside.Add(1)
			g.mu.Unlock()
			return nil
		default:
		}
		g.mu.Unlock()
		say(wordWaiting)
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate) leave() {
	if g != nil {
		g.inside.Done()
	}
}

// open lets everybody through.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// shut lets nobody through, and returns when those who are inside have left: nothing that they have asked is
// still on its way to the store then.
func (g *gate) shut() {
	g.mu.Lock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
	g.mu.Unlock()
	g.inside.Wait()
}

// gated is a store of leases behind a gate. It can do no more than a store must.
type gated struct {
	store lease.Store
	gate  *gate
}

func (s gated) Now(ctx context.Context) (time.Time, error) {
	if err := s.gate.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.gate.leave()
	return s.store.Now(ctx)
}

func (s gated) List(ctx context.Context) ([]lease.Record, error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.store.List(ctx)
}

func (s gated) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if err := s.gate.enter(ctx); err != nil {
		return false, err
	}
	defer s.gate.leave()
	return s.store.Swap(ctx, prev, next)
}
