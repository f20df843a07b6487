package generator_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Clocks that step in every pattern, while IDs are drawn at some 500 a millisecond. The witness
// checks that each is above the one before and waited exactly as long as documented.
func TestNoStepOfTheClockRepeatsAnID(t *testing.T) {
	const ms = time.Millisecond
	const (
		goesOn = "goes on" // no call waits, but for the first one of all, at the restart fence
		waits  = "waits"   // some calls wait
		fails  = "fails"   // some calls fail, and the error says when to come again
	)
	tests := []struct {
		name  string
		steps []time.Duration // one every 10 ms of real time
		then  string
	}{
		{"no step", []time.Duration{0}, goesOn},
		{"back 1 ms", []time.Duration{-ms}, goesOn},
		{"back 5 ms, half of MaxAhead", []time.Duration{-5 * ms}, goesOn},
		{"back 20 ms", []time.Duration{-20 * ms}, waits},
		{"back 2 s", []time.Duration{-2 * time.Second}, fails},
		{"back 1 h", []time.Duration{-time.Hour}, fails},
		{"forward 1 h", []time.Duration{time.Hour}, goesOn},
		{"forward 1 h and back", []time.Duration{time.Hour, -time.Hour}, fails},
		{"back 1 h and forward", []time.Duration{-time.Hour, time.Hour}, fails},
		{"five times back 50 ms", []time.Duration{-50 * ms, -50 * ms, -50 * ms, -50 * ms, -50 * ms}, waits},
		{"five times back 300 ms", []time.Duration{-300 * ms, -300 * ms, -300 * ms, -300 * ms, -300 * ms}, waits},
		{"five times back 2 s", []time.Duration{-2000 * ms, -2000 * ms, -2000 * ms, -2000 * ms, -2000 * ms}, fails},
		{"to and fro", []time.Duration{30 * ms, -60 * ms, 90 * ms, -120 * ms, 150 * ms, -180 * ms, 7 * ms}, waits},
		{"back ever further", []time.Duration{-ms, -3 * ms, -9 * ms, -27 * ms, -81 * ms, -243 * ms, -729 * ms}, waits},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRand(t)
				w := newWitness(t, generator.Default(), generator.FixedNode(5), 10*ms, time.Second)
				w.run(r, 100) // well past the restart fence
				for _, step := range test.steps {
					w.clock.Step(step)
					w.run(r, 50)
				}
				then := goesOn
				if w.errors > 0 {
					then = fails
				} else if w.waits > 1 {
					then = waits
				}
				if then != test.then {
					t.Errorf("it %s: %d waits of %v in all and %d errors; want that it %s",
						then, w.waits, w.waited, w.errors, test.then)
				}
			})
		})
	}
}

// run draws IDs in all ways, about 100 every 200 microseconds. When the clock is too far behind it
// checks the error and comes back at the time that it tells.
func (w *witness) run(r *rand.Rand, rounds int) {
	w.t.Helper()
	for range rounds {
		var err *generator.ClockError
		switch r.IntN(4) {
		case 0:
			err = w.next()
		case 1:
			err = w.like(r.Int64N(1 << 40))
		default:
			err = w.fill(1 + r.IntN(200))
		}
		if err != nil {
			w.wantClockError(err)
			time.Sleep(err.Wait)
			w.mustNotFail(w.next())
		}
		time.Sleep(time.Duration(r.IntN(400)) * time.Microsecond)
	}
}

// wantClockError checks an error that came at once after a step back.
func (w *witness) wantClockError(err *generator.ClockError) {
	w.t.Helper()
	wall := w.clock.Now()
	last := mustDecompose(w.t, w.g.Layout(), w.last).Time
	switch {
	case err.Next.Before(last):
		w.t.Errorf("Next %v lies before the last id, %v", err.Next, last)
	case err.Ahead != err.Next.Sub(wall):
		w.t.Errorf("Ahead is %v, want %v", err.Ahead, err.Next.Sub(wall))
	case err.MaxAhead != w.maxAhead || err.MaxWait != w.maxWait:
		w.t.Errorf("MaxAhead is %v and MaxWait %v, want %v and %v", err.MaxAhead, err.MaxWait, w.maxAhead, w.maxWait)
	case err.Waited != 0:
		w.t.Errorf("Waited is %v, want none: it has to fail at once", err.Waited)
	case err.Wait != err.Ahead-err.MaxAhead || err.Wait <= err.MaxWait:
		w.t.Errorf("Wait is %v for %v ahead", err.Wait, err.Ahead)
	case !err.Since.Equal(w.seen):
		w.t.Errorf("Since is %v, want %v, the reading before the step", err.Since, w.seen)
	}
}

