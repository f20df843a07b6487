package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestNoNumberIsTakenWhileTheClocksAreTooFarApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			local time.Duration
			want  string // empty: it is near enough
		}{
			"6 minutes slow": {-6 * time.Minute, "the clock of this machine shows 2026-03-04T05:00:07Z, 6m0s behind the store's, " +
				"which shows 2026-03-04T05:06:07Z; 5s is allowed"},
			"6 minutes fast": {6 * time.Minute, "the clock of this machine shows 2026-03-04T05:12:07Z, 6m0s ahead of the store's, " +
				"which shows 2026-03-04T05:06:07Z; 5s is allowed"},
			"5 seconds slow":             {-lease.MaxSkew, ""},
			"5 seconds fast":             {lease.MaxSkew, ""},
			"a moment beyond 5 s slow":   {-lease.MaxSkew - 1, "behind the store's"},
			"a moment beyond 5 s fast":   {lease.MaxSkew + 1, "ahead of the store's"},
			"a year fast":                {366 * 24 * time.Hour, "8784h0m0s ahead of the store's"},
			"so slow that it is the '70": {-50 * 366 * 24 * time.Hour, "behind the store's"},
		} {
			s, clock := newTable(), new(wallClock)
			clock.Step(c.local)
			k, err := tryAcquire(t, s, lease.WithClock(clock.Now))
			switch {
			case c.want != "":
				wantError(t, err, lease.ErrClockSkew, c.want, "no window is granted until then: correct the clock that is wrong")
				s.wantAsked(t, asksNow)
			case err != nil:
				t.Errorf("%s: %v", name, err)
			default:
				mustClose(t, k)
			}
		}
	})
}

// stepping sets a clock while the store is asked for its own.
func stepping(clock *wallClock, by time.Duration) spoiler {
	return func(_ context.Context, r request, serve func() bool) (bool, error) {
		if r.kind == asksNow {
			clock.Step(by)
		}
		return serve(), nil
	}
}

func TestAClockThatIsSetDuringTheComparisonIsNotCompared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, by := range map[string]time.Duration{
			"forward": lease.MaxSkew + 1, "back": -lease.MaxSkew - 1,
		} {
			s, clock := newTable(), new(wallClock)
			s.spoilWith(stepping(clock, by))
			_, err := tryAcquire(t, s, lease.WithClock(clock.Now))
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			wantError(t, err, lease.ErrStore, "its clock could not be compared", "by more than 5s during the request",
				"it went from "+after(2*by).Format(time.RFC3339Nano)+" to "+after(3*by).Format(time.RFC3339Nano))
			s.wantAsked(t, asksNow, asksNow, asksNow)
		}
	})
}

// A window begins at the earlier and ends a span after the later of all readings.
func TestASmallStepDuringTheComparisonIsAllowedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct{ before, by, from, until time.Duration }{
			"forward":          {0, 3 * time.Second, 0, span + 3*time.Second},
			"back":             {0, -3 * time.Second, -3 * time.Second, span},
			"from far to near": {2 * time.Second, -4 * time.Second, -2 * time.Second, span + 2*time.Second},
		} {
			s, clock := newTable(), new(wallClock)
			clock.Step(c.before)
			s.spoilWith(stepping(clock, c.by))
			k := acquire(t, s, lease.WithNodes(1, 1), lease.WithClock(clock.Now))
			w := k.Window()
			wantTime(t, name+": the beginning", w.From, after(c.from))
			wantTime(t, name+": the end", w.Until, after(c.until))
			s.spoilWith(nil)
			mustClose(t, k)
		}
	})
}

func TestAStoreThatTakesTooLongToTellTheTimeIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksNow {
				time.Sleep(lease.MaxSkew + time.Millisecond)
			}
			return serve(), nil
		})
		_, err := tryAcquire(t, s)
		wantError(t, err, lease.ErrStore, "its clock could not be compared", "2026-03-04T05:06:22.003Z")
	})
}

