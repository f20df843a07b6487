package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// wantFree fails unless the number was given back, free from an instant on.
func wantFree(t testing.TB, r lease.Record, version int64, until time.Time) {
	t.Helper()
	binds := r.Layout == lease.Fingerprint(generator.Default()) || r.Layout == "none" // see unbound_test.go
	if r.Owner != "" || r.Version != version || !binds {
		t.Errorf("the record is %+v, want one of nobody and of version %d", r, version)
	}
	wantTime(t, "the end", r.Until, until)
}

func TestCloseGivesTheNumberBackFromTheLastStampedTickOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			draw  int // IDs; a tick has 4096
			until time.Duration
		}{
			"nothing was stamped": {0, 0},
			"one tick":            {1, time.Millisecond},
			"ticks ahead":         {4 * 4096, 5 * time.Millisecond}, // the deck costs a part of one
		} {
			s := newTable()
			began := time.Now()
			var j journal
			k := acquire(t, s, lease.WithNodes(7, 7), lease.WithOwner("web"), j.option())
			g := newGenerator(t, k)
			ids := make([]int64, c.draw)
			if err := g.Fill(t.Context(), ids); err != nil {
				t.Fatal(err)
			}
			until := began.Add(c.until)
			if c.draw > 0 {
				until = partsOf(t, ids[c.draw-1]).Time.Add(time.Millisecond)
			}
			if c.draw <= 1 && !until.Equal(began.Add(c.until)) {
				t.Errorf("%s: the last tick ends at %v", name, until)
			}
			owner := s.of(t, 7).Owner
			mustClose(t, k)
			wantFree(t, s.of(t, 7), 2, until)
			wantWindow(t, k, 7, time.Time{}, time.Time{})
			lines := j.want(t, "INFO node taken", "INFO node given back")
			lines[1].wantAttrs(t, map[string]string{"node": "7", "owner": owner, "until": until.UTC().String()})
			for way, draw := range map[string]func() error{
				"Next":     func() error { _, err := g.Next(t.Context()); return err },
				"NextLike": func() error { _, err := g.NextLike(t.Context(), 1); return err },
				"Fill":     func() error { return g.Fill(t.Context(), make([]int64, 3)) },
			} {
				if err := draw(); !errors.Is(err, generator.ErrSealed) {
					t.Errorf("%s: %s after Close: %v", name, way, err)
				}
			}
		}
	})
}

// Window follows window, with no tick in common and none between.
func TestTheNextHolderBeginsRightAfterTheLastTick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		clock := new(wallClock)
		var last int64
		for range 20 {
			k := acquire(t, s, lease.WithNodes(7, 7), lease.WithClock(clock.Now))
			g := newGenerator(t, k, generator.WithClock(clock.Now), generator.WithMaxWait(time.Minute))
			if last > 0 {
				wantTime(t, "the beginning", k.Window().From, partsOf(t, last).Time.Add(time.Millisecond))
			}
			id := mustNext(t, g)
			if id <= last {
				t.Errorf("%d follows %d", id, last)
			}
			last = id
			mustClose(t, k)
			clock.Step(-100 * time.Millisecond) // meanwhile
		}
	})
}

// First no more IDs, then the record, and nothing else in between.
func TestCloseSealsTheGeneratorBeforeItWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		g := newGenerator(t, k)
		mustNext(t, g)
		writes := 0
		s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
			if !r.writes() {
				t.Errorf("Close asks %s", r.kind)
			}
			writes++
			if id, err := g.Next(ctx); !errors.Is(err, generator.ErrSealed) {
				t.Errorf("while the number is given back there comes %d, %v", id, err)
			}
			return serve(), nil
		})
		mustClose(t, k)
		if writes != 1 {
			t.Errorf("%d writes", writes)
		}
	})
}

func TestCloseAfterSuccessDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		mustClose(t, k)
		s.forget()
		again := acquire(t, s, lease.WithNodes(7, 7)) // somebody else has it by now
		s.forget()
		mustClose(t, k)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if err := k.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		s.wantAsked(t)
		if w := again.Window(); !s.of(t, 7).Until.Equal(w.Until) {
			t.Errorf("the record is %+v, the window %+v", s.of(t, 7), w)
		}
	})
}

func TestCloseCanBeTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, s, lease.WithNodes(7, 7), j.option())
		g := newGenerator(t, k)
		last := mustNext(t, g)
		s.spoilWith(down)
		for range 3 {
			err := k.Close(context.Background())
			wantError(t, err, lease.ErrStore, "node 7 was not given back, and falls free at the end of its window", errDown.Error())
			wantError(t, err, errDown)
			_, err = g.Next(t.Context())
			wantError(t, err, generator.ErrSealed)
		}
		j.want(t, "INFO node taken", "WARN the node was not given back")
		s.spoilWith(nil)
		mustClose(t, k)
		wantFree(t, s.of(t, 7), 2, partsOf(t, last).Time.Add(time.Millisecond))
		j.want(t, "INFO node taken", "WARN the node was not given back", "INFO node given back")
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		g := newGenerator(t, k)
		s.spoilWith(silent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := k.Close(ctx)
		wantError(t, err, lease.ErrStore, "node 7 was not given back")
		wantError(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		_, err = g.Next(t.Context())
		wantError(t, err, generator.ErrSealed)

		// Even with a context that has ended, nothing is stamped any more.
		s = newTable()
		k = acquire(t, s, lease.WithNodes(7, 7))
		g = newGenerator(t, k)
		for range 50 { // whichever of what is ready it sees first
			wantError(t, k.Close(ctx), lease.ErrStore)
		}
		_, err = g.Next(t.Context())
		wantError(t, err, generator.ErrSealed)
		time.Sleep(time.Minute)
		wantTime(t, "the end", s.of(t, 7).Until, began.Add(time.Second+span))
	})
}

func TestConcurrentClosesGiveBackOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			time.Sleep(time.Second)
			return serve(), nil
		})
		s.forget()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { mustClose(t, k) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		wantError(t, k.Close(ctx), context.DeadlineExceeded, "node 7 was not given back") // another is at it
		wg.Wait()
		s.wantAsked(t, asksSwap)
		wantFree(t, s.of(t, 7), 2, midLife())
	})
}

func TestAReleaseWithoutAnAnswerIsWhatTheStoreSaysItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			spoil spoiler
			asked []string
			fails bool
		}{
			"done":      {unanswered, []string{asksSwap, asksList}, false},
			"not done":  {dropped, []string{asksSwap, asksList, asksSwap, asksList, asksSwap, asksList}, true},
			"not known": {down, []string{asksSwap, asksList}, true},
		} {
			s := newTable()
			k := acquire(t, s, lease.WithNodes(7, 7))
			s.forget()
			s.spoilWith(c.spoil)
			err := k.Close(context.Background())
			s.wantAsked(t, c.asked...)
			if c.fails {
				wantError(t, err, lease.ErrStore)
				wantError(t, err, errDown)
				if name == "not done" {
					wantError(t, err, lease.ErrStore, "the record kept changing")
				}
				s.spoilWith(nil)
				err = k.Close(context.Background())
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			wantFree(t, s.of(t, 7), 2, midLife())
		}
	})
}

// What is somebody else's, or gone, cannot be given back and need not be.
func TestCloseLeavesANumberAloneThatIsNotItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for reason, lose := range losses() {
			s := newTable()
			k := acquire(t, s, lease.WithNodes(7, 7))
			time.Sleep(span / 3) // it has extended its window, so that there is an older record
			lose(s, s.of(t, 7))
			want := s.all()
			mustClose(t, k)
			if got := s.all(); !slices.Equal(got, want) {
				t.Errorf("%s: the store has %+v, want %+v", reason, got, want)
			}
		}
	})
}

func TestCloseGivesBackNothingIfNothingIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(4, 4), j.option())
		s.put(heldBy("an operator", 4, after(time.Hour)))
		eventually(t, "that the window is dropped", span/3, func() bool { return k.Window().Until.IsZero() })
		s.forget()
		mustClose(t, k)
		s.wantAsked(t)
		j.want(t, "INFO node taken", "ERROR the node was lost", "ERROR no IDs")
	})
}

