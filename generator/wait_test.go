package generator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A clock that stands still gives a tick's IDs and those of MaxAhead, then nothing but an error.
func TestAFrozenClockEndsInAClockError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := newTestClock(midLife())
		g := mustNew(t, generator.Default(), always(1), generator.WithClock(frozen.Now), generator.WithShards(1))
		// The tick of the clock itself and 10 more.
		ids := mustFill(t, g, 11*4096)
		wantIncreasing(t, ids)
		began := time.Now()
		_, err := g.Next(t.Context())
		behind := asClockError(t, err)
		// It tried for as long as another millisecond of waiting still fitted into MaxWait.
		if spent := time.Since(began); spent != time.Second || behind.Waited != spent || behind.Wait != time.Millisecond {
			t.Errorf("it took %v, waited %v, wanted another %v", spent, behind.Waited, behind.Wait)
		}
		if next := midLife().Add(11 * time.Millisecond); !behind.Next.Equal(next) || behind.Ahead != 11*time.Millisecond {
			t.Errorf("Next %v, %v ahead, want %v", behind.Next, behind.Ahead, next)
		}
		if !behind.Since.IsZero() {
			t.Errorf("Since %v, but the clock never went back", behind.Since)
		}
		if stats := g.Stats(); stats.Waits != 1000 || stats.Waited != time.Second {
			t.Errorf("%d waits of %v, want 1000 of a second", stats.Waits, stats.Waited)
		}
	})
}

func TestClockErrorSaysWhatHappenedAndWhatToDo(t *testing.T) {
	clock := newTestClock(midLife())
	g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now))
	mustNext(t, g)
	clock.Move(-time.Hour)
	_, err := g.Next(t.Context())
	wantError(t, err, generator.ErrClockBehind, "2026-03-04T05:06:07Z, 1h0m0s ahead of the wall clock (MaxAhead is 10ms)",
		"the wall clock was set back at 2026-03-04T05:06:07Z", "wait another 59m59.99s (MaxWait is 1s in all)", "correct the clock")

	clock = newTestClock(midLife())
	g = mustNew(t, small(3), always(1), generator.WithClock(clock.Now), generator.WithMaxWait(0))
	err = g.Fill(t.Context(), make([]int64, 1000))
	wantError(t, err, generator.ErrClockBehind, "11ms ahead of the wall clock (MaxAhead is 10ms)",
		"IDs are asked for faster than the layout has them", "more sequence bits", "more nodes")
	if strings.Contains(err.Error(), "set back") {
		t.Errorf("%v blames the clock", err)
	}
}

func TestWithoutMaxAheadEveryIDHasTheTimeOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRand(t)
		w := newWitness(t, small(6), generator.FixedNode(1), 0, time.Second)
		for range 500 {
			w.mustNotFail(w.fill(1 + r.IntN(200)))
			if now := w.clock.Now(); mustDecompose(t, w.g.Layout(), w.last).Time.After(now) {
				t.Fatalf("an id of the future at %v", now)
			}
			w.clock.Step(-time.Duration(r.IntN(3)) * time.Millisecond)
		}
		if w.waits == 0 {
			t.Error("nothing ever waited")
		}
	})
}

func TestWithoutMaxWaitNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRand(t)
		w := newWitness(t, generator.Default(), generator.FixedNode(1), 10*time.Millisecond, 0)
		for range 500 {
			began := time.Now()
			if err := w.fill(1 + r.IntN(8000)); err != nil && err.Wait != err.Ahead-err.MaxAhead {
				t.Fatalf("%v ahead, %v to wait", err.Ahead, err.Wait)
			}
			if spent := time.Since(began); spent != 0 {
				t.Fatalf("a call took %v", spent)
			}
			time.Sleep(time.Duration(r.IntN(1500)) * time.Microsecond)
		}
		if w.errors == 0 || w.ids == 0 || w.waits != 0 {
			t.Errorf("%d ids, %d errors, %d waits", w.ids, w.errors, w.waits)
		}
	})
}

// behindBy returns a generator in a bubble whose next ID has to wait for d.
func behindBy(t *testing.T, d time.Duration) *generator.Generator {
	t.Helper()
	clock := newBubbleClock(midLife())
	g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now), generator.WithMaxWait(time.Minute))
	mustNext(t, g)
	clock.Step(-d - 10*time.Millisecond)
	return g
}

// ways are the three ways to ask for IDs, each with a slice that has to be zero after an error.
func ways(g *generator.Generator) map[string]func(ctx context.Context) ([]int64, error) {
	return map[string]func(ctx context.Context) ([]int64, error){
		"Next": func(ctx context.Context) ([]int64, error) {
			id, err := g.Next(ctx)
			return []int64{id}, err
		},
		"NextLike": func(ctx context.Context) ([]int64, error) {
			id, err := g.NextLike(ctx, 1)
			return []int64{id}, err
		},
		"Fill": func(ctx context.Context) ([]int64, error) {
			ids := make([]int64, 5000)
			for i := range ids {
				ids[i] = 42 // left over from somewhere
			}
			err := g.Fill(ctx, ids)
			return ids, err
		},
	}
}

