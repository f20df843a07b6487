package generator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// scripted is a tenure whose window a test changes, and whose Extend a test writes.
type scripted struct {
	mu       sync.Mutex
	window   generator.Window
	onExtend func(ctx context.Context, s *scripted) error
	extends  int
}

func (s *scripted) Window() generator.Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.window
}

func (s *scripted) Extend(ctx context.Context) error {
	s.mu.Lock()
	s.extends++
	onExtend := s.onExtend
	s.mu.Unlock()
	if onExtend == nil {
		return errNoMore
	}
	return onExtend(ctx, s)
}

func (s *scripted) set(w generator.Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = w
}

// grow moves the end of the window.
func (s *scripted) grow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window.Until = s.window.Until.Add(d)
}

// after is midLife plus some time.
func after(d time.Duration) time.Time { return midLife().Add(d) }

// Only ticks that lie in the window as a whole are stamped, wherever its ends are.
func TestOnlyWholeTicksOfTheWindowAreStamped(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	tests := []struct {
		from, until time.Duration
		first, last time.Duration // the ticks, the last one may lie before the first: none
	}{
		{0, 5 * ms, 0, 4 * ms},
		{1, 5 * ms, 1 * ms, 4 * ms},
		{0, 5*ms - 1, 0, 3 * ms},
		{0, 5*ms + 1, 0, 4 * ms},
		{300 * us, 5700 * us, 1 * ms, 4 * ms},
		{1 * ms, 2 * ms, 1 * ms, 1 * ms},
		{1*ms + 1, 3*ms - 1, 2 * ms, 1 * ms},
		{2 * ms, 2 * ms, 2 * ms, 1 * ms},
		{5 * ms, 2 * ms, 5 * ms, 1 * ms},
	}
	for _, test := range tests {
		tenure := &scripted{window: generator.Window{Node: 3, From: after(test.from), Until: after(test.until)}}
		g := mustNew(t, small(2), tenure, generator.WithClock(newTestClock(midLife()).Now), generator.WithShards(1))
		for tick := test.first; tick <= test.last; tick += ms {
			for range 4 {
				p := mustDecompose(t, g.Layout(), mustNext(t, g))
				if !p.Time.Equal(after(tick)) || p.Node != 3 {
					t.Fatalf("[%v, %v): an id of node %d at %v, want node 3 at %v",
						test.from, test.until, p.Node, p.Time, after(tick))
				}
			}
		}
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow)
		if tenure.extends != 1 {
			t.Errorf("[%v, %v): Extend was called %d times, want once", test.from, test.until, tenure.extends)
		}
	}
}

// A keeper that has lost its node has no window until it holds another one.
func TestNoWindowAtAllIsCalledThat(t *testing.T) {
	tenure := &scripted{window: generator.Window{Node: 3, From: midLife(), Until: after(time.Millisecond)}}
	g := mustNew(t, small(2), tenure, generator.WithClock(newTestClock(midLife()).Now))
	tenure.set(generator.Window{Node: 3})
	_, err := g.Next(t.Context())
	wantError(t, err, generator.ErrOutsideWindow, "outside the window of the node 3: it has none: "+errNoMore.Error())
}

func TestTheEndOfTheWindowIsAnErrorWithItsReason(t *testing.T) {
	until := after(2 * time.Millisecond)
	tenure := &scripted{window: generator.Window{Node: 3, From: midLife(), Until: until}}
	clock := newTestClock(midLife())
	g := mustNew(t, small(2), tenure, generator.WithClock(clock.Now), generator.WithShards(1))
	mustFill(t, g, 8)
	for name, way := range ways(g) {
		ids, err := way(t.Context())
		wantError(t, err, errNoMore)
		wantError(t, err, generator.ErrOutsideWindow, "outside the window of the node 3", "the tick of 2026-03-04T05:06:07.002Z",
			"[2026-03-04T05:06:07Z, 2026-03-04T05:06:07.002Z)", errNoMore.Error())
		if ids[0] != 0 || ids[len(ids)-1] != 0 {
			t.Errorf("%s: ids and an error", name)
		}
	}
	// A clock beyond the window makes no difference; one that comes back into it does.
	clock.Move(time.Hour)
	_, err := g.Next(t.Context())
	wantError(t, err, generator.ErrOutsideWindow, "the tick of 2026-03-04T06:06:07Z")
	tenure.grow(2 * time.Hour)
	if p := mustDecompose(t, g.Layout(), mustNext(t, g)); !p.Time.Equal(clock.Now()) {
		t.Errorf("an id of %v at %v", p.Time, clock.Now())
	}
}

func TestAWindowThatGrowsLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := &scripted{window: generator.Window{Node: 3, From: midLife(), Until: after(time.Millisecond)}}
		tenure.onExtend = func(_ context.Context, s *scripted) error {
			time.Sleep(7 * time.Millisecond)
			s.grow(3 * time.Millisecond)
			return nil
		}
		clock := newTestClock(midLife())
		g := mustNew(t, small(3), tenure, generator.WithClock(clock.Now), generator.WithShards(1))
		began := time.Now()
		ids := mustFill(t, g, 8*10)
		for i, id := range ids[1:] {
			if want := follower(t, g.Layout(), ids[i], 1); id != want {
				t.Fatalf("%d follows %d, want %d", id, ids[i], want)
			}
		}
		if spent := time.Since(began); spent != 21*time.Millisecond || tenure.extends != 3 {
			t.Errorf("%d extensions in %v, want 3 in 21ms", tenure.extends, spent)
		}
		if stats := g.Stats(); stats.Extensions != 3 || stats.Waits != 0 || !stats.WindowEnd.Equal(after(10*time.Millisecond)) {
			t.Errorf("Stats tells %d extensions, %d waits for the clock, end %v", stats.Extensions, stats.Waits, stats.WindowEnd)
		}
	})
}

// When the window moves to another node, the tick that was begun is finished under the old one.
func TestTheNodeChangesOnlyAtAFreshTick(t *testing.T) {
	l := small(3)
	tenure := &scripted{window: generator.Window{Node: 900, From: midLife(), Until: after(time.Hour)}}
	clock := newTestClock(midLife())
	g := mustNew(t, l, tenure, generator.WithClock(clock.Now), generator.WithShards(1))
	ids := []int64{mustNext(t, g), mustNext(t, g)}
	// The new number is smaller, and its window holds the present tick as well.
	tenure.set(generator.Window{Node: 4, From: midLife(), Until: after(time.Hour)})
	ids = append(ids, mustNext(t, g), mustNextLike(t, g, 0))
	ids = append(ids, mustFill(t, g, 4+8)...)
	clock.Move(5 * time.Millisecond)
	ids = append(ids, mustNext(t, g))
	tenure.set(generator.Window{Node: 700, From: after(8 * time.Millisecond), Until: after(time.Hour)})
	ids = append(ids, mustNext(t, g))
	clock.Move(time.Millisecond)
	ids = append(ids, mustNext(t, g)) // the window begins 2 ms from now, which is within MaxAhead
	wantIncreasing(t, ids)
	want := []struct {
		ids  int
		tick time.Duration
		node int64
	}{{8, 0, 900}, {8, time.Millisecond, 4}, {2, 5 * time.Millisecond, 4}, {1, 8 * time.Millisecond, 700}}
	for _, run := range want {
		for _, id := range ids[:run.ids] {
			if p := mustDecompose(t, l, id); p.Node != run.node || !p.Time.Equal(after(run.tick)) {
				t.Errorf("%d is of node %d at %v, want node %d at %v", id, p.Node, p.Time, run.node, after(run.tick))
			}
		}
		ids = ids[run.ids:]
	}
	if len(ids) != 0 {
		t.Errorf("%d ids too many", len(ids))
	}
	if node := g.Stats().Node; node != 700 {
		t.Errorf("Stats tells node %d, want 700", node)
	}
}

