package lease

import (
	"context"
	"errors"
	"time"
)

const (
	// minPatience and maxPatience bound how long one attempt may take, otherwise a third of a
	// span.
	minPatience = time.Second
	maxPatience = 10 * time.Second
	// hurriedPatience is how long an attempt may take while callers wait, or hurriedFactor times as
	// long as the slowest of the latest attempts that have succeeded, whichever is more. A request that
	// was sent while the store was cut off may never be answered; another one is answered at once.
	hurriedPatience = 250 * time.Millisecond
	hurriedFactor   = 4
	// A store may have become slower than that. So one in patientShare attempts after a failure, at
	// random, may take hurriedFactor times as long, and one in calmShare as long as if nobody waited.
	patientShare = 16
	calmShare    = 64
	// A patient attempt that probes accompany ends as soon as one of them is answered, so it costs nothing
	// to have more of them: one in accompaniedShare. They let a store that is slow to start come back.
	accompaniedShare = 2
	// hurriedPause is the longest pause between two attempts while callers wait and the store refuses.
	// Every pause is cut at random by up to half, so that many processes spread their attempts.
	hurriedPause = 250 * time.Millisecond
	// silentPause is the same after an attempt that has had no answer, which was a pause itself.
	silentPause = hurriedPause / 2
	// overtakenPause is the same after an attempt that was given up because the store has answered a
	// probe, so it is there.
	overtakenPause = hurriedPause / 8
)

// Causes for which an attempt is given up. To those who send the requests they are ends of their time.
var (
	errSilent    = &givenUpError{"it has not answered in time"}
	errOvertaken = &givenUpError{"it has not answered, but it has answered a request that was sent later"}
)

type givenUpError struct{ why string }

func (e *givenUpError) Error() string { return e.why }
func (e *givenUpError) Unwrap() error { return context.DeadlineExceeded }

// attempt extends the window, or takes another number if the keeper's was lost. The attempt before may
// have failed.
func (k *Keeper) attempt(ctx context.Context, again bool) error {
	patience := min(max(k.span/3, minPatience), maxPatience)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)

	hurried := max(hurriedPatience, hurriedFactor*k.slowest)
	hurried -= time.Duration(k.random(int64(hurried / hurriedFactor))) // not all processes at once
	limit := hurried
	prober, probing := k.store.(Prober)
	probing = probing && !k.unprobed.Load()
	switch {
	case k.overtaken > 0,
		again && k.random(calmShare) == 0,
		again && probing && k.random(accompaniedShare) == 0:
		limit = patience
	case again && k.random(patientShare) == 0:
		limit *= hurriedFactor
	}
	if limit < patience {
		go k.hurry(ctx, giveUp, limit)
	}
	if probing && limit > hurried {
		go k.accompany(ctx, giveUp, prober, hurried, k.grace(hurried, patience))
	}

	began := time.Now()
	err := k.renew(ctx)
	k.ended = context.Cause(ctx)
	switch {
	case err == nil:
		k.overtaken = 0
		k.slowest = max(time.Since(began), k.slowest*7/8)
	case errors.Is(k.ended, errOvertaken):
		k.overtaken++
	default:
		k.overtaken = 0
	}
	return err
}

// grace is how long an attempt has at least, even if the store answers probes. A store may answer those
// at once and be slow to do what it is asked. So each attempt after one that was given up for a probe
// has more time than that.
func (k *Keeper) grace(hurried, patience time.Duration) time.Duration {
	if k.overtaken == 0 {
		return 0
	}
	grace := hurried
	for range k.overtaken {
		grace = min(grace*hurriedFactor, patience)
	}
	return grace
}

// hurry gives an attempt up that has had no answer in time, as soon as somebody waits for it.
func (k *Keeper) hurry(ctx context.Context, giveUp context.CancelCauseFunc, limit time.Duration) {
	for pause := limit; sleep(ctx, pause) == nil; pause = limit / 8 {
		if k.waiting.Load() > 0 {
			giveUp(errSilent)
			return
		}
	}
}

// accompany probes the store while an attempt lasts longer than usual and somebody waits for it. It gives
// the attempt up when the store has answered, after its grace: what the attempt has asked before is lost,
// or takes longer than the attempt should.
func (k *Keeper) accompany(
	ctx context.Context, giveUp context.CancelCauseFunc, store Prober, hurried, grace time.Duration,
) {
	began := time.Now()
	for pause := hurried; sleep(ctx, pause) == nil; pause = hurried / 8 {
		if k.waiting.Load() == 0 || time.Since(began) < grace {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, hurried)
		err := store.Probe(limited)
		cancel()
		switch {
		case err == nil:
			giveUp(errOvertaken)
			return
		case errors.Is(err, errors.ErrUnsupported):
			k.unprobed.Store(true)
			return
		}
	}
}

// hurriedAfter is the longest pause after a failure while callers wait. Where the store has answered,
// somebody has to act, or another holder to end, so there is less of a hurry.
func (k *Keeper) hurriedAfter(err error) time.Duration {
	switch {
	case !errors.Is(err, ErrStore), permanent(err):
		return lookAgain
	case errors.Is(k.ended, errOvertaken):
		return overtakenPause
	case errors.Is(k.ended, context.DeadlineExceeded):
		return silentPause
	}
	return hurriedPause
}