func TestACanceledContextGivesNoIDs(t *testing.T) {
	errReason := errors.New("the user went away")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(errReason)
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	g := mustNew(t, generator.Default(), always(1))
	for name, way := range ways(g) {
		for _, test := range []struct {
			ctx   context.Context
			wraps []error
		}{
			{canceled, []error{context.Canceled}},
			{caused, []error{context.Canceled, errReason}},
			{late, []error{context.DeadlineExceeded}},
		} {
			ids, err := way(test.ctx)
			for _, target := range append(test.wraps, generator.ErrCanceled) {
				wantError(t, err, target)
			}
			if slices.ContainsFunc(ids, func(id int64) bool { return id != 0 }) {
				t.Errorf("%s: ids are not zero beside the error %v", name, err)
			}
		}
	}
	if issued := g.Stats().Issued; issued != 0 {
		t.Errorf("%d ids were issued", issued)
	}
}

// The end of the context ends a wait at that very moment, and leaves nothing behind: a bubble
// refuses to end while a goroutine of it is left.
func TestACanceledWaitEndsAtOnce(t *testing.T) {
	errReason := errors.New("the server shuts down")
	tests := []struct {
		name   string
		ctx    func(parent context.Context) (context.Context, context.CancelFunc)
		target error
	}{
		{"canceled", func(parent context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(parent)
			time.AfterFunc(30*time.Millisecond, func() { cancel(errReason) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled},
		{"out of time", func(parent context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(parent, 30*time.Millisecond, errReason)
		}, context.DeadlineExceeded},
	}
	for _, test := range tests {
		for _, way := range []string{"Next", "NextLike", "Fill"} {
			t.Run(test.name+" in "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := behindBy(t, 100*time.Millisecond)
					ctx, cancel := test.ctx(t.Context())
					defer cancel()
					began, before := time.Now(), g.Stats().Issued
					ids, err := ways(g)[way](ctx)
					if spent := time.Since(began); spent != 30*time.Millisecond {
						t.Errorf("it took %v, want 30ms", spent)
					}
					for _, target := range []error{generator.ErrCanceled, test.target, errReason} {
						wantError(t, err, target)
					}
					if slices.ContainsFunc(ids, func(id int64) bool { return id != 0 }) || g.Stats().Issued != before {
						t.Error("there are ids beside the error")
					}
					// The next caller waits for the rest.
					if mustNext(t, g); time.Since(began) != 100*time.Millisecond {
						t.Errorf("the next id came after %v, want 100ms", time.Since(began))
					}
				})
			})
		}
	}
}

// A Fill that is broken off in its middle gives nothing, though it had some IDs already.
func TestABrokenOffFillIsAllZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newBubbleClock(midLife())
		g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now), generator.WithShards(1))
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Microsecond)
		defer cancel()
		ids := make([]int64, 20*4096)
		err := g.Fill(ctx, ids)
		wantError(t, err, generator.ErrCanceled)
		if i := slices.IndexFunc(ids, func(id int64) bool { return id != 0 }); i >= 0 {
			t.Errorf("id %d is %d", i, ids[i])
		}
		// The tick of the clock, ten ahead of it, and three that began while it waited.
		if stats := g.Stats(); stats.Issued != 14*4096 || stats.Waits != 3 {
			t.Errorf("%d ids taken, %d waits, want %d and 3", stats.Issued, stats.Waits, 14*4096)
		}
	})
}

// While some wait, nobody else is held up: the lock is free. (With the lock held this bubble would
// hang: who waits for a lock does not let the bubble's time pass.)
func TestWaitersDoNotHoldTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := behindBy(t, 500*time.Millisecond)
		began := time.Now()
		var wg sync.WaitGroup
		ids := make([][]int64, 8)
		for i := range ids {
			wg.Go(func() {
				ids[i] = make([]int64, 3)
				if err := g.Fill(t.Context(), ids[i]); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all of them wait now
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		_, err := g.Next(ctx)
		wantError(t, err, generator.ErrCanceled)
		if got := g.Stats().Issued; got != 1 {
			t.Errorf("%d ids while all wait, want 1", got)
		}
		g.Layout()
		if spent := time.Since(began); spent != 0 {
			t.Errorf("the others were held up for %v", spent)
		}
		wg.Wait()
		if spent := time.Since(began); spent != 500*time.Millisecond {
			t.Errorf("the waiters waited for %v, want 500ms", spent)
		}
		slices.SortFunc(ids, slices.Compare)
		wantIncreasing(t, slices.Concat(ids...))
		if stats := g.Stats(); stats.Waits != 8 || stats.Waited != 8*500*time.Millisecond {
			t.Errorf("%d waits of %v, want 8 of 500ms each", stats.Waits, stats.Waited)
		}
	})
}
