package generator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A process that ran ahead of the clock as far as it may is killed and started again at once with
// the same node, many times in a row. In peers that lend themselves time up to 98 % of the IDs
// after such a restart were repeated.
func TestARestartAtOnceRepeatsNothing(t *testing.T) {
	for _, test := range []struct {
		layout   generator.Layout
		maxAhead time.Duration
	}{
		{generator.Default(), 10 * time.Millisecond},
		{generator.Default(), 0},
		{generator.Default(), 3700 * time.Microsecond}, // not a whole number of ticks
		{generator.Default(), time.Second},
		{small(3), 10 * time.Millisecond},
		{generator.Game(), time.Second},
	} {
		t.Run(test.layout.Name+" "+test.maxAhead.String(), func(t *testing.T) {
			r := newRand(t)
			clock := newTestClock(midLife())
			last := int64(-1)
			restarts := scaled(500)
			if test.maxAhead == time.Second {
				restarts = max(restarts/4, 5) // each of them draws up to a second of IDs
			}
			for restart := range restarts {
				g := mustNew(t, test.layout, generator.FixedNode(6), generator.WithClock(clock.Now),
					generator.WithMaxAhead(test.maxAhead), generator.WithMaxWait(0))
				// The first ID may need the clock to go on by a tick, and never more.
				clock.Move(time.Duration(r.Int64N(int64(test.layout.Tick))))
				id, err := g.Next(t.Context())
				if err != nil {
					if wait := asClockError(t, err).Wait; wait > test.layout.Tick {
						t.Fatalf("restart %d: the first id has to wait for %v", restart, wait)
					}
					clock.Move(test.layout.Tick)
					id = mustNext(t, g)
				}
				if id <= last {
					t.Fatalf("restart %d: the first id is %d after %d", restart, id, last)
				}
				if r.IntN(4) == 0 {
					clock.Move(time.Duration(r.Int64N(int64(2*test.maxAhead + 1))))
				}
				last = burst(t, g, id, int64(r.IntN(3)))
			}
		})
	}
}

// burst uses up all that a generator gives on a clock that stands, the last of it in one of three
// ways, and returns the greatest ID.
func burst(t *testing.T, g *generator.Generator, last, way int64) int64 {
	t.Helper()
	for ids := make([]int64, 1+g.Layout().MaxSequence()/4); g.Fill(t.Context(), ids) == nil; {
		wantIncreasing(t, append([]int64{last}, ids...))
		last = ids[len(ids)-1]
	}
	// There is no room for that many; what is left goes one by one.
	for key := int64(0); ; key += way {
		draw := func() (int64, error) { return g.NextLike(t.Context(), key) }
		if way == 0 {
			draw = func() (int64, error) { return g.Next(t.Context()) }
		}
		id, err := draw()
		if err != nil {
			wantError(t, err, generator.ErrClockBehind)
			return last
		}
		wantIncreasing(t, []int64{last, id})
		last = id
	}
}

// The fence also covers a step back between the two processes of as much as the first one did not
// run ahead. A greater one only a lease can cover.
func TestTheFenceCoversASmallStepBack(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ maxAhead, step time.Duration }{
		{10 * ms, ms}, {10 * ms, 5 * ms}, {10 * ms, 10 * ms}, {20 * ms, 15 * ms}, {time.Minute, time.Minute},
	} {
		clock := newTestClock(midLife())
		start := func() *generator.Generator {
			return mustNew(t, generator.Default(), generator.FixedNode(6), generator.WithClock(clock.Now),
				generator.WithMaxAhead(test.maxAhead))
		}
		g := start()
		clock.Move(time.Hour)
		last := mustFill(t, g, 1000)[999]
		clock.Move(-test.step)
		g = start()
		clock.Move(ms)
		if id := mustNext(t, g); id <= last {
			t.Errorf("MaxAhead %v, back %v: %d after %d", test.maxAhead, test.step, id, last)
		}
	}
}

// The first ID of a hand-given node waits for one tick at the most, that of a lease not at all.
func TestTheFenceCostsATickAtTheMost(t *testing.T) {
	for _, p := range presets() {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for part := range 10 {
					tick := p.layout.Tick
					clock := newBubbleClock(p.layout.Epoch.Add(100_000*tick + time.Duration(part)*tick/10))
					g := mustNew(t, p.layout, generator.FixedNode(1), generator.WithClock(clock.Now))
					began, wall := time.Now(), clock.Now()
					id := mustNext(t, g)
					ahead := 10 * tick
					if at, want := mustDecompose(t, p.layout, id).Time, wall.Add(ahead+tick-time.Duration(part)*tick/10); !at.Equal(want) {
						t.Errorf("the first id is of %v, want %v", at, want)
					}
					if spent, want := time.Since(began), tick-time.Duration(part)*tick/10; spent != want {
						t.Errorf("the first id took %v, want %v", spent, want)
					}
					g = mustNew(t, p.layout, always(1), generator.WithClock(clock.Now))
					began = time.Now()
					mustNext(t, g)
					if spent := time.Since(began); spent != 0 {
						t.Errorf("without a fence the first id took %v", spent)
					}
				}
			})
		})
	}
}
