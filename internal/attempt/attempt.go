// Package attempt asks a store for something until the store gives it. While nobody waits for that, an
// attempt has a lot of time. If somebody waits, an attempt that has had no answer is soon given up: a request
// that was sent while the store was cut off may never be answered, and the next one is answered at once.
//
// The store may also have become slow. So some attempts may take longer, and probes go along with them. If a
// probe is answered and the attempt is not, the request of the attempt counts as lost. A store may answer
// probes and be slow all the same, so after each attempt that was lost the next one has four times as long
// before it is probed.
package attempt

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// hurriedLimit is how long an attempt may take while somebody waits, or Factor times as long as the slowest
	// of the latest attempts that have succeeded, whichever is more.
	hurriedLimit = 250 * time.Millisecond
	// Factor is by how much more time an attempt has when another one has had too little.
	Factor = 4
	// probedShare of the attempts after a failure are patient if probes go along with them. Such an attempt
	// ends when a probe is answered, so it costs nothing to have many of them.
	probedShare = 2
	// lookShare of the hurried limit lies between two looks at whether somebody waits.
	lookShare = 8

	// firstPause is the pause after the first failure in a row, which doubles with every other one.
	firstPause = 100 * time.Millisecond
	// hurriedPause is the pause while somebody waits and the store refuses.
	hurriedPause = 250 * time.Millisecond
	// silentPause is the same after an attempt that has had no answer, which was a pause itself.
	silentPause = hurriedPause / 2
)

// Causes for which an attempt is given up. To those who send the requests they are ends of their time.
var (
	errSilent    = errs.Kind("it has not answered in time", context.DeadlineExceeded)
	errOvertaken = errs.Kind("it has not answered, but it has answered a request that was sent later",
		context.DeadlineExceeded)
)

// Limits are the times in which those who make attempts differ.
type Limits struct {
	// Patience is how long an attempt may take that nobody waits for, or that probes go along with.
	Patience time.Duration
	// LastPause is what the pauses after failures grow to.
	LastPause time.Duration
	// Longer returns how long the n-th attempt after the last success may take that somebody waits for and no
	// probe goes along with; n is at least 2. Most of them should be hurried. The others find out whether the
	// store has become slow. While one of those is under way, nobody finds out that the store is back.
	Longer func(n int, hurried time.Duration) time.Duration
}

// Attempts are made one after the other, by one goroutine at a time. Only Hurry may be called by any.
type Attempts struct {
	limits   Limits
	prober   prober
	waiting  func() bool
	random   func(n int64) int64
	hurried  chan struct{} // has an element if somebody has begun to wait since the last attempt began
	unprobed atomic.Bool   // the store cannot be probed

	answered  bool          // an attempt has succeeded
	slowest   time.Duration // of the latest attempts that have succeeded: an upper bound, which falls
	failures  int           // since the last success
	pause     time.Duration // after the last failure
	overtaken int           // how many attempts in a row were given up because the store had answered a probe
	ended     error         // why the last attempt had to end, if it had to
}

// prober is a store that can be probed, see lease.Prober.
type prober interface {
	Probe(ctx context.Context) error
}

// New returns attempts at a store, none of which was made yet. Waiting tells whether somebody waits for what
// an attempt brings. Random returns a number from 0 to n-1: it keeps many processes from asking at the same
// moments.
func New(store any, limits Limits, waiting func() bool, random func(n int64) int64) *Attempts {
	a := &Attempts{limits: limits, waiting: waiting, random: random, hurried: make(chan struct{}, 1)}
	able := false
	a.prober, able = store.(prober)
	a.unprobed.Store(!able)
	return a
}

// Hurry says that somebody has begun to wait. It ends a pause that has lasted long enough for that.
func (a *Attempts) Hurry() {
	select {
	case a.hurried <- struct{}{}:
	default: // it was said already
	}
}

// served forgets that somebody has begun to wait.
func (a *Attempts) served() {
	select {
	case <-a.hurried:
	default:
	}
}

// Answered notes how long the store took for an answer. Before the first one nothing is known of the store,
// so that one is waited for with patience.
func (a *Attempts) Answered(took time.Duration) {
	a.answered = true
	a.slowest = max(took, a.slowest-a.slowest/8)
}

