package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// simProcess is a process from its start to its death: it acquires a number, makes IDs, and then
// crashes or closes its lease.
type simProcess struct {
	w     *simWorld
	slot  *simSlot
	name  string
	start int      // how many there were before it on its machine
	r     *simRand // of its main goroutine

	keeper  atomic.Pointer[lease.Keeper]
	closing atomic.Bool
	frozen  atomic.Int64 // until when a pause at a step lasts, in elapsed time
	dead    chan struct{}
	die     func()

	// Owned by the main goroutine.
	clock   simStaleClock
	hurry   int // how many calls are to come one after the other
	last    int64
	runs    []simRun
	windows []generator.Window
	wants   time.Duration // since when it has wanted an ID in vain
	longest time.Duration // that it wanted one
	lastEnd atomic.Int64  // end of the tick of the last ID, in nanoseconds of Unix time
}

func newSimProcess(s *simSlot, start int) *simProcess {
	p := &simProcess{
		w: s.w, slot: s, name: fmt.Sprintf("p%d.%d", s.index, start), start: start,
		r:    s.w.stream(streamProcess, s.index, start),
		dead: make(chan struct{}), last: -1, wants: -1, hurry: 40,
	}
	p.die = sync.OnceFunc(func() { close(p.dead) })
	p.clock = simStaleClock{p: p, r: p.stream(streamClock)}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.processes = append(s.w.processes, p)
	return p
}

func (p *simProcess) stream(purpose int) *simRand {
	return p.w.stream(purpose, p.slot.index, p.start)
}

func (p *simProcess) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// note writes a line of the trace.
func (p *simProcess) note(what string, aside ...any) {
	if p.w.traced && !p.isDead() {
		p.w.note(p.name, what, aside...)
	}
}

// sleep returns false if the process died meanwhile.
func (p *simProcess) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !p.isDead()
	case <-p.dead:
		return false
	}
}

// step stands between two steps of a process. It may stop there for a while, all of it: whatever
// else it does stops at its next step. A dead one hurries through what is left of its code, and
// nobody sees what it does.
func (p *simProcess) step(r *simRand) {
	if p.isDead() {
		return
	}
	if r.Chance(p.w.standstill) {
		p.pause(r)
	}
	p.thaw(r)
}

// pause freezes the process, for a moment or for some spans.
func (p *simProcess) pause(r *simRand) {
	d := r.About(p.w.span / 20)
	if r.Chance(0.6) {
		d = r.About(p.w.span)
	}
	p.w.count("pauses")
	p.frozen.Store(max(p.frozen.Load(), int64(p.w.elapsed()+d)))
}

// thaw waits until the process is not frozen.
func (p *simProcess) thaw(r *simRand) {
	for {
		now := p.w.elapsed()
		until := max(p.slot.still.at(now).to, time.Duration(p.frozen.Load()))
		if until <= now || p.isDead() {
			return
		}
		p.note(fmt.Sprintf("stands still until %v", until))
		// Its goroutines do not go on all at the same instant.
		if !p.sleep(until - now + r.UpTo(time.Millisecond)) {
			return
		}
	}
}

// run is the life of the process.
func (p *simProcess) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.w.tasks.Go(func() {
		<-p.dead
		cancel()
	})
	defer p.die()
	p.w.tasks.Go(p.endWithTheWorld)

	p.want()
	keeper := p.acquire(ctx)
	if keeper == nil {
		return
	}
	defer keeper.Crash() // after Close it does nothing
	defer p.die()        // before that: a dead process does nothing on its way out
	p.keeper.Store(keeper)
	tenure := p.w.mutant.tenure(keeper, p)
	g, err := generator.New(p.w.layout, tenure, p.options()...)
	if err != nil {
		p.w.breach("%s: no generator: %v", p.name, err)
		return
	}
	fate := p.stream(streamFate)
	p.w.tasks.Go(func() { p.end(ctx, tenure, fate) })
	p.draw(ctx, g)
}