// The last extension was not answered. Whether it was done or not, what is given back is the record
// as it is.
func TestCloseInDoubtGivesBackWhatTheStoreHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			lands   string
			version int64
		}{
			"the extension was not done":      {"never", 2},
			"the extension was done":          {"at once", 3},
			"the extension is done meanwhile": {"late", 3},
		} {
			s := newTable()
			began := time.Now()
			k := acquire(t, quick{s}, lease.WithNodes(7, 7))
			s.spoilWith(down)
			eventually(t, "an extension that is not answered", span/3, func() bool { return len(s.asked(asksWithin)) > 0 })
			synctest.Wait()
			extension := s.asked(asksWithin)[0]
			if c.lands == "at once" {
				s.swap(extension.prev, extension.next)
			}
			s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
				if c.lands == "late" && r.kind == asksSwap {
					c.lands = ""
					s.swap(extension.prev, extension.next)
				}
				return serve(), nil
			})
			mustClose(t, k)
			wantFree(t, s.of(t, 7), c.version, began)
			if s.swap(extension.prev, extension.next) {
				t.Errorf("%s: the extension can still land", name)
			}
		}
	})
}

func TestCloseBreaksOffAnExtensionThatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, done := range []bool{false, true} {
			s := newTable()
			began := time.Now()
			k := acquire(t, quick{s}, lease.WithNodes(7, 7))
			g := newGenerator(t, k)
			last := mustNext(t, g)
			under := make(chan struct{})
			s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
				if r.kind != asksWithin {
					return serve(), nil
				}
				if done {
					serve()
				}
				close(under)
				return silent(ctx, r, serve)
			})
			<-under
			closing := time.Now()
			mustClose(t, k)
			if took := time.Since(closing); took > 0 {
				t.Errorf("it took %v", took)
			}
			version := int64(2)
			if done {
				version = 3
			}
			wantFree(t, s.of(t, 7), version, partsOf(t, last).Time.Add(time.Millisecond))
			if k.Window().Until.After(began) {
				t.Errorf("the window is %+v after Close", k.Window())
			}
		}
	})
}

// It can be had again right away, although a span was granted.
func TestANumberGivenBackIsFreeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		for range 100 {
			k := acquire(t, s, lease.WithNodes(0, 1))
			mustNext(t, newGenerator(t, k))
			mustClose(t, k)
		}
		if took := time.Since(midLife()); took > time.Second {
			t.Errorf("a hundred restarts took %v", took)
		}
	})
}

// Whoever closes with a context that never ends has a bound all the same, and is told what becomes of
// the number.
func TestCloseOnAStoreThatNeverAnswersEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, s, lease.WithNodes(7, 7), j.option())
		g := newGenerator(t, k)
		mustNext(t, g)
		until := s.of(t, 7).Until
		s.spoilWith(silent)
		for range 3 {
			began := time.Now()
			err := k.Close(context.Background())
			wantError(t, err, lease.ErrStore, "node 7 was not given back, and falls free at the end of its window")
			wantError(t, err, context.DeadlineExceeded)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		}
		lines := j.want(t, "INFO node taken", "WARN the node was not given back; it falls free when its window ends")
		lines[1].wantAttrs(t, map[string]string{"node": "7", "until": until.UTC().String()})
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrSealed)
		s.spoilWith(nil)
		again := acquire(t, s, lease.WithNodes(7, 7)) // after the end of the window
		if from := again.Window().From; from.Before(until) {
			t.Errorf("the next window begins at %v, before %v", from, until)
		}
	})
}

// The last extension was not answered: the number is taken for as long as the store may have granted.
func TestCloseInDoubtSaysTheLatestEndThatTheNumberMayHave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(7, 7), j.option())
		s.spoilWith(unanswered)
		eventually(t, "an extension", span/3, func() bool { return len(s.asked(asksWithin)) > 0 })
		s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksWithin {
				serve()
			}
			return silent(ctx, r, serve)
		})
		before := len(s.asked(asksWithin))
		eventually(t, "another one", span, func() bool { return len(s.asked(asksWithin)) > before })
		wantError(t, k.Close(context.Background()), lease.ErrStore)
		lines := j.all()
		lines[len(lines)-1].wantAttrs(t, map[string]string{"node": "7", "until": s.of(t, 7).Until.String()})
	})
}
