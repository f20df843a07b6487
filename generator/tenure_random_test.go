package generator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// landlord is a tenure that grants windows at random and remembers every one of them.
type landlord struct {
	scripted
	r       *rand.Rand
	granted map[int64][]generator.Window
}

// grant makes a window the present one. Its ends lie anywhere inside of ticks.
func (l *landlord) grant(w generator.Window) {
	l.granted[w.Node] = append(l.granted[w.Node], w)
	l.set(w)
}

// move grants a window of any node, near now, in the past, present or future.
func (l *landlord) move(now time.Time) {
	from := now.Add(time.Duration(l.r.Int64N(int64(8*time.Millisecond))) - 4*time.Millisecond)
	until := from.Add(time.Duration(l.r.Int64N(int64(12 * time.Millisecond))))
	l.grant(generator.Window{Node: l.r.Int64N(8), From: from, Until: until})
}

// lengthen grants more of the present window.
func (l *landlord) lengthen() {
	w := l.Window()
	w.Until = w.Until.Add(time.Duration(1 + l.r.Int64N(int64(6*time.Millisecond))))
	l.grant(w)
}

// holds says whether a tick of a node lies in one of the windows granted for it.
func (l *landlord) holds(node int64, tick, end time.Time) bool {
	for _, w := range l.granted[node] {
		if !tick.Before(w.From) && !end.After(w.Until) {
			return true
		}
	}
	return false
}

// Whatever the tenure grants and whatever the clock does, every ID lies in a window that had been
// granted for its node, and each is above the one before.
func TestEveryIDLiesInAWindowGrantedForItsNode(t *testing.T) {
	r := newRand(t)
	for range scaled(100) {
		synctest.Test(t, func(t *testing.T) { livesUnderALandlord(t, r) })
	}
}

func livesUnderALandlord(t *testing.T, r *rand.Rand) {
	t.Helper()
	l := small(3)
	clock := newBubbleClock(midLife())
	tenure := &landlord{r: r, granted: map[int64][]generator.Window{}}
	tenure.move(clock.Now())
	tenure.onExtend = func(context.Context, *scripted) error {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Millisecond))))
		switch r.IntN(4) {
		case 0:
			return errNoMore
		case 1:
			tenure.move(clock.Now())
		default:
			tenure.lengthen()
		}
		return nil
	}
	g := mustNew(t, l, tenure, generator.WithClock(clock.Now), generator.WithMaxAhead(3*time.Millisecond),
		generator.WithMaxWait(20*time.Millisecond))
	last, ids, errs := int64(-1), 0, 0
	for turn := range 400 {
		switch r.IntN(12) {
		case 0:
			tenure.move(clock.Now())
		case 1:
			clock.Step(time.Duration(r.Int64N(int64(10*time.Millisecond))) - 5*time.Millisecond)
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Millisecond))))
		got, err := drawOnce(t.Context(), g, turn, []int{1, 2, 5, 8, 9, 20}, 1, nil)
		if err != nil {
			if !errors.Is(err, generator.ErrOutsideWindow) && !errors.Is(err, generator.ErrClockBehind) {
				t.Fatal(err)
			}
			errs++
			continue
		}
		for _, id := range got {
			p := mustDecompose(t, l, id)
			if id <= last {
				t.Fatalf("%d after %d", id, last)
			}
			if !tenure.holds(p.Node, p.Time, p.Time.Add(l.Tick)) {
				t.Fatalf("node %d had no window with the tick of %v, only %v", p.Node, p.Time, tenure.granted[p.Node])
			}
			last = id
			ids++
		}
	}
	if ids < 400 || errs == 0 {
		t.Errorf("%d ids and %d errors do not test much", ids, errs)
	}
}

// register is the least that a store of windows has to do: it remembers the end of the last window
// of its one node, and a new one begins no earlier.
type register struct {
	until time.Time
	span  time.Duration
}

// lease begins a window for a process whose clock shows now.
func (s *register) lease(now time.Time) *scripted {
	from := now
	if from.Before(s.until) {
		from = s.until
	}
	s.until = from.Add(s.span)
	return &scripted{
		window: generator.Window{Node: 6, From: from, Until: s.until},
		onExtend: func(_ context.Context, t *scripted) error {
			s.until = s.until.Add(s.span)
			t.grow(s.span)
			return nil
		},
	}
}

// A process crashes at any time and its clock is set back before the next one starts. Heartbeats
// that store the time of the clock let the next one repeat all between the last beat and the crash;
// windows that are reserved ahead do not, however far the clock goes.
func TestACrashAndAStepBackUnderALeaseRepeatNothing(t *testing.T) {
	const span = 100 * time.Millisecond
	for _, ran := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, span - 1, span, span + 1, 3 * span} {
		for _, step := range []time.Duration{0, -time.Millisecond, -15 * time.Millisecond, -span, -2500 * time.Millisecond,
			-30 * time.Second, -time.Hour, time.Hour} {
			for _, down := range []time.Duration{0, time.Millisecond, 600 * time.Millisecond, 2 * time.Second} {
				synctest.Test(t, func(t *testing.T) { crashes(t, &register{span: span}, ran, step, down) })
			}
		}
	}
}

// crashes runs four processes one after the other, each for some time.
func crashes(t *testing.T, store *register, ran, step, down time.Duration) {
	t.Helper()
	clock, last := newBubbleClock(midLife()), int64(-1)
	for range 4 {
		g := mustNew(t, generator.Default(), store.lease(clock.Now()), generator.WithClock(clock.Now))
		// The window may lie in the future of a clock that was set back.
		id, err := g.Next(t.Context())
		if err != nil {
			time.Sleep(asClockError(t, err).Wait)
			id = mustNext(t, g)
		}
		ids := []int64{last, id}
		for range 20 {
			ids = append(ids, mustFill(t, g, 100)...)
			time.Sleep(ran / 20)
		}
		wantIncreasing(t, ids)
		last = ids[len(ids)-1]
		clock.Step(step) // the crash
		time.Sleep(down)
	}
}
