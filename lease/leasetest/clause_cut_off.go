package leasetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func cutOff() clause {
	return clause{
		name: "a holder that cannot reach the store stops before the next one begins",
		why: "A generator stamps ticks of its window only, and windows of one node never overlap. Whoever is " +
			"cut off from the store comes to the end of its own, and another takes the node from there.",
		check: func(p *probe) {
			line := &line{Store: p.open()}
			k := p.keeper(line, lease.Nodes(5, 5), lease.Span(short))
			g := p.generator(k)
			last, _ := p.next(g)
			line.cut()
			// It stamps as long as it can, while the other waits for the node.
			stopped := make(chan error, 1)
			go func() {
				for {
					id, err := g.Next(p.ctx)
					if err != nil {
						stopped <- err
						return
					}
					last = id
					time.Sleep(time.Millisecond)
				}
			}()
			successor := p.keeper(p.open(), lease.Nodes(5, 5), lease.Span(long))
			id, _ := p.next(p.generator(successor))
			if err := <-stopped; !errors.Is(err, generator.ErrOutsideWindow) {
				p.failf("the generator that was cut off ended with %v, want ErrOutsideWindow", err)
			}
			if id <= last {
				p.failf("the next holder's first ID %d is not after the last one, %d", id, last)
			}
			if end, from := k.Window().Until, successor.Window().From; from.Before(end) {
				p.failf("the next window begins at %v, before the end of the last at %v", from, end)
			}
		},
	}
}

// line is the way to a store, until it is cut.
type line struct {
	lease.Store
	mu  sync.RWMutex
	end bool // guarded by mu
}

var errCut = errors.New("the line to the store is cut")

// cut waits for the requests that are under way.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = true
}

func (l *line) Now(ctx context.Context) (now time.Time, err error) {
	err = l.pass(func() error { now, err = l.Store.Now(ctx); return err })
	return now, err
}

func (l *line) List(ctx context.Context) (records []lease.Record, err error) {
	err = l.pass(func() error { records, err = l.Store.List(ctx); return err })
	return records, err
}

func (l *line) Swap(ctx context.Context, prev, next lease.Record) (ok bool, err error) {
	err = l.pass(func() error { ok, err = l.Store.Swap(ctx, prev, next); return err })
	return ok, err
}

func (l *line) pass(request func() error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.end {
		return errCut
	}
	return request()
}
