package lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// aSpanLater is the end of a window that was granted when a record was written.
func aSpanLater(r lease.Record) time.Time { return r.UpdatedAt.Truncate(time.Millisecond).Add(span) }

func TestAnExtensionMovesTheEndAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			s := newTable()
			var store lease.Store = s
			if swaps == "within" {
				store = quick{s}
			}
			began := time.Now()
			k := acquire(t, store, lease.WithNodes(7, 7))
			before := s.of(t, 7)
			for extensions := uint64(1); extensions <= 20; extensions++ {
				eventually(t, "the next extension", span/3, func() bool { return k.Extensions() == extensions })
				r := s.of(t, 7)
				wantWindow(t, k, 7, began, aSpanLater(r))
				wantTime(t, "the record's end", r.Until, k.Window().Until)
				if ago := time.Since(r.UpdatedAt); ago < 0 || ago > time.Millisecond {
					t.Errorf("at %v the record says that it was written at %v", time.Now(), r.UpdatedAt)
				}
				if r.Version != before.Version+1 || r.Owner != before.Owner || r.Layout != before.Layout {
					t.Errorf("the record is %+v, before it was %+v", r, before)
				}
				before = r
			}
			mustClose(t, k)
		}
	})
}

// What a keeper costs its store: one small statement for every third of a span.
func TestARenewalIsOneRequestEveryThirdOfASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const watched = 10 * time.Minute
		least, most := int(watched/(span/3)), int(watched/(4*span/15))
		for _, each := range []struct {
			swaps string
			kinds []string
		}{{"within", []string{asksWithin}}, {"plainly", []string{asksNow, asksSwap}}} {
			for seed := range uint64(5) {
				s := newTable()
				var store lease.Store = s
				if each.swaps == "within" {
					store = quick{s}
				}
				k := acquire(t, store, seeded(seed))
				s.forget()
				time.Sleep(watched)
				asked := s.asked()
				mustClose(t, k)
				n := len(asked) / len(each.kinds)
				if len(asked)%len(each.kinds) != 0 || n < least || n > most {
					t.Errorf("swapping %s: %d requests in %v, want from %d to %d times %v",
						each.swaps, len(asked), watched, least, most, each.kinds)
				}
				for i, r := range asked {
					if want := each.kinds[i%len(each.kinds)]; r.kind != want {
						t.Fatalf("request %d is %s, want %s", i, r.kind, want)
					}
				}
			}
		}
	})
}

func TestKeepersThatStartTogetherDoNotStayTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		random := seeded(1) // one source for all, as in one process
		for range 20 {
			acquire(t, quick{s}, random)
		}
		time.Sleep(10 * time.Minute) // long enough to lie anywhere in an interval, whichever way they drew
		s.forget()
		time.Sleep(span / 3)
		seconds := map[time.Time]int{}
		for _, r := range s.asked(asksWithin) {
			seconds[r.at.Truncate(time.Second)]++
		}
		for second, n := range seconds {
			if n > 9 {
				t.Errorf("%d of 20 extensions in the second of %v", n, second)
			}
		}
	})
}

func TestAGeneratorThatMayRunAheadHasAsMuchMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		newGenerator(t, k, generator.WithMaxAhead(3*time.Second))
		eventually(t, "an extension", span/3, func() bool { return k.Extensions() == 1 })
		wantTime(t, "the end", k.Window().Until, aSpanLater(s.of(t, k.Window().Node)).Add(3*time.Second))
	})
}

// A swap without an answer may have been done, not done, or be done later.
func TestAnExtensionWithoutAnAnswerIsWhatTheStoreSaysItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			s := newTable()
			var store lease.Store = s
			if swaps == "within" {
				store = quick{s}
			}
			var j journal
			k := acquire(t, store, lease.WithNodes(7, 7), j.option())
			began := time.Now()
			from := k.Window().From

			s.spoilWith(unanswered)
			eventually(t, "an extension that was done", span/3, func() bool { return k.Extensions() == 1 })
			wantWindow(t, k, 7, from, aSpanLater(s.of(t, 7)))
			wantTime(t, "the record's end", s.of(t, 7).Until, k.Window().Until)

			s.spoilWith(dropped)
			before := s.of(t, 7)
			time.Sleep(span / 3)
			wantWindow(t, k, 7, from, before.Until)
			if r := s.of(t, 7); r != before {
				t.Errorf("the record is %+v, want that of before, %+v", r, before)
			}

			s.spoilWith(nil)
			eventually(t, "an extension after those that were lost", span/3, func() bool { return k.Extensions() == 2 })
			wantWindow(t, k, 7, from, aSpanLater(s.of(t, 7)))
			if r := s.of(t, 7); r.Version != before.Version+1 {
				t.Errorf("version %d follows %d", r.Version, before.Version)
			}
			if time.Since(began) > span {
				t.Errorf("all of this took %v", time.Since(began))
			}
			mustClose(t, k)
			j.want(t, "INFO node taken", "INFO node given back")
		}
	})
}

