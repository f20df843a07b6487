package simnet

import (
	"context"
	"errors"
	"time"
)

// Errors of requests.
var (
	ErrRefused = errors.New("simulation: connection refused")
	ErrReset   = errors.New("simulation: connection reset")
	ErrSilence = errors.New("simulation: no answer")
	ErrDead    = errors.New("simulation: the process is dead")
)

// A State is how the way between a process and the store is.
type State int

// The states of the way.
const (
	Whole  State = iota
	OneWay       // requests arrive, and answers do not
	Cut          // nothing arrives
)

// A Link is the store as one process sees it.
type Link struct {
	Random  *Random
	Latency time.Duration // of one way on average
	Span    time.Duration // how long silence lasts; what is late arrives up to three spans later
	Faults  float64       // how many of the requests meet a fault while the way is whole

	State func() State    // how the way is now
	Slow  func() bool     // whether the store is slow now
	Step  func()          // is called before a request is sent and after its answer has come
	Dead  <-chan struct{} // is closed when the process dies
	Count func(what string)
	// Later does something after a time, whether the process is alive then or not.
	Later func(d time.Duration, do func() bool)
}

// fate is what becomes of a request.
type fate int

const (
	served      fate = iota
	refused          // it never arrives, which the process is told
	silent           // it never arrives, and nothing is heard
	lost             // it arrives, and its answer does not
	lostLate         // the same, and nothing is heard
	arrivedLate      // the process is told that it failed; then it arrives
)

// Request carries a request to the store and its answer back. The answer to one that failed is the zero
// value. One that writes may arrive late: write is what it does then; nil stands for one that only reads.
func Request[T any](ctx context.Context, l *Link, serve func() T, write func() bool) (T, error) {
	var nothing T
	l.Step()
	there, back := l.latency(), l.latency()
	late := l.Random.UpTo(3 * l.Span)
	arrives := l.Random.Chance(0.5) // even if the process does not wait so long
	fate := l.fate(write != nil)
	if l.isDead() {
		return nothing, ErrDead
	}
	switch fate {
	case refused:
		return nothing, firstOf(l.wait(ctx, there), ErrRefused)
	case silent:
		return nothing, firstOf(l.wait(ctx, l.Span), ErrSilence)
	case arrivedLate:
		l.Later(late, write)
		return nothing, firstOf(l.wait(ctx, there), ErrReset)
	}
	if err := l.wait(ctx, there); err != nil {
		if write != nil && arrives {
			l.Later(late, write)
		}
		return nothing, err
	}
	answer := serve()
	if fate == served && l.State() != Whole {
		fate = lost // the connection broke meanwhile
		l.Count("answers lost")
	}
	if fate == lostLate {
		back = l.Span
	}
	err := l.wait(ctx, back)
	l.Step()
	switch {
	case err != nil:
		return nothing, err
	case fate != served:
		return nothing, ErrReset
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

func (l *Link) isDead() bool {
	select {
	case <-l.Dead:
		return true
	default:
		return false
	}
}

// fate draws what becomes of a request that begins now.
func (l *Link) fate(write bool) fate {
	switch l.State() {
	case Whole:
	case OneWay:
		l.Count("answers lost")
		return lostLate
	case Cut:
		if l.Random.Chance(0.5) {
			return silent
		}
		return refused
	}
	if !l.Random.Chance(l.Faults) {
		return served
	}
	f := fate(1 + l.Random.Below(5))
	switch {
	case f == arrivedLate && !write:
		f = refused
	case f == lost || f == lostLate:
		l.Count("answers lost")
	}
	if f == refused || f == silent {
		l.Count("requests lost")
	}
	return f
}

// latency draws how long one way takes. Now and then the store is slow.
func (l *Link) latency() time.Duration {
	d := l.Random.About(l.Latency)
	if l.Slow() {
		d = l.Random.About(l.Span / 6)
	}
	return d
}

// wait waits for the network, or until nobody waits any more.
func (l *Link) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.Dead:
		return ErrDead
	}
}