func TestAJitteringClockRepeatsNothing(t *testing.T) {
	for _, swing := range []time.Duration{time.Microsecond, time.Millisecond, 15 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(swing.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRand(t)
				w := newWitness(t, generator.Default(), generator.FixedNode(5), 10*time.Millisecond, time.Second)
				for range scaled(2000) {
					w.clock.Set(midLife().Add(time.Since(bubbleBegan())).Add(time.Duration(r.Int64N(int64(2*swing))) - swing))
					w.mustNotFail(w.next())
					w.mustNotFail(w.fill(r.IntN(50) + 1))
					time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
				}
			})
		})
	}
}

// bubbleBegan is the time at which every synctest bubble begins.
func bubbleBegan() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// A clock that is set again and again while eight goroutines draw, in real time: no ID comes twice,
// and each goroutine's own IDs grow.
func TestStepsUnderManyGoroutinesRepeatNothing(t *testing.T) {
	var shift atomic.Int64
	now := func() time.Time { return time.Now().Round(0).Add(time.Duration(shift.Load())) }
	g := mustNew(t, generator.Default(), generator.FixedNode(5), generator.WithClock(now), generator.WithMaxWait(time.Minute))
	swings := []time.Duration{-20, 15, -1, 0, 7, -3, 20, -20, -12} // milliseconds from the true time
	sizes := []int{0, 1, 2, 64, 500, 5000}
	draw(t, 8, func(i int, ids []int64) ([]int64, error) {
		for round := range scaled(150) {
			if round%8 == i {
				shift.Store(int64(swings[(round/8)%len(swings)] * time.Millisecond))
			}
			var err error
			if ids, err = drawOnce(t.Context(), g, i+round, sizes, 256, ids); err != nil {
				return ids, err
			}
		}
		return ids, nil
	})
}

// The clock steps while a call waits: what counts is where it stands when the wait is over.
// (A peer did not look again: 91 duplicates.)
func TestAStepDuringAWaitIsNoticed(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name  string
		step  time.Duration
		took  time.Duration // the call waits 10 ms when nothing happens
		fails bool
	}{
		{"none", 0, 10 * ms, false},
		{"back 1 ms", -ms, 11 * ms, false},
		{"back 100 ms", -100 * ms, 110 * ms, false},
		{"forward 3 ms", 3 * ms, 10 * ms, false}, // the timer runs on
		{"back so far that it can wait no longer", -991 * ms, 10 * ms, true},
		{"back 1 h", -time.Hour, 10 * ms, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newBubbleClock(midLife())
				g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now))
				before := mustFill(t, g, 100)
				clock.Step(-20 * ms)
				time.AfterFunc(5*ms, func() { clock.Step(test.step) })
				began := time.Now()
				id, err := g.Next(t.Context())
				if took := time.Since(began); took != test.took {
					t.Errorf("the call took %v, want %v", took, test.took)
				}
				if !test.fails {
					if err != nil || id != before[99]+1 {
						t.Errorf("the next id is %d, %v, want %d", id, err, before[99]+1)
					}
					return
				}
				behind := asClockError(t, err)
				// The tick begins 20 ms before what the clock showed, 10 of which have passed.
				ahead := 10*ms - test.step
				if behind.Waited != 10*ms || behind.Ahead != ahead || behind.Wait != ahead-10*ms {
					t.Errorf("waited %v, %v ahead, %v to wait", behind.Waited, behind.Ahead, behind.Wait)
				}
				time.Sleep(behind.Wait)
				if id := mustNext(t, g); id <= before[99] {
					t.Errorf("%d after %d", id, before[99])
				}
			})
		})
	}
}

// Of several steps back the error tells the highest point, until the clock has passed it.
func TestClockErrorTellsSinceWhenTheClockIsBehind(t *testing.T) {
	clock := newTestClock(midLife())
	g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now))
	mustNext(t, g)
	since := func() time.Time {
		t.Helper()
		_, err := g.Next(t.Context())
		return asClockError(t, err).Since
	}
	clock.Move(-time.Hour)
	if got := since(); !got.Equal(midLife()) {
		t.Errorf("after one step: since %v, want %v", got, midLife())
	}
	clock.Move(30 * time.Minute)
	if got := since(); !got.Equal(midLife()) {
		t.Errorf("half made up: since %v, want %v", got, midLife())
	}
	clock.Move(-10 * time.Minute)
	if got := since(); !got.Equal(midLife()) {
		t.Errorf("after a second step: since %v, want the higher %v", got, midLife())
	}
	clock.Set(midLife().Add(time.Minute))
	mustNext(t, g)
	clock.Move(-time.Hour)
	if got, want := since(), midLife().Add(time.Minute); !got.Equal(want) {
		t.Errorf("after a step from a new height: since %v, want %v", got, want)
	}
	if steps := g.Stats().ClockSteps; steps != 3 {
		t.Errorf("%d steps, want 3", steps)
	}
}
