package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// simStaleClock is what the generator of a process reads. The process may stand still after a
// reading, so that the generator goes on with one that is as old as the pause was long.
//
// The generator reads some times under its lock. It must not wait there: who waits for a mutex does
// not let time pass in a bubble.
type simStaleClock struct {
	p     *simProcess
	r     *simRand
	armed bool // the next reading that is not under the lock is one after which it stands still
}

func (c *simStaleClock) now() time.Time {
	now := c.p.slot.clock.now()
	if c.armed && beforeTheLock() {
		c.armed = false
		c.p.w.count("pauses inside of a call")
		c.p.pause(c.r)
		c.p.thaw(c.r)
	}
	return now
}

// beforeTheLock tells whether the clock is read by one of the methods that have not locked the
// generator yet.
func beforeTheLock() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		_, method, found := strings.Cut(frame.Function, "generator.(*Generator).")
		switch {
		case found:
			return method == "Next" || method == "Fill" || method == "NextLike"
		case !more:
			return false
		}
	}
}

// simRun is a run of IDs, one after the other, of one generator.
type simRun struct {
	first, last int64
	p           *simProcess
}

// draw asks for IDs until the process is dead.
func (p *simProcess) draw(ctx context.Context, g *generator.Generator) {
	r := p.stream(streamCalls)
	batch := make([]int64, 400)
	for p.sleep(p.gap(r)) {
		p.thaw(r)
		p.clock.armed = r.Chance(2 * p.w.standstill)
		p.want()
		call, cancel := ctx, func() {}
		if r.Chance(0.05) {
			call, cancel = context.WithTimeout(ctx, r.UpTo(p.w.span/4))
		}
		ids, err := p.ask(call, g, r, batch)
		cancel()
		p.clock.armed = false
		if p.isDead() {
			return // nobody hears of it
		}
		p.take(g, ids)
		if err != nil {
			p.refused(err)
		}
		p.look()
	}
}

// gap draws how long it is to the next call. Often they follow each other as the ticks do, above
// all where one tenure ends and the next begins.
func (p *simProcess) gap(r *simRand) time.Duration {
	mean := p.w.span / 60
	switch {
	case p.hurry > 0, p.closing.Load():
		p.hurry--
		mean = min(mean, max(p.w.layout.Tick, p.w.span/1000))
	case r.Chance(0.1):
		p.hurry = int(r.Below(40))
	}
	return r.About(mean)
}

// ask makes one or several calls.
func (p *simProcess) ask(
	ctx context.Context, g *generator.Generator, r *simRand, batch []int64,
) (ids []int64, err error) {
	switch kind := r.Below(10); {
	case kind < 5:
		for range 1 + r.Below(20) {
			id, err := g.Next(ctx)
			if err != nil {
				return ids, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	case kind < 9:
		ids = batch[:1+r.Below(int64(len(batch)))]
		if err := g.Fill(ctx, ids); err != nil {
			return nil, err
		}
		return ids, nil
	default:
		id, err := g.NextLike(ctx, r.Below(1<<40))
		if err != nil {
			return nil, err
		}
		return []int64{id}, nil
	}
}

// take keeps the IDs that were issued.
func (p *simProcess) take(g *generator.Generator, ids []int64) {
	if len(ids) == 0 {
		return
	}
	p.note(fmt.Sprintf("%d ids from %d to %d", len(ids), ids[0], ids[len(ids)-1]))
	p.got()
	mask := p.w.layout.MaxSequence()
	for _, id := range ids {
		if id <= p.last {
			p.w.breach("%s: %d came after %d", p.name, id, p.last)
		}
		// The number after the last one of a tick is that of another node.
		if n := len(p.runs) - 1; n >= 0 && id == p.runs[n].last+1 && id&mask != 0 {
			p.runs[n].last = id
		} else {
			p.runs = append(p.runs, simRun{first: id, last: id, p: p})
		}
		p.last = id
	}
	if parts, err := g.Layout().Decompose(p.last); err == nil {
		p.lastEnd.Store(parts.Time.Add(p.w.layout.Tick).UnixNano())
	}
}

// refused counts an error, and objects to one that no fault of the simulation explains.
func (p *simProcess) refused(err error) {
	for _, known := range []struct {
		is   error
		name string
	}{
		{generator.ErrOutsideWindow, "calls refused outside the window"},
		{generator.ErrClockBehind, "calls refused for the clock"},
		{generator.ErrSealed, "calls refused after the seal"},
		{generator.ErrCanceled, "calls canceled"},
	} {
		if errors.Is(err, known.is) {
			p.w.count(known.name)
			p.note(known.name, err)
			return
		}
	}
	p.w.breach("%s: %v", p.name, err)
}

// look remembers each window that the keeper has had.
func (p *simProcess) look() {
	w := p.keeper.Load().Window()
	if n := len(p.windows); !w.Until.IsZero() && (n == 0 || p.windows[n-1] != w) {
		p.windows = append(p.windows, w)
	}
}

// want begins the time for which the process waits for an ID, unless it waits already.
func (p *simProcess) want() {
	if p.wants < 0 {
		p.wants = p.w.elapsed()
	}
}

// got ends that time. What the process stood still does not count.
func (p *simProcess) got() {
	now := p.w.elapsed()
	since := max(p.wants, time.Duration(p.frozen.Load()))
	for _, spell := range p.slot.still {
		if spell.from <= now {
			since = max(since, spell.to)
		}
	}
	p.longest = max(p.longest, now-since)
	p.wants = -1
}
