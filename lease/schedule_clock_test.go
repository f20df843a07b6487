package lease_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Clocks that are wrong, are set while a process runs, or are read in another time zone, and
// fields of an ID that overflow.

// A host starts with a clock that is wrong by minutes, and sees the windows of all others as over.
func TestS06_AClockThatIsWrongMakesNoNumberFallFree(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t, lease.WithNodes(5, 5))
		a.draw(t)
		for _, wrong := range []time.Duration{-365 * 24 * time.Hour, -6 * time.Minute, 6 * time.Minute, 365 * 24 * time.Hour} {
			b := s.process("b")
			b.clock.Step(wrong)
			wantError(t, b.start(t, lease.WithNodes(5, 5)), lease.ErrClockSkew)
		}
		// Even the most that is allowed makes nothing free before its time.
		for _, wrong := range []time.Duration{-lease.MaxSkew, lease.MaxSkew} {
			b := s.process("b")
			b.clock.Step(wrong)
			until := a.k.Window().Until
			var held *lease.NodeHeldError
			if err := b.start(t, lease.WithNodes(5, 5)); !errors.As(err, &held) {
				t.Errorf("%v: error %v, want one that says that the number is held", wrong, err)
			}
			if !a.k.Window().Until.After(until) {
				t.Errorf("%v: nobody extended the window meanwhile, so nothing was shown", wrong)
			}
			a.draw(t)
		}
	})
}

// The clock of a process is set back five times and more, over the same ticks.
func TestS18_AnyNumberOfStepsBackRepeatsNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		p := s.process("p", generator.WithMaxWait(time.Second))
		p.mustStart(t)
		for range 40 {
			for range 100 {
				p.draw(t)
			}
			p.clock.Step(-50 * time.Millisecond)
		}
	})
}

// While a call waits for the clock to come back, the clock is set back once more.
func TestS21_ASecondStepDuringTheWaitRepeatsNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		p := s.process("p", generator.WithMaxWait(time.Second))
		p.mustStart(t)
		for range 5 {
			p.draw(t)
			p.clock.Step(-18 * time.Millisecond) // of which ten need no wait
			time.AfterFunc(4*time.Millisecond, func() { p.clock.Step(-100 * time.Millisecond) })
			for range 100 {
				p.draw(t)
			}
		}
	})
}

// The hour of the night that comes twice, in zones that have one.
func TestS22_TheEndOfSummerTimeRepeatsNoHour(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		zones := []*time.Location{time.UTC, time.FixedZone("before", 2*3600), time.FixedZone("after", 3600)}
		for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai"} {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			zones = append(zones, zone)
		}
		// 2026-10-25 01:00 UTC is where Central Europe goes from summer time to winter time.
		time.Sleep(time.Until(time.Date(2026, 10, 25, 0, 40, 0, 0, time.UTC)))
		last := int64(0)
		for i := range 40 { // restarts, two minutes apart
			zone := zones[i%len(zones)]
			layout := generator.Default()
			layout.Epoch = layout.Epoch.In(zone)
			clock := func() time.Time { return time.Now().Round(0).In(zone) }
			k, err := acquireFor(t.Context(), t, s, layout, lease.WithNodes(5, 5), lease.WithClock(clock))
			if err != nil {
				t.Fatalf("in %v: %v", zone, err)
			}
			g, err := generator.New(layout, k, generator.WithClock(clock))
			if err != nil {
				t.Fatalf("in %v: %v", zone, err)
			}
			id := mustNext(t, g)
			s.record(t, zone.String(), id)
			if id <= last {
				t.Errorf("in %v: %d follows %d", zone, id, last)
			}
			last = id
			mustClose(t, k)
			time.Sleep(time.Minute)
		}
	})
}

// The time bits of a layout are used up while a process runs.
func TestS16_TheEndOfALayoutIsAnErrorAndNotABeginning(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		layout := shortLived(after(20 * time.Second))
		k, err := acquireFor(t.Context(), t, s, layout)
		if err != nil {
			t.Fatal(err)
		}
		g, err := generator.New(layout, k, generator.WithMaxWait(0))
		if err != nil {
			t.Fatal(err)
		}
		last, made := int64(-1), 0
		for time.Now().Before(after(time.Minute)) {
			id, err := g.Next(t.Context())
			if err == nil {
				if id <= last || time.Now().After(after(20*time.Second)) {
					t.Fatalf("at %v, %d follows %d", time.Now(), id, last)
				}
				last, made = id, made+1
			} else if !errors.Is(err, generator.ErrTimeExhausted) && !errors.Is(err, generator.ErrOutsideWindow) {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Millisecond)
		}
		if made < 6000 {
			t.Errorf("%d IDs before the end", made)
		}
		_, err = acquireFor(t.Context(), t, s, layout)
		wantError(t, err, generator.ErrTimeExhausted)
	})
}

// More IDs of one shard are wanted in a tick than there are.
func TestS33_ASequenceThatIsUsedUpWaitsOrFails(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for maxWait, patient := range map[time.Duration]bool{0: false, time.Minute: true} {
			p := s.process("p", generator.WithMaxWait(maxWait), generator.WithMaxAhead(0))
			p.mustStart(t)
			refused := 0
			for range 3000 {
				id, err := p.g.NextLike(t.Context(), 5)
				switch {
				case err == nil:
					s.record(t, p.name, id)
				case errors.Is(err, generator.ErrClockBehind) && !patient:
					refused++
				default:
					t.Fatal(err)
				}
			}
			if patient != (refused == 0) {
				t.Errorf("with a MaxWait of %v %d calls were refused", maxWait, refused)
			}
		}
	})
}

// Threads that share a generator meet at the end of ticks and of windows.
func TestS14_NoIDIsHandedToTwoThreads(t *testing.T) {
	t.Parallel()
	s := newTable()
	k, err := lease.Acquire(t.Context(), quick{s}, generator.Default(), quiet(), lease.WithSpan(30*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { abandon(k) })
	g := newGenerator(t, k, generator.WithMaxWait(time.Minute))
	const threads = 32 // many more than processors
	each := nightly.Pick(2_000, 10_000)
	ids := make([][]int64, threads)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			for len(ids[i]) < each || k.Extensions() == 0 { // no machine is too fast for it
				batch := make([]int64, 1+len(ids[i])%7)
				var err error
				switch len(batch) {
				case 1:
					batch[0], err = g.Next(t.Context())
				case 2:
					batch = batch[:1]
					batch[0], err = g.NextLike(t.Context(), int64(i))
				default:
					err = g.Fill(t.Context(), batch)
				}
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = append(ids[i], batch...)
			}
		})
	}
	wg.Wait()
	seen := make(map[int64]bool, threads*each)
	for _, some := range ids {
		for i, id := range some {
			if seen[id] || i > 0 && id <= some[i-1] {
				t.Fatalf("the id %d came twice, or out of order", id)
			}
			seen[id] = true
		}
	}
}
