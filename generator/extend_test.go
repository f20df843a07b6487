package generator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// ended returns a generator in a bubble whose window is over, so that the next ID needs Extend.
func ended(
	t *testing.T, onExtend func(ctx context.Context, s *scripted) error, opts ...generator.Option,
) (*generator.Generator, *scripted) {
	t.Helper()
	tenure := &scripted{
		window:   generator.Window{Node: 3, From: midLife(), Until: after(time.Millisecond)},
		onExtend: onExtend,
	}
	clock := newTestClock(midLife())
	g := mustNew(t, small(3), tenure, append(opts, generator.WithClock(clock.Now), generator.WithShards(1))...)
	mustFill(t, g, 8)
	return g, tenure
}

// block is an Extend that gets no answer.
func block(ctx context.Context, _ *scripted) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestExtendIsGivenMaxWait(t *testing.T) {
	for _, maxWait := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			g, tenure := ended(t, block, generator.WithMaxWait(maxWait))
			began := time.Now()
			_, err := g.Next(t.Context())
			if spent := time.Since(began); spent != maxWait {
				t.Errorf("it took %v, want %v", spent, maxWait)
			}
			wantError(t, err, generator.ErrOutsideWindow)
			wantError(t, err, context.DeadlineExceeded)
			if errors.Is(err, generator.ErrCanceled) {
				t.Errorf("%v: the caller did not cancel", err)
			}
			if want := min(int(maxWait), 1); tenure.extends != want {
				t.Errorf("Extend was called %d times, want %d", tenure.extends, want)
			}
		})
	}
}

func TestExtendEndsWithTheContextOfTheCaller(t *testing.T) {
	errReason := errors.New("the request was dropped")
	for _, way := range []string{"Next", "NextLike", "Fill"} {
		synctest.Test(t, func(t *testing.T) {
			g, _ := ended(t, block)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, errReason)
			defer cancel()
			began := time.Now()
			ids, err := ways(g)[way](ctx)
			if spent := time.Since(began); spent != 30*time.Millisecond {
				t.Errorf("%s took %v, want 30ms", way, spent)
			}
			for _, target := range []error{generator.ErrCanceled, context.DeadlineExceeded, errReason} {
				wantError(t, err, target)
			}
			if slices.ContainsFunc(ids, func(id int64) bool { return id != 0 }) {
				t.Errorf("%s: ids and an error", way)
			}
		})
	}
}

// An Extend that says yes and changes nothing is a mistake of the tenure, not a reason to ask for ever.
func TestAnExtendThatChangesNothingIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tenure := ended(t, func(context.Context, *scripted) error {
			time.Sleep(time.Millisecond) // so that asking for ever would end with MaxWait
			return nil
		})
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow, "node 3", "its window is the same")
		if tenure.extends != 1 {
			t.Errorf("Extend was called %d times, want once", tenure.extends)
		}
	})
}

// A window that grows but not far enough is extended again, for MaxWait in all.
func TestSmallGrowthIsBoundedByMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tenure := ended(t, func(_ context.Context, s *scripted) error {
			time.Sleep(100 * time.Millisecond)
			s.grow(time.Microsecond)
			return nil
		})
		began := time.Now()
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow)
		if spent := time.Since(began); spent != time.Second || tenure.extends != 10 {
			t.Errorf("%d extensions in %v, want 10 in 1s", tenure.extends, spent)
		}
	})
}

// The clock and the tenure share one MaxWait.
func TestWaitsForClockAndTenureShareMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newBubbleClock(midLife())
		tenure := &scripted{
			window: generator.Window{Node: 3, From: after(610 * time.Millisecond), Until: after(610*time.Millisecond + 1)},
			onExtend: func(ctx context.Context, _ *scripted) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}
		g := mustNew(t, generator.Default(), tenure, generator.WithClock(clock.Now))
		began := time.Now()
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow)
		if spent := time.Since(began); spent != time.Second {
			t.Errorf("it took %v, want 600ms for the clock and 400ms for the tenure", spent)
		}
		if stats := g.Stats(); stats.Waits != 1 || stats.Waited != 600*time.Millisecond {
			t.Errorf("%d waits of %v, want one of 600ms", stats.Waits, stats.Waited)
		}
	})
}

// Extend is called without any lock, so the others can look, and by as many as need it.
func TestManyWaitForOneExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		granted := make(chan struct{})
		g, tenure := ended(t, func(ctx context.Context, _ *scripted) error {
			select {
			case <-granted:
				time.Sleep(time.Millisecond)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ids := make([][]int64, 12)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				ids[i] = make([]int64, 2)
				if err := g.Fill(t.Context(), ids[i]); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if stats := g.Stats(); stats.Issued != 8 || tenure.extends != 12 {
			t.Errorf("%d ids, %d ask for more, want 8 and 12", stats.Issued, tenure.extends)
		}
		tenure.grow(10 * time.Millisecond)
		close(granted)
		wg.Wait()
		slices.SortFunc(ids, slices.Compare)
		wantIncreasing(t, slices.Concat(ids...))
	})
}
