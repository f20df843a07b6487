package attempt_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
)

const (
	patience  = 10 * time.Second
	hurried   = 250 * time.Millisecond // at most, by a store that is quick
	look      = hurried / 8            // from one look at whether somebody waits to the next
	lastPause = 5 * time.Second
)

// client makes attempts at a store.
type client struct {
	*attempt.Attempts
	waits  atomic.Bool  // somebody waits
	least  bool         // random draws the least number, otherwise the greatest
	drawn  []int64      // what is drawn first
	nth    []int        // of which attempts it was asked how long they may take
	probes atomic.Int64 // how many there were
}

// newClient returns attempts at a store that is probed like this; nil is for a store that cannot be probed.
func newClient(probe func(ctx context.Context) error) *client {
	c := &client{}
	c.waits.Store(true)
	limits := attempt.Limits{Patience: patience, LastPause: lastPause, Longer: c.longer}
	var store any
	if probe != nil {
		store = prober(func(ctx context.Context) error {
			c.probes.Add(1)
			return probe(ctx)
		})
	}
	c.Attempts = attempt.New(store, limits, c.waits.Load, c.random)
	return c
}

type prober func(ctx context.Context) error

func (p prober) Probe(ctx context.Context) error { return p(ctx) }

func (c *client) random(n int64) int64 {
	if len(c.drawn) > 0 {
		next := c.drawn[0]
		c.drawn = c.drawn[1:]
		return next % n
	}
	if c.least {
		return 0
	}
	return n - 1
}

// longer gives every third attempt a second.
func (c *client) longer(n int, hurried time.Duration) time.Duration {
	c.nth = append(c.nth, n)
	if n%3 == 0 {
		return time.Second
	}
	return hurried
}

// try makes an attempt and returns how long it took, and why its context ended.
func (c *client) try(ctx context.Context, do func(context.Context) error) (took time.Duration, cause error) {
	began := time.Now()
	err := c.Do(ctx, func(ctx context.Context) error {
		err := do(ctx)
		cause = context.Cause(ctx)
		return err
	})
	if err == nil {
		cause = nil
	}
	return time.Since(began), cause
}

var errDown = errors.New("the store is down")

func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func refuses(context.Context) error { return errDown }
func answers(context.Context) error { return nil }

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// within checks that a time is at least least and at most most.
func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %v, want %v to %v", what, got, least, most)
	}
}

func TestAnAttemptThatNobodyWaitsForHasAllThePatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, probe := range []func(context.Context) error{nil, answers} {
			c := newClient(probe)
			c.Answered(time.Millisecond)
			c.waits.Store(false)
			for range 3 {
				took, cause := c.try(t.Context(), silent)
				within(t, "an attempt", took, patience, patience)
				if !errors.Is(cause, context.DeadlineExceeded) {
					t.Errorf("it ended because of %v", cause)
				}
			}
			if c.probes.Load() > 0 {
				t.Errorf("%d probes", c.probes.Load())
			}
		}
	})
}

func TestAnAttemptThatSomebodyWaitsForIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, answered := range []struct{ took, limit time.Duration }{
			{time.Millisecond, hurried}, {200 * time.Millisecond, 800 * time.Millisecond},
		} {
			for _, least := range []bool{true, false} {
				c := newClient(nil)
				c.least = least
				c.Answered(answered.took)
				took, cause := c.try(t.Context(), silent)
				// It is cut by up to a quarter, so that many processes do not ask at the same moments.
				want := answered.limit
				if !least {
					want = answered.limit*3/4 + 1
				}
				within(t, "an attempt", took, want, want)
				if !errors.Is(cause, context.DeadlineExceeded) || cause.Error() != "it has not answered in time" {
					t.Errorf("it ended because of %v", cause)
				}
			}
		}
	})
}

func TestASlowAnswerIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(nil)
		c.least = true
		c.Answered(2 * time.Second)
		quick := func(context.Context) error {
			time.Sleep(time.Millisecond)
			return nil
		}
		for range 10 {
			_, _ = c.try(t.Context(), quick)
		}
		took, _ := c.try(t.Context(), silent)
		within(t, "an attempt after ten quick ones", took, 2*time.Second, 3*time.Second)
		for range 20 {
			_, _ = c.try(t.Context(), quick)
		}
		took, _ = c.try(t.Context(), silent)
		within(t, "an attempt after thirty quick ones", took, hurried, hurried)
	})
}

// What the attempt has asked for so long is lost, however late somebody comes who waits for it.
func TestAnOldAttemptIsGivenUpAsSoonAsSomebodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(nil)
		c.Answered(time.Millisecond)
		c.waits.Store(false)
		time.AfterFunc(3*time.Second, func() { c.waits.Store(true) })
		took, _ := c.try(t.Context(), silent)
		within(t, "the attempt", took, 3*time.Second, 3*time.Second+look)
	})
}

