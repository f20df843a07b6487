package lease_test

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// simLink is the store as one process sees it, over a network: requests and answers take time, get
// lost, and arrive late. It implements lease.Store.
type simLink struct {
	*simnet.Link
	p *simProcess
	// end is the end of the window that the keeper had before it was made to forget.
	end time.Time
}

// simWithinLink is a link to a store that can look at its clock while it swaps, and can be probed. Probes
// have a link of their own, because they come while another request is under way.
type simWithinLink struct {
	*simLink
	turn   chan struct{} // held by the probe that is under way
	probes *simLink
}

// newSimLink returns a link with a stream of choices of its own.
func newSimLink(p *simProcess, stream int) *simLink {
	r := p.stream(stream)
	return &simLink{p: p, Link: &simnet.Link{
		Random: r, Latency: p.w.latency, Span: p.w.span, Faults: p.w.faults,
		State: p.wayToStore,
		Slow:  func() bool { return p.w.slow.at(p.w.elapsed()).to != 0 },
		Step:  func() { p.step(r) },
		Dead:  p.dead,
		Count: p.w.count,
		Later: p.w.later,
	}}
}

// wayToStore tells what passes between the process and the store.
func (p *simProcess) wayToStore() simnet.State {
	now := p.w.elapsed()
	for _, spell := range []simSpell{p.slot.cuts.at(now), p.w.down.at(now)} {
		switch {
		case spell.to == 0:
		case spell.odd: // only the way back is broken
			return simnet.OneWay
		default:
			return simnet.Cut
		}
	}
	return simnet.Whole
}

func (l *simLink) Now(ctx context.Context) (time.Time, error) {
	l.recallUntil()
	now, err := simnet.Request(ctx, l.Link, l.p.w.store.clock.now, nil)
	if err == nil && l.p.w.mutant == untilMayFall {
		l.forgetUntil()
	}
	return now, err
}

func (l *simLink) List(ctx context.Context) ([]lease.Record, error) {
	l.recallUntil()
	return simnet.Request(ctx, l.Link, l.p.w.store.list, nil)
}

func (l *simLink) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return l.swap(ctx, prev, next, func() bool { return l.p.w.store.swap(prev, next) })
}

func (l simWithinLink) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return l.swap(ctx, prev, next, func() bool {
		return l.p.w.store.within(earliest, latest) && l.p.w.store.swap(prev, next)
	})
}

func (l simWithinLink) Probe(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	_, err := simnet.Request(ctx, l.probes.Link, func() bool { return true }, nil)
	if err == nil {
		l.p.w.count("probes answered")
	}
	return err
}

func (l *simLink) swap(ctx context.Context, prev, next lease.Record, serve func() bool) (bool, error) {
	l.recallUntil()
	if err := lease.CheckSwap(prev, next); err != nil {
		l.p.w.breach("%s asked for a swap that is none: %v", l.p.name, err)
		return false, err
	}
	if l.p.w.mutant == extendWithoutCompare && next.Owner == prev.Owner {
		serve = func() bool { return l.p.w.store.force(next) }
	}
	if l.p.w.mutant == acknowledgedIsLost && l.Random.Chance(0.3) {
		serve = func() bool { return l.p.w.store.matches(prev, next) }
	}
	ok, err := simnet.Request(ctx, l.Link, serve, serve)
	if err != nil && l.p.w.mutant == unansweredIsGranted && !l.p.isDead() {
		return true, nil
	}
	return ok, err
}

// forgetUntil makes the keeper extend without a look at the end that it has already, as if that
// were allowed to fall; recallUntil reminds it.
func (l *simLink) forgetUntil() {
	if k := l.p.keeper.Load(); k != nil {
		l.end = k.SetUntil(func(from time.Time) time.Time { return from })
	}
}

func (l *simLink) recallUntil() {
	if !l.end.IsZero() {
		l.p.keeper.Load().SetUntil(func(time.Time) time.Time { return l.end })
		l.end = time.Time{}
	}
}
