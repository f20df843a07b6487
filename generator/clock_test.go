package generator_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// bubbleLayout is Default with an epoch that a bubble's clock, which begins in the year 2000, has
// behind it. So its generators can use the system's clock, which there is the bubble's.
func bubbleLayout() generator.Layout {
	l := generator.Default()
	l.Name, l.Epoch = "bubble", bubbleBegan().AddDate(-1, 0, 0)
	return l
}

func newBubbleSystemClock() generator.Clock { return generator.NewClock(bubbleLayout().Epoch, nil) }

func TestTheAnchoredReadingIsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRand(t), newBubbleSystemClock()
		for range 2000 {
			time.Sleep(time.Duration(r.Int64N(int64(generator.AnchorEvery))))
			if now := time.Now(); !c.Now().Equal(now) {
				t.Fatalf("the clock shows %v at %v", c.Now(), now)
			}
		}
	})
	// Outside of the bubble it is near; how near depends on what else the machine does.
	c := generator.NewClock(generator.Default().Epoch, nil)
	for range 1000 {
		before, got, later := time.Now(), c.Now(), time.Now()
		if got.Before(before.Add(-time.Minute)) || got.After(later.Add(time.Minute)) {
			t.Fatalf("the clock shows %v between %v and %v", got, before, later)
		}
	}
}

// A step of the wall clock is noticed when the monotonic one has run for AnchorEvery, and counts
// once; a step forward, and the standstill of a suspended machine, is followed and counts not.
func TestAStepIsNoticedAtTheNextAnchor(t *testing.T) {
	tests := []struct {
		name  string
		slip  time.Duration
		steps uint64
	}{
		{"back 1 h", -time.Hour, 1},
		{"back 1 ms", -generator.StepBack, 1},
		{"slewed back", -generator.StepBack + 1, 0},
		{"slewed forward", 50 * time.Microsecond, 0},
		{"forward 1 h", time.Hour, 0},
		{"suspended for 3 days", 72 * time.Hour, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newBubbleSystemClock()
				c.Slip(test.slip)
				time.Sleep(generator.AnchorEvery - 1)
				if got, want := c.Now(), time.Now().Add(-test.slip); !got.Equal(want) {
					t.Errorf("before the anchor the clock shows %v, want %v", got, want)
				}
				time.Sleep(time.Nanosecond)
				for range 3 {
					if got := c.Now(); !got.Equal(time.Now()) {
						t.Errorf("at the anchor the clock shows %v, want %v", got, time.Now())
					}
				}
				steps, since := c.Stepped(c.Now())
				want := time.Time{}
				if test.steps > 0 {
					want = time.Now().Add(-test.slip)
				}
				if steps != test.steps || !since.Equal(want) {
					t.Errorf("%d steps since %v, want %d since %v", steps, since, test.steps, want)
				}
				// Once the clock has made up for it, it is behind no longer.
				time.Sleep(max(-test.slip, 0))
				if steps, since := c.Stepped(c.Now()); steps != test.steps || !since.IsZero() {
					t.Errorf("later: %d steps since %v", steps, since)
				}
			})
		})
	}
}

func TestAStepCountsOnceHoweverManyLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBubbleSystemClock()
		wall := newBubbleClock(midLife())
		injected := generator.NewClock(generator.Default().Epoch, wall.Now)
		for round := uint64(1); round <= 200; round++ {
			c.Slip(-time.Second)
			wall.Step(-time.Second)
			time.Sleep(generator.AnchorEvery)
			var wg sync.WaitGroup
			start := make(chan struct{})
			for range 16 {
				wg.Go(func() {
					<-start
					for range 20 {
						c.Now()
						c.Exact()
						injected.Now()
					}
				})
			}
			close(start)
			wg.Wait()
			for name, clock := range map[string]generator.Clock{"system": c, "injected": injected} {
				if steps, _ := clock.Stepped(clock.Now()); steps != round {
					t.Fatalf("the %s clock counts %d steps, want %d", name, steps, round)
				}
			}
		}
	})
}

// The generator on the system's clock: it goes on for at most AnchorEvery with what it knew.
func TestAStepOfTheSystemClockEndsInAClockError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, bubbleLayout(), always(1))
		generator.ClockOf(g).Slip(-time.Hour)
		var ids []int64
		for range 10 {
			ids = append(ids, mustNext(t, g))
			time.Sleep(generator.AnchorEvery / 10)
		}
		wantIncreasing(t, ids)
		began := time.Now()
		_, err := g.Next(t.Context())
		behind := asClockError(t, err)
		if !behind.Since.Equal(began.Add(time.Hour)) || time.Since(began) != 0 {
			t.Errorf("behind since %v, want %v", behind.Since, began.Add(time.Hour))
		}
		if steps := g.Stats().ClockSteps; steps != 1 {
			t.Errorf("%d steps, want 1", steps)
		}
		time.Sleep(behind.Wait)
		wantIncreasing(t, append(ids, mustNext(t, g)))
	})
}

// A machine wakes up: the monotonic clock stood still, and the first IDs after an anchor's time of
// running have the true time again.
func TestASuspendedMachineFindsTheTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, bubbleLayout(), always(1))
		ids := []int64{mustNext(t, g)}
		generator.ClockOf(g).Slip(8 * time.Hour)
		time.Sleep(generator.AnchorEvery)
		ids = append(ids, mustNext(t, g))
		wantIncreasing(t, ids)
		if at := mustDecompose(t, g.Layout(), ids[1]).Time; !at.Equal(time.Now()) {
			t.Errorf("an id of %v at %v", at, time.Now())
		}
		if steps := g.Stats().ClockSteps; steps != 0 {
			t.Errorf("%d steps back, want none", steps)
		}
	})
}

// Nobody waits or is refused because of an old reading.
func TestTheWallClockIsAskedBeforeAWait(t *testing.T) {
	for _, maxWait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := mustNew(t, bubbleLayout(), always(1), generator.WithShards(1), generator.WithMaxWait(maxWait))
			generator.ClockOf(g).Slip(time.Millisecond) // the anchored reading is late by a tick
			began := time.Now()
			wantIncreasing(t, mustFill(t, g, (1+10+1)*4096)) // and MaxAhead allows one more than it knows
			if spent := time.Since(began); spent != 0 {
				t.Errorf("it took %v", spent)
			}
			// Beyond that there is nothing but waiting.
			_, err := g.Next(t.Context())
			if spent := time.Since(began); spent != maxWait/1000 || (err != nil) != (maxWait == 0) {
				t.Errorf("the next id took %v, %v", spent, err)
			}
		})
	}
}