// endWithTheWorld kills the process when the simulation ends, and a few before they have a number.
func (p *simProcess) endWithTheWorld() {
	r := p.stream(streamEnd)
	left := p.w.left() + r.UpTo(time.Second)
	if r.Chance(0.05 * p.w.crash) {
		left = min(left, r.About(p.w.span/10))
	}
	p.sleep(left)
	p.die()
}

// options are those of the generator. With one shard every tick begins with the sequence number 0,
// so two generators that stamp the same tick make a duplicate. It also is what makes the IDs
// repeatable, because the deck of more shards is shuffled at random.
func (p *simProcess) options() []generator.Option {
	ahead := 10 * p.w.layout.Tick
	switch p.r.Below(5) {
	case 0:
		ahead = 0
	case 1:
		ahead = p.r.UpTo(p.w.span / 2)
	}
	wait := p.r.UpTo(2 * time.Second)
	return []generator.Option{
		generator.WithClock(p.clock.now), generator.WithShards(1),
		generator.WithMaxAhead(ahead), generator.WithMaxWait(max(wait, p.w.layout.Tick)),
	}
}

// acquire tries until there is a number, or the process is dead.
func (p *simProcess) acquire(ctx context.Context) *lease.Keeper {
	link := newSimLink(p, streamLink)
	var store lease.Store = link
	if p.w.within && p.w.mutant != untilMayFall {
		store = simWithinLink{link, make(chan struct{}, 1), newSimLink(p, streamProbe)}
	}
	lo, hi := p.w.lo, p.w.hi
	if p.w.fixed {
		lo += int64(p.slot.index) % (hi - lo + 1)
		hi = lo
	}
	steps := p.stream(streamKeeper)
	choices := p.stream(streamChoices)
	clock := func() time.Time {
		now := p.slot.clock.now()
		p.step(steps) // and the reading grows old meanwhile
		return now
	}
	for {
		p.thaw(p.r)
		if p.isDead() {
			return nil
		}
		k, err := lease.Acquire(ctx, store, p.w.layout, lease.WithNodes(lo, hi), lease.WithSpan(p.w.span),
			lease.WithOwner(p.name), lease.WithClock(clock), lease.Random(choices.Below),
			lease.WithLogger(slog.New(p.logs())))
		if err == nil {
			p.note(fmt.Sprintf("acquired %d", k.Window().Node), k.Window())
			return k
		}
		p.note("acquired nothing", err)
		known := false
		for _, one := range []error{lease.ErrNoFreeNode, lease.ErrNodeHeld, lease.ErrStore, lease.ErrClockSkew} {
			known = known || errors.Is(err, one)
		}
		if !known {
			p.w.breach("%s: Acquire: %v", p.name, err)
		}
		p.sleep(p.r.UpTo(p.w.span / 3))
	}
}

// logs lets the trace have what the keeper logs.
func (p *simProcess) logs() slog.Handler {
	if !p.w.traced {
		return slog.DiscardHandler
	}
	return slog.NewTextHandler(simLog{p}, nil)
}

type simLog struct{ p *simProcess }

func (l simLog) Write(line []byte) (int, error) {
	l.p.note("logs", strings.TrimSpace(string(line)))
	return len(line), nil
}

// end crashes the process some time after it got its number, or closes the lease, while its main
// goroutine goes on asking for IDs.
func (p *simProcess) end(ctx context.Context, tenure simTenant, r *simRand) {
	defer p.die()
	life := p.w.span/20 + r.About(p.w.life)
	if !p.sleep(life) {
		return
	}
	if r.Chance(p.w.crash) {
		p.w.count("crashes")
		p.note("crashes")
		return
	}
	p.thaw(r)
	p.closing.Store(true)
	p.w.count("closes")
	p.note("closes")
	for range 3 {
		limited, cancel := context.WithTimeout(ctx, r.About(p.w.span))
		err := tenure.Close(limited)
		cancel()
		p.note("closed", err)
		if err == nil || !p.sleep(r.UpTo(p.w.span/10)) {
			break
		}
		p.w.count("closes that failed")
	}
	tenure.closed()
	p.sleep(r.About(p.w.span / 20))
}
