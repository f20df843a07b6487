package lease_test

import (
	"context"
	"errors"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// simLink is the store as one process sees it, over a network: requests and answers take time, get
// lost, and arrive late. It implements lease.Store.
type simLink struct {
	p *simProcess
	r *simRand
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

var (
	errSimRefused = errors.New("simulation: connection refused")
	errSimReset   = errors.New("simulation: connection reset")
	errSimSilence = errors.New("simulation: no answer")
	errSimDead    = errors.New("simulation: the process is dead")
)

func (l *simLink) Now(ctx context.Context) (time.Time, error) {
	l.recallUntil()
	now, err := simRequest(ctx, l, l.p.w.store.clock.now, nil)
	if err == nil && l.p.w.mutant == untilMayFall {
		l.forgetUntil()
	}
	return now, err
}

func (l *simLink) List(ctx context.Context) ([]lease.Record, error) {
	l.recallUntil()
	return simRequest(ctx, l, l.p.w.store.list, nil)
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
	_, err := simRequest(ctx, l.probes, func() bool { return true }, nil)
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
	if l.p.w.mutant == acknowledgedIsLost && l.r.chance(0.3) {
		serve = func() bool { return l.p.w.store.matches(prev, next) }
	}
	ok, err := simRequest(ctx, l, serve, serve)
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

// simFate is what becomes of a request.
type simFate int

const (
	simServed      simFate = iota
	simRefused             // it never arrives, which the process is told
	simSilent              // it never arrives, and nothing is heard
	simLost                // it arrives, and its answer does not
	simLostLate            // the same, and nothing is heard
	simArrivedLate         // the process is told that it failed; then it arrives
)

// simRequest carries a request to the store and its answer back. The answer to one that failed is
// the zero value. One that is a swap may arrive late.
func simRequest[T any](ctx context.Context, l *simLink, serve func() T, swap func() bool) (T, error) {
	var nothing T
	l.p.step(l.r)
	there, back := l.latency(), l.latency()
	late := l.r.upTo(3 * l.p.w.span)
	arrives := l.r.chance(0.5) // even if the process does not wait so long
	fate := l.fate(swap != nil)
	if l.p.isDead() {
		return nothing, errSimDead
	}
	switch fate {
	case simRefused:
		return nothing, firstOf(l.wait(ctx, there), errSimRefused)
	case simSilent:
		return nothing, firstOf(l.wait(ctx, l.p.w.span), errSimSilence)
	case simArrivedLate:
		l.p.w.later(late, swap)
		return nothing, firstOf(l.wait(ctx, there), errSimReset)
	}
	if err := l.wait(ctx, there); err != nil {
		if swap != nil && arrives {
			l.p.w.later(late, swap)
		}
		return nothing, err
	}
	answer := serve()
	if fate == simServed && l.cut(l.p.w.elapsed()) {
		fate = simLost // the connection broke meanwhile
		l.p.w.count("answers lost")
	}
	if fate == simLostLate {
		back = l.p.w.span
	}
	err := l.wait(ctx, back)
	l.p.step(l.r)
	switch {
	case err != nil:
		return nothing, err
	case fate != simServed:
		return nothing, errSimReset
	}
	return answer, nil
}

// firstOf is the first error there is.
func firstOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// cut tells whether nothing passes between the process and the store.
func (l *simLink) cut(at time.Duration) bool {
	return l.p.slot.cuts.at(at).to != 0 || l.p.w.down.at(at).to != 0
}

// fate draws what becomes of a request that begins now.
func (l *simLink) fate(write bool) simFate {
	now := l.p.w.elapsed()
	for _, spell := range []simSpell{l.p.slot.cuts.at(now), l.p.w.down.at(now)} {
		switch {
		case spell.to == 0:
		case spell.odd: // only the way back is broken
			l.p.w.count("answers lost")
			return simLostLate
		case l.r.chance(0.5):
			return simSilent
		default:
			return simRefused
		}
	}
	if !l.r.chance(l.p.w.faults) {
		return simServed
	}
	fate := simFate(1 + l.r.below(5))
	switch {
	case fate == simArrivedLate && !write:
		fate = simRefused
	case fate == simLost || fate == simLostLate:
		l.p.w.count("answers lost")
	}
	if fate == simRefused || fate == simSilent {
		l.p.w.count("requests lost")
	}
	return fate
}

// latency draws how long one way takes. Now and then the store is slow.
func (l *simLink) latency() time.Duration {
	d := l.r.about(l.p.w.latency)
	if l.p.w.slow.at(l.p.w.elapsed()).to != 0 {
		d = l.r.about(l.p.w.span / 6)
	}
	return d
}

// wait waits for the network, or until nobody waits any more.
func (l *simLink) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.p.dead:
		return errSimDead
	}
}