// Of a store that has answered nothing yet it is not known what is slow.
func TestTheFirstAnswerIsWaitedForWithPatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, probe := range []func(context.Context) error{nil, answers} {
			took, _ := newClient(probe).try(t.Context(), silent)
			within(t, "the first attempt", took, patience, patience)
		}
		c := newClient(nil)
		_, _ = c.try(t.Context(), answers) // in no time at all, which is an answer nevertheless
		took, _ := c.try(t.Context(), silent)
		within(t, "the second attempt", took, hurried/2, hurried)
	})
}

// A probe that had no answer, and then one that had, say that the store is back.
func TestTheFirstAttemptIsLostWhenASilentStoreIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for away := 50 * time.Millisecond; away < 5*time.Second; away += 170 * time.Millisecond {
			began := time.Now()
			c := newClient(func(ctx context.Context) error {
				if time.Since(began) < away {
					return silent(ctx)
				}
				return nil
			})
			took, _ := c.try(t.Context(), silent)
			within(t, "the first attempt", took, away, away+hurried+look)
		}
	})
}

func TestAPatientAttemptEndsWhenAProbeIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for away := hurried; away < 5*time.Second; away += 170 * time.Millisecond {
			var back time.Time
			c := newClient(func(ctx context.Context) error {
				if time.Now().Before(back) {
					return silent(ctx)
				}
				return nil
			})
			c.least = true // each attempt after a failure is patient
			c.Answered(time.Millisecond)
			_, _ = c.try(t.Context(), refuses)
			back = time.Now().Add(away)
			took, cause := c.try(t.Context(), silent)
			within(t, "the attempt", took, away, away+hurried+look)
			if want := "it has not answered, but it has answered a request that was sent later"; cause == nil ||
				cause.Error() != want || !errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("it ended because of %v", cause)
			}
			if _, short := c.Pauses(); short != 0 {
				t.Errorf("the pause is %v, and the store is there", short)
			}
		}
	})
}

// Without patience an attempt is given up before it would be probed.
func TestOneInTwoAttemptsAfterAFailureIsPatientIfItIsProbed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(silent)
		c.Answered(time.Millisecond)
		var patient, lasted int
		for i := range 20 {
			c.drawn = []int64{0, int64(i)} // the first is for the limit
			took, _ := c.try(t.Context(), silent)
			switch {
			case took == patience:
				patient++
			case took > hurried+look:
				lasted++
			}
		}
		if patient != 9 || lasted < 3 { // not the first, which follows no failure
			t.Errorf("of 20 attempts, %d are patient, and %d of the others last longer", patient, lasted)
		}
	})
}

// A store that answers probes and is slow to do what it is asked is believed in the end.
func TestEachAttemptThatWasLostGivesTheNextOneMoreTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(answers)
		c.least = true
		c.Answered(time.Millisecond)
		for i, want := range []time.Duration{
			hurried, // is given up without a probe
			hurried, time.Second, 4 * time.Second,
			patience, // is not lost
			hurried,  // so it begins again
		} {
			c.drawn = nil
			if i > 1 {
				c.drawn = []int64{0, 1} // after the limit, that it is not patient without a reason
			}
			took, _ := c.try(t.Context(), silent)
			within(t, "an attempt", took, want, want)
		}
		_, _ = c.try(t.Context(), answers)
		took, _ := c.try(t.Context(), silent)
		within(t, "the attempt after a success", took, hurried, hurried)
	})
}

// A probe that is answered says nothing if nobody wants to know.
func TestAnAttemptIsProbedOnlyWhileSomebodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(answers)
		c.least = true
		c.Answered(time.Millisecond)
		_, _ = c.try(t.Context(), refuses)
		c.waits.Store(false)
		time.AfterFunc(2*time.Second, func() { c.waits.Store(true) })
		took, _ := c.try(t.Context(), silent)
		within(t, "the attempt", took, 2*time.Second, 2*time.Second+look)
		if n := c.probes.Load(); n != 1 {
			t.Errorf("%d probes", n)
		}
	})
}

func TestAStoreThatCanNeverTellIsProbedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(func(context.Context) error { return errors.ErrUnsupported })
		c.least = true
		c.Answered(time.Millisecond)
		_, _ = c.try(t.Context(), refuses)
		for _, want := range []time.Duration{patience, time.Second, hurried, hurried, time.Second} {
			took, _ := c.try(t.Context(), silent)
			within(t, "an attempt", took, want, want+look)
		}
		if n := c.probes.Load(); n != 1 {
			t.Errorf("%d probes", n)
		}
		if want := []int{3, 4, 5, 6}; !slices.Equal(c.nth, want) {
			t.Errorf("it was asked how long the attempts %v may take, want %v", c.nth, want)
		}
	})
}

func TestAttemptsAreCountedFromTheLastSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(nil)
		c.Answered(time.Millisecond)
		for _, do := range []func(context.Context) error{refuses, refuses, refuses, answers, refuses, silent} {
			_, _ = c.try(t.Context(), do)
		}
		if want := []int{2, 3, 4, 2}; !slices.Equal(c.nth, want) {
			t.Errorf("it was asked how long the attempts %v may take, want %v", c.nth, want)
		}
	})
}

func TestPausesGrowUntilAnAttemptSucceeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, least := range []bool{true, false} {
			c := newClient(nil)
			c.least = least
			for round := range 2 {
				for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
					_, _ = c.try(t.Context(), refuses)
					whole := want * time.Millisecond
					shortest := min(250*time.Millisecond, whole)
					if least { // half of it, so that many processes do not ask at the same moments
						whole, shortest = whole/2, min(250*time.Millisecond, whole)/2
					}
					long, short := c.Pauses()
					if long.Round(time.Microsecond) != whole || short.Round(time.Microsecond) > shortest ||
						short < shortest/2 {
						t.Errorf("round %d, pause %d: %v and %v, want %v and %v", round, i, long, short, whole, shortest)
					}
				}
				_, _ = c.try(t.Context(), answers)
			}
		}
	})
}

// An attempt without an answer was a pause itself.
func TestAfterASilentAttemptThePauseOfThoseWhoWaitIsShorter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(nil)
		c.least = true
		c.Answered(time.Millisecond)
		for range 3 {
			_, _ = c.try(t.Context(), refuses)
		}
		for _, each := range []struct {
			ask  func(context.Context) error
			want time.Duration
		}{{silent, 125 * time.Millisecond / 2}, {refuses, 125 * time.Millisecond}} {
			_, _ = c.try(t.Context(), each.ask)
			_, short := c.Pauses()
			within(t, "the pause", short, each.want, each.want)
		}
	})
}

func TestAPauseEndsWhenSomebodyBeginsToWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const long, short = time.Second, 300 * time.Millisecond
		for name, c := range map[string]struct {
			hurry time.Duration // after which somebody begins to wait; not at all if it is negative
			want  time.Duration
		}{
			"nobody":     {-1, long},
			"at once":    {0, short},
			"soon":       {100 * time.Millisecond, short},
			"in time":    {700 * time.Millisecond, 700 * time.Millisecond},
			"afterwards": {2 * time.Second, long},
		} {
			attempts := newClient(nil)
			if c.hurry >= 0 {
				time.AfterFunc(c.hurry, attempts.Hurry)
				time.AfterFunc(c.hurry, attempts.Hurry) // two are one
			}
			synctest.Wait()
			began := time.Now()
			if err := attempts.Rest(t.Context(), long, short); err != nil {
				t.Error(err)
			}
			within(t, name, time.Since(began), c.want, c.want)
			time.Sleep(3 * time.Second)
		}
	})
}

// Who waits when an attempt begins is served by it. Who comes during it is served if it succeeds.
func TestAnAttemptServesThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const long, short = time.Second, 300 * time.Millisecond
		c := newClient(nil)
		hurrying := func(result error) func(context.Context) error {
			return func(context.Context) error {
				c.Hurry()
				return result
			}
		}
		rests := func(what string, want time.Duration) {
			t.Helper()
			began := time.Now()
			_ = c.Rest(t.Context(), long, short)
			within(t, what, time.Since(began), want, want)
		}
		c.Hurry()
		_, _ = c.try(t.Context(), refuses)
		rests("somebody waited before the attempt", long)
		_, _ = c.try(t.Context(), hurrying(errDown))
		rests("somebody has begun to wait during an attempt that failed", short)
		rests("after that", long)
		_, _ = c.try(t.Context(), hurrying(nil))
		rests("somebody has begun to wait during an attempt that succeeded", long)
	})
}

func TestTheEndOfItsContextEndsAnAttemptAndAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		errEnd := errors.New("the end")
		for _, short := range []time.Duration{0, time.Hour} {
			ctx, end := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { end(errEnd) })
			c := newClient(nil)
			began := time.Now()
			if short == 0 {
				if _, cause := c.try(ctx, silent); !errors.Is(cause, errEnd) {
					t.Errorf("the attempt ended because of %v", cause)
				}
				within(t, "the attempt", time.Since(began), time.Second, time.Second)
			}
			if err := c.Rest(ctx, time.Hour, short); !errors.Is(err, errEnd) {
				t.Errorf("the pause ended with %v", err)
			}
			within(t, "all of it", time.Since(began), time.Second, time.Second)
			if err := attempt.Sleep(ctx, time.Hour); !errors.Is(err, errEnd) {
				t.Errorf("Sleep returned %v", err)
			}
			end(nil)
		}
	})
}
