package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestExtendAsksAtOnceAndReturnsWhenTheWindowHasGrown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		time.Sleep(time.Second)
		before := k.Window()
		began := time.Now()
		if err := k.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		if w := k.Window(); !w.Until.Equal(before.Until.Add(time.Second)) {
			t.Errorf("the window ended at %v and ends at %v", before.Until, w.Until)
		}
	})
}

func TestManyThatAskForMoreShareOneExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		time.Sleep(time.Second)
		s.forget()
		answer := make(chan struct{})
		s.spoilWith(func(_ context.Context, _ request, serve func() bool) (bool, error) {
			<-answer
			return serve(), nil
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := k.Extend(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(answer)
		wg.Wait()
		time.Sleep(time.Second)
		s.wantAsked(t, asksWithin)
	})
}

// A generator at the end of its window asks with every ID. The store is asked less often.
func TestTheStoreIsNotPressedByThoseWhoAskForMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			span   time.Duration
			spoil  spoiler
			atMost int
		}{
			{span, nil, 10 + 1},                    // one in a tenth of a second
			{600 * time.Millisecond, nil, 100 + 1}, // or in a sixtieth of a span
			{span, dropped, 2 * 9},                 // pauses of 125 to 250 ms: a swap and a look
		} {
			s := newTable()
			k := acquire(t, quick{s}, lease.WithSpan(c.span))
			s.forget()
			s.spoilWith(c.spoil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for ctx.Err() == nil {
				_ = k.Extend(ctx)
			}
			cancel()
			if n := len(s.asked()); n > c.atMost || n < c.atMost/3 {
				t.Errorf("with a span of %v the store was asked %d times in a second, want at most %d", c.span, n, c.atMost)
			}
			s.spoilWith(nil)
			mustClose(t, k)
		}
	})
}

func TestExtendEndsWithItsContextAndSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, lease.WithNodes(7, 7))
		time.Sleep(time.Second)

		s.spoilWith(silent)
		// Shorter than any attempt that somebody waits for: those end after 187 ms at the earliest.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := k.Extend(ctx)
		cancel()
		wantError(t, err, lease.ErrStore, "lease: store failed: it has not answered yet")
		wantError(t, err, context.DeadlineExceeded)

		s.spoilWith(down)
		time.Sleep(2 * span)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		err = k.Extend(ctx)
		cancel()
		// Since the attempt that the first Extend had asked for.
		wantError(t, err, lease.ErrStore, "no extension since 2026-03-04T05:06:08Z, for 31.1s: lease: store failed: ")
		wantError(t, err, errDown)
	})
}

func TestAnIDWaitsForTheExtensionAndThenSaysSinceWhenThereIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, lease.WithNodes(7, 7))
		g := newGenerator(t, k, generator.WithMaxWait(2*time.Second))
		s.spoilWith(down)
		mustNext(t, g)
		time.Sleep(span + time.Second)

		began := time.Now()
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow, "outside the window of the node 7",
			"[2026-03-04T05:06:07Z, 2026-03-04T05:06:22Z)", "no extension since 2026-03-04T05:06:1", errDown.Error())
		wantError(t, err, lease.ErrStore)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v, want MaxWait", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = g.Next(ctx)
		cancel()
		wantError(t, err, generator.ErrCanceled)
		wantError(t, err, context.DeadlineExceeded)

		// The store is back: whoever waits has an ID as soon as the keeper has asked.
		s.spoilWith(nil)
		eventually(t, "an ID", span/3, func() bool {
			_, err := g.Next(t.Context())
			return err == nil
		})
		wantTime(t, "the beginning", k.Window().From, midLife())
	})
}

func TestAnIDThatWaitsComesAsSoonAsTheWindowHasGrown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		g := newGenerator(t, k, generator.WithMaxWait(time.Minute))
		first := mustNext(t, g)
		s.spoilWith(down)
		time.Sleep(span + time.Second)
		done := make(chan int64)
		go func() { done <- mustNext(t, g) }()
		synctest.Wait()
		began := time.Now()
		s.spoilWith(nil)
		id := <-done
		if took := time.Since(began); took > span/3 || took == 0 {
			t.Errorf("the ID came after %v", took)
		}
		if id <= first {
			t.Errorf("%d follows %d", id, first)
		}
	})
}

// Pauses between attempts double from a tenth of a second to a third of a span, each cut by half
// at most, so that many processes do not come back at once.
func TestTheKeeperGoesOnTryingAtGrowingDistances(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		acquire(t, quick{s})
		s.spoilWith(down)
		s.forget()
		time.Sleep(2 * time.Minute)
		// In doubt whether the last swap was done the keeper begins with a look at the record.
		asked := s.asked()
		if asked[0].kind != asksWithin || asked[1].kind != asksList {
			t.Fatalf("the first requests are %s and %s", asked[0].kind, asked[1].kind)
		}
		pause := 100 * time.Millisecond
		last := asked[1]
		for _, r := range asked[2:] {
			if r.kind != asksList {
				t.Errorf("at %v the store was asked %s", r.at, r.kind)
			}
			if gap := r.at.Sub(last.at); gap < pause/2 || gap > pause {
				t.Errorf("a pause of %v, want from %v to %v", gap, pause/2, pause)
			}
			pause, last = min(2*pause, span/3), r
		}
	})
}

func TestAfterASuccessThePausesBeginAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		for range 3 {
			s.spoilWith(dropped)
			time.Sleep(span)
			s.spoilWith(nil)
			before := k.Extensions()
			eventually(t, "an extension", span/3, func() bool { return k.Extensions() > before })
			s.spoilWith(dropped)
			s.forget()
			eventually(t, "four attempts", span/3+800*time.Millisecond, func() bool { return len(s.asked(asksWithin)) == 4 })
			s.spoilWith(nil)
		}
	})
}

func TestNothingIsExtendedAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		mustClose(t, k)
		wantError(t, k.Extend(t.Context()), lease.ErrClosed, "lease: closed: the node was given back")
		s.forget()
		time.Sleep(time.Hour)
		s.wantAsked(t)
	})
}

func TestCloseWakesThoseWhoWaitForAnExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		g := newGenerator(t, k, generator.WithMaxWait(time.Hour))
		mustNext(t, g)
		s.spoilWith(down)
		time.Sleep(2 * span)
		extended, drawn := make(chan error), make(chan error)
		go func() { extended <- k.Extend(t.Context()) }()
		go func() {
			_, err := g.Next(t.Context())
			drawn <- err
		}()
		synctest.Wait()
		s.spoilWith(nil)
		began := time.Now()
		mustClose(t, k)
		wantError(t, <-extended, lease.ErrClosed)
		err := <-drawn
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(err, generator.ErrSealed) {
			t.Errorf("an ID that was waited for ended with %v, want ErrSealed", err)
		}
	})
}