// A tick that was granted once stays granted, whatever the tenure says later.
func TestATickOnceGrantedIsUsedUp(t *testing.T) {
	tenure := &scripted{window: generator.Window{Node: 900, From: midLife(), Until: after(time.Hour)}}
	g := mustNew(t, small(3), tenure, generator.WithClock(newTestClock(midLife()).Now), generator.WithShards(8))
	first := mustNextLike(t, g, 5)
	tenure.set(generator.Window{Node: 4, From: after(-time.Hour), Until: after(-time.Minute)})
	_, err := g.NextLike(t.Context(), 5) // needs the next tick, and so sees the new window
	wantError(t, err, generator.ErrOutsideWindow, "node 4")
	if id := mustNextLike(t, g, 6); id != first+1 {
		t.Errorf("the next id of the tick is %d, want %d", id, first+1)
	}
	if id := mustNextLike(t, g, 7); id != first+2 {
		t.Errorf("the last id of the tick is %d, want %d", id, first+2)
	}
}

// counting is a tenure that counts how often its window is read.
type counting struct {
	always
	reads atomic.Int64
}

func (c *counting) Window() generator.Window {
	c.reads.Add(1)
	return c.always.Window()
}

func TestTheWindowIsReadOnceForEveryFreshTick(t *testing.T) {
	tenure, clock := new(counting), newTestClock(midLife())
	g := mustNew(t, generator.Default(), tenure, generator.WithClock(clock.Now))
	for range 100 {
		before := tenure.reads.Load()
		mustNext(t, g)
		if reads := tenure.reads.Load() - before; reads != 1 {
			t.Fatalf("%d reads for a fresh tick, want 1", reads)
		}
		mustFill(t, g, 100)
		mustNext(t, g)
		mustNextLike(t, g, 3)
		if reads := tenure.reads.Load() - before; reads != 1 {
			t.Fatalf("%d reads inside of the tick, want none", reads-1)
		}
		clock.Move(time.Millisecond)
	}
}

func TestAWindowInTheFutureIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newBubbleClock(midLife())
		tenure := &scripted{window: generator.Window{Node: 3, From: after(700 * time.Millisecond), Until: after(time.Hour)}}
		g := mustNew(t, generator.Default(), tenure, generator.WithClock(clock.Now))
		began := time.Now()
		id := mustNext(t, g)
		if spent := time.Since(began); spent != 690*time.Millisecond {
			t.Errorf("it took %v, want 690ms: MaxAhead is 10ms", spent)
		}
		if p := mustDecompose(t, g.Layout(), id); !p.Time.Equal(after(700 * time.Millisecond)) {
			t.Errorf("the id is of %v, want the beginning of the window", p.Time)
		}
		// One that is further away than MaxWait is an error at once.
		tenure.set(generator.Window{Node: 4, From: after(time.Minute), Until: after(time.Hour)})
		time.Sleep(20 * time.Millisecond)
		began = time.Now()
		_, err := g.Next(t.Context())
		behind := asClockError(t, err)
		if time.Since(began) != 0 || !behind.Next.Equal(after(time.Minute)) || behind.Wait <= time.Second {
			t.Errorf("after %v: %+v", time.Since(began), behind)
		}
		if tenure.extends != 0 {
			t.Errorf("Extend was called %d times for a window that is there", tenure.extends)
		}
	})
}

func TestAWindowOfANodeThatDoesNotFitIsAnError(t *testing.T) {
	tenure := &scripted{window: generator.Window{Node: 3, Until: after(time.Hour)}}
	clock := newTestClock(midLife())
	g := mustNew(t, generator.Default(), tenure, generator.WithClock(clock.Now))
	last := mustNext(t, g)
	for _, node := range []int64{-1, 1024} {
		tenure.set(generator.Window{Node: node, Until: after(time.Hour)})
		clock.Move(time.Millisecond)
		for name, way := range ways(g) {
			if _, err := way(t.Context()); !errors.Is(err, generator.ErrNodeRange) {
				t.Errorf("%s under node %d: %v", name, node, err)
			}
		}
	}
	tenure.set(generator.Window{Node: 1, Until: after(time.Hour)})
	if id := mustNext(t, g); id <= last {
		t.Errorf("%d after %d", id, last)
	}
}

// A node given by hand has all the time there is, and nothing beyond.
func TestANodeGivenByHandHasNothingToExtend(t *testing.T) {
	tenure := generator.FixedNode(7)
	if w := tenure.Window(); w.Node != 7 || !w.From.IsZero() || w.Until.Year() != 10_000 {
		t.Errorf("the window is %+v", w)
	}
	if err := tenure.Extend(t.Context()); err == nil {
		t.Error("Extend is no error")
	}
}