// A machine that starts under load may be slow once.
func TestAClockThatWasReadTooSlowlyIsReadAgainBeforeANumberIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, slow := newTable(), true
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksNow && slow {
				slow = false
				time.Sleep(lease.MaxSkew + time.Millisecond)
			}
			return serve(), nil
		})
		k, err := tryAcquire(t, s)
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, k)
	})
}

// By then the store may show anything from what it showed when it was asked to what it shows now.
func TestASlowAnswerOfTheStoreWidensWhatIsCompared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.clock.Step(-lease.MaxSkew)
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			done := serve()
			if r.kind == asksNow {
				time.Sleep(4 * time.Second)
			}
			return done, nil
		})
		k := acquire(t, s, lease.WithNodes(1, 1))
		wantWindow(t, k, 1, after(-lease.MaxSkew), after(4*time.Second+span))
	})
}

// Uniqueness does not rest on clocks, but a wrong one must not reserve a number for a year.
func TestAClockThatGoesWrongExtendsNothingAndSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			for _, by := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
				s, clock := newTable(), new(wallClock)
				began := time.Now()
				var store lease.Store = s
				if swaps == "within" {
					store = quick{s}
				}
				var j journal
				k := acquire(t, store, lease.WithNodes(1, 1), lease.WithClock(clock.Now), j.option())
				clock.Step(by)
				time.Sleep(2 * span)
				wantWindow(t, k, 1, began, began.Add(span))
				ctx, cancel := context.WithTimeout(t.Context(), span)
				wantError(t, k.Extend(ctx), lease.ErrClockSkew, "no extension since ", "6m0s")
				cancel()
				said := "WARN the window cannot be extended; IDs go on until it ends"
				if by > 0 {
					said = "ERROR no IDs until the store grants a window; a restart does not help"
				}
				lines := j.want(t, "INFO node taken", said)
				if why := lines[1].attrs["error"]; !strings.Contains(why, lease.ErrClockSkew.Error()) {
					t.Errorf("swapping %s, the clock stepped by %v: the reason is said to be %q", swaps, by, why)
				}

				clock.Step(-by)
				eventually(t, "an extension after the clock was corrected", span, func() bool {
					return k.Window().Until.After(time.Now())
				})
				if until, most := k.Window().Until, time.Now().Add(span); until.After(most) {
					t.Errorf("swapping %s, the clock stepped by %v and back: the window ends %v after it should at most",
						swaps, by, until.Sub(most))
				}
				mustClose(t, k)
			}
		}
	})
}

// With its clock set back a keeper has nothing to gain: the end stays where it is, and never falls.
func TestTheEndNeverFallsWhenAllClocksAreSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			s := newTable()
			began := s.clock.Now()
			var store lease.Store = s
			if swaps == "within" {
				store = quick{s}
			}
			k := acquire(t, store, lease.WithNodes(1, 1), lease.WithClock(s.clock.Now))
			s.clock.Step(-time.Minute)
			time.Sleep(time.Minute)
			wantWindow(t, k, 1, began, began.Add(span))
			if r := s.of(t, 1); r.Version != 1 {
				t.Errorf("swapping %s: version %d, though there was nothing to write", swaps, r.Version)
			}
			time.Sleep(span)
			if w := k.Window(); !w.Until.After(began.Add(span)) || !w.From.Equal(began) {
				t.Errorf("swapping %s: the window is %v once the clocks have passed where they were", swaps, w)
			}
			mustClose(t, k)
			s.clock.Set(time.Now())
		}
	})
}

func TestAClockBeforeTheEpochExtendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, swaps := range []string{"within", "plainly"} {
			s := newTable()
			var store lease.Store = s
			if swaps == "within" {
				store = quick{s}
			}
			k := acquire(t, store, lease.WithNodes(1, 1), lease.WithClock(s.clock.Now))
			until := k.Window().Until
			s.clock.Set(generator.Default().Epoch.Add(-time.Hour))
			ctx, cancel := context.WithTimeout(t.Context(), span)
			wantError(t, k.Extend(ctx), generator.ErrBeforeEpoch, "no extension since 2024-12-31T23:00:0")
			cancel()
			wantTime(t, "the end", s.of(t, 1).Until, until)
			s.clock.Set(time.Now())
			mustClose(t, k)
		}
	})
}
