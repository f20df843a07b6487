package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The tests whose names begin with TestS and a number act out the schedules, collected from systems
// in the field, by which one ID comes to be issued twice. Each is a few processes on one store.

// site is a store and all IDs that the processes on it made.
type site struct {
	*table
	quick bool // the store swaps within

	mu  sync.Mutex
	ids map[int64]string // by whom each was made
}

// onBothStores acts a schedule out on a store that swaps within and on one that does not.
func onBothStores(t *testing.T, act func(t *testing.T, s *site)) {
	t.Helper()
	for name, swapsWithin := range map[string]bool{"swapping within": true, "swapping plainly": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				act(t, &site{table: newTable(), quick: swapsWithin, ids: map[int64]string{}})
			})
		})
	}
}

// record fails if somebody else, or the same process, has made the ID before.
func (s *site) record(t *testing.T, who string, id int64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, found := s.ids[id]; found {
		t.Fatalf("%s and %s both have the id %d: %+v", other, who, id, partsOf(t, id))
	}
	s.ids[id] = who
}

// process is one of those that share a store. It has a clock and a way to the store of its own.
type process struct {
	*link
	site  *site
	name  string
	clock *wallClock
	with  []generator.Option

	k    *lease.Keeper
	g    *generator.Generator
	last int64
}

// process returns one that has not started. Its generator does not wait for a window.
func (s *site) process(name string, with ...generator.Option) *process {
	p := &process{site: s, name: name, clock: new(wallClock)}
	p.link = &link{to: s}
	p.with = append([]generator.Option{generator.WithClock(p.clock.Now), generator.WithMaxWait(0)}, with...)
	return p
}

// store is what the process sees of the store.
func (p *process) store() lease.Store {
	if p.site.quick {
		return quickLink{p.link}
	}
	return p.link
}

// start starts a process, or starts it anew after a crash.
func (p *process) start(t *testing.T, opts ...lease.Option) error {
	t.Helper()
	opts = append([]lease.Option{lease.WithOwner(p.name), lease.WithClock(p.clock.Now)}, opts...)
	k, err := tryAcquire(t, p.store(), opts...)
	if err != nil {
		return err
	}
	t.Cleanup(p.mend) // or it could not be closed
	p.k, p.g = k, newGenerator(t, k, p.with...)
	return nil
}

func (p *process) mustStart(t *testing.T, opts ...lease.Option) {
	t.Helper()
	if err := p.start(t, opts...); err != nil {
		t.Fatalf("%s cannot start: %v", p.name, err)
	}
}

// startInTime starts a process as an orchestrator does: again and again, for a time, with pauses that grow to a
// second. That is often enough, because Acquire itself waits for the end of a last window.
func (p *process) startInTime(t *testing.T, within time.Duration, opts ...lease.Option) {
	t.Helper()
	pause := 10 * time.Millisecond
	for began := time.Now(); ; pause = min(2*pause, time.Second) {
		err := p.start(t, opts...)
		if err == nil {
			return
		}
		if time.Since(began) > within {
			t.Fatalf("%s cannot start within %v: %v", p.name, within, err)
		}
		time.Sleep(pause)
	}
}

// tryDraw makes one ID. It has to be greater than all that the process made before.
func (p *process) tryDraw(t *testing.T) (int64, error) {
	t.Helper()
	id, err := p.g.Next(t.Context())
	if err != nil {
		return 0, err
	}
	p.site.record(t, p.name, id)
	if id <= p.last {
		t.Fatalf("%s: %d follows %d", p.name, id, p.last)
	}
	p.last = id
	return id, nil
}

func (p *process) draw(t *testing.T) {
	t.Helper()
	if _, err := p.tryDraw(t); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// work makes an ID every few milliseconds, or tries to, for a time. It returns the last.
func (p *process) work(t *testing.T, d time.Duration) (last generator.Parts, failed error) {
	t.Helper()
	return p.workEvery(t, 5*time.Millisecond, d)
}

// workEvery makes an ID after each pause, or tries to, for a time.
func (p *process) workEvery(t *testing.T, pause, d time.Duration) (last generator.Parts, failed error) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(pause) {
		id, err := p.tryDraw(t)
		switch {
		case err == nil:
			last = partsOf(t, id)
		case errors.Is(err, generator.ErrOutsideWindow), errors.Is(err, generator.ErrClockBehind):
			failed = err
		default:
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	return last, failed
}

func (p *process) node() int64 { return p.k.Window().Node }

// resume lets a process go on that was paused, and all that was held up happen.
func (p *process) resume() {
	p.mend()
	synctest.Wait()
}

// link is the way of one process to the store.
type link struct {
	to *site

	mu     sync.Mutex
	broken bool          // requests are lost
	paused chan struct{} // closed when the process goes on; nil while it runs
	before func(request) // called before a swap is made
}

type quickLink struct{ *link }

// pause stops a process for as long as it takes: whatever it was about to ask is asked when it goes
// on, however old the clock reading in it is.
func (l *link) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = make(chan struct{})
}

// cut takes the network away.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

// mend ends what pause and cut began.
func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken, l.before = false, nil
	if l.paused != nil {
		close(l.paused)
		l.paused = nil
	}
}

// beforeSwap has something happen between a look at the store and the swap that rests on it.
func (l *link) beforeSwap(happen func(request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = happen
}

// pass lets a request through when its time has come.
func (l *link) pass(ctx context.Context, r request) (context.Context, error) {
	l.mu.Lock()
	paused, broken, before := l.paused, l.broken, l.before
	l.mu.Unlock()
	if broken {
		<-ctx.Done()
		return ctx, context.Cause(ctx)
	}
	if paused != nil {
		<-paused
		ctx = context.WithoutCancel(ctx) // it was on its way already
	}
	if before != nil && r.writes() {
		before(r)
	}
	return ctx, nil
}

func (l *link) Now(ctx context.Context) (time.Time, error) {
	ctx, err := l.pass(ctx, request{kind: asksNow})
	if err != nil {
		return time.Time{}, err
	}
	return l.to.Now(ctx)
}

func (l *link) List(ctx context.Context) ([]lease.Record, error) {
	ctx, err := l.pass(ctx, request{kind: asksList})
	if err != nil {
		return nil, err
	}
	return l.to.List(ctx)
}

func (l *link) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	ctx, err := l.pass(ctx, request{kind: asksSwap, prev: prev, next: next})
	if err != nil {
		return false, err
	}
	return l.to.Swap(ctx, prev, next)
}

func (l quickLink) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	ctx, err := l.pass(ctx, request{kind: asksWithin, prev: prev, next: next})
	if err != nil {
		return false, err
	}
	return quick{l.to.table}.SwapWithin(ctx, prev, next, earliest, latest)
}