// Do makes an attempt. The context that it hands over ends when the attempt is given up.
func (a *Attempts) Do(ctx context.Context, do func(context.Context) error) error {
	a.served()
	ctx, cancel := context.WithTimeout(ctx, a.limits.Patience)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go a.watch(ctx, giveUp, a.draw())

	began := time.Now()
	err := do(ctx)
	a.ended = context.Cause(ctx)
	if err == nil {
		a.served()
		a.Answered(time.Since(began))
		a.failures, a.pause, a.overtaken = 0, 0, 0
		return nil
	}
	a.failures++
	a.pause = max(firstPause, min(2*a.pause, a.limits.LastPause))
	if errors.Is(a.ended, errOvertaken) {
		a.overtaken++
	} else {
		a.overtaken = 0
	}
	return err
}

// course is how one attempt goes while somebody waits for it.
type course struct {
	limit time.Duration // after which it is given up
	grace time.Duration // before the first probe
	probe time.Duration // how long a probe may take
	known bool          // a probe that is answered says that the attempt is lost
}

// draw decides how the next attempt goes.
func (a *Attempts) draw() course {
	hurried := max(hurriedLimit, Factor*a.slowest)
	hurried -= time.Duration(a.random(int64(hurried / Factor)))
	c := course{limit: hurried, grace: hurried, probe: hurried, known: a.answered}
	for range a.overtaken {
		c.grace = min(Factor*c.grace, a.limits.Patience)
	}
	switch probed := !a.unprobed.Load(); {
	case !a.answered:
		// Nobody knows what is slow for this store. So a probe counts only after one that had no answer, and the
		// first one is early enough to meet the same silence.
		c.limit, c.grace = a.limits.Patience, hurried/lookShare
	case a.overtaken > 0, probed && a.failures > 0 && a.random(probedShare) == 0:
		c.limit = a.limits.Patience
	case a.failures > 0:
		c.limit = a.limits.Longer(a.failures+1, hurried)
	}
	return c
}

// watch gives an attempt up at its limit, or when a probe was answered, if somebody waits for it then.
func (a *Attempts) watch(ctx context.Context, giveUp context.CancelCauseFunc, c course) {
	began := time.Now()
	for pause := min(c.limit, c.grace); Sleep(ctx, pause) == nil; pause = c.probe / lookShare {
		took := time.Since(began)
		switch {
		case !a.waiting():
		case took >= c.limit:
			giveUp(errSilent)
			return
		case took >= c.grace && !a.unprobed.Load():
			limited, cancel := context.WithTimeout(ctx, min(c.probe, c.limit-took))
			err := a.prober.Probe(limited)
			cancel()
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				a.unprobed.Store(true)
			case err != nil:
				c.known = true
			case c.known:
				giveUp(errOvertaken)
				return
			}
		}
	}
}

// Pauses returns how long the pause after a failure is, and how long it is at least if somebody waits. After
// an attempt that a probe has overtaken the latter is 0, because the store is there.
func (a *Attempts) Pauses() (long, short time.Duration) {
	long = a.Spread(a.pause)
	switch {
	case a.overtaken > 0:
		return long, 0
	case errors.Is(a.ended, context.DeadlineExceeded):
		return long, min(long, a.Spread(silentPause))
	}
	return long, min(long, a.Spread(hurriedPause))
}

// Rest is the pause before the next attempt. It is short if somebody has begun to wait since the last attempt
// began, and ends then or when somebody does.
func (a *Attempts) Rest(ctx context.Context, long, short time.Duration) error {
	if err := Sleep(ctx, short); err != nil {
		return err
	}
	timer := time.NewTimer(long - short)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.hurried:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Spread returns a random time from half of d to d.
func (a *Attempts) Spread(d time.Duration) time.Duration {
	half := max(int64(d/2), 1)
	return time.Duration(half + a.random(half))
}

// Sleep waits, and returns the cause if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Detached does something, but does not wait for it beyond the end of ctx, for drivers and clients that do
// not look at the context while they wait. Then it is left to itself.
func Detached[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := do()
		done <- outcome{answer, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