func TestAnExtensionThatLandsLateIsAdopted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(7, 7), j.option())
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if !r.writes() {
				return serve(), nil
			}
			sent := s.asked(asksWithin)
			if len(sent) < 3 {
				return false, errDown
			}
			// Before the third arrives, the first does.
			s.spoilWith(nil)
			if !s.swap(sent[0].prev, sent[0].next) {
				t.Error("the first swap does not land")
			}
			return serve(), nil
		})
		eventually(t, "an extension", span/3, func() bool { return k.Extensions() == 1 })
		sent := s.asked(asksWithin)
		if len(sent) != 3 {
			t.Errorf("%d swaps were sent", len(sent))
		}
		wantTime(t, "the end of the window, as the first swap wrote it,", k.Window().Until, sent[0].next.Until)
		if s.swap(sent[1].prev, sent[1].next) {
			t.Error("the second swap has landed as well")
		}
		time.Sleep(span)
		wantTime(t, "the record's end", s.of(t, 7).Until, k.Window().Until)
		j.want(t, "INFO node taken")
	})
}

// The record is the keeper's own, but it does not remember so long ago. It counts as lost.
func TestASwapThatLandsAfterSixtyFourOthersCostsTheNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, j.option())
		lost := k.Window().Node
		s.forget()
		sent, swaps := make(chan struct{}), 0
		s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
			if r.writes() {
				if swaps++; swaps == 65 {
					close(sent)
				}
			}
			return dropped(ctx, r, serve)
		})
		<-sent // a look each millisecond would be 200,000 looks
		if first := s.asked(asksWithin)[0]; !s.swap(first.prev, first.next) {
			t.Fatal("the first swap does not land")
		}
		s.spoilWith(nil)
		eventually(t, "another number", span, func() bool { return k.Window().Until.After(time.Now()) })
		if node := k.Window().Node; node == lost {
			t.Errorf("the keeper still has node %d", node)
		}
		lines := j.want(t, "INFO node taken", "WARN the window cannot be extended", "ERROR no IDs", "ERROR the node was lost",
			"WARN another node taken", "INFO the window is extended again")
		lines[3].wantAttrs(t, map[string]string{
			"reason": "its record was changed by a copy of this process: was the machine cloned while it ran?",
			"node":   fmt.Sprint(lost),
		})
	})
}

func TestAStoreThatRefusesForNoReasonIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			s := newTable()
			var store lease.Store = s
			if swaps == "within" {
				store = quick{s}
			}
			k := acquire(t, store, lease.WithNodes(7, 7))
			until := k.Window().Until
			s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
				return !r.writes() && serve(), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			wantError(t, k.Extend(ctx), lease.ErrStore, "the window of node 7 could not be extended",
				"it refused the swap, but the record is as it was")
			cancel()
			wantWindow(t, k, 7, until.Add(-span), until)
			s.spoilWith(nil)
			mustClose(t, k)
		}
	})
}

// A request within a span of time is refused when the process slept before it was sent; then both
// clocks are looked at again.
func TestASwapThatWasSentTooLateIsMadeAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, lease.WithNodes(7, 7), lease.WithSpan(time.Minute)) // so that there is time for it
		paused := false
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksWithin && !paused {
				paused = true
				time.Sleep(lease.MaxSkew + time.Millisecond)
			}
			return serve(), nil
		})
		s.forget()
		eventually(t, "an extension", time.Minute, func() bool { return k.Extensions() == 1 })
		s.wantAsked(t, asksWithin, asksNow, asksSwap)
		wantTime(t, "the end", k.Window().Until, aSpanLater(s.of(t, 7)).Add(time.Minute-span))
	})
}

func TestOneAttemptDoesNotLastLongerThanAThirdOfASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct{ span, want time.Duration }{
			{30 * time.Millisecond, time.Second}, // what a store may take anyway
			{6 * time.Second, 2 * time.Second},
			{span, span / 3},
			{time.Hour, 10 * time.Second},
		} {
			s := newTable()
			k := acquire(t, quick{s}, lease.WithSpan(c.span))
			took := make(chan time.Duration, 100)
			s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
				began := time.Now()
				defer func() { took <- time.Since(began) }()
				return silent(ctx, r, serve)
			})
			// The swap is given up, and nothing is left of the time for a look at the record.
			if got := <-took; got != c.want {
				t.Errorf("with a span of %v an attempt took %v, want %v", c.span, got, c.want)
			}
			s.spoilWith(nil)
			mustClose(t, k)
		}
	})
}
