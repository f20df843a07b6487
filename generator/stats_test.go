package generator_test

import (
	"math"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestStatsTellTheYearsLeft(t *testing.T) {
	for _, p := range presets() {
		at := p.layout.End().Add(-10 * 8766 * time.Hour)
		g := mustNew(t, p.layout, always(1), generator.WithClock(newTestClock(at).Now))
		if stats := g.Stats(); math.Abs(stats.YearsLeft-10) > 1e-9 || !stats.End.Equal(p.layout.End()) {
			t.Errorf("%s: %v years left until %v, want 10 until %v", p.name, stats.YearsLeft, stats.End, p.layout.End())
		}
	}
}

func TestStatsCountEveryID(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(midLife())
	g := mustNew(t, l, always(77), generator.WithClock(clock.Now))
	if got := g.Stats(); got.Issued != 0 || !got.Last.IsZero() || got.Lead != 0 || got.Node != 77 {
		t.Errorf("before the first id: %+v", got)
	}
	want := uint64(0)
	step := func(name string, n uint64) {
		t.Helper()
		if want += n; g.Stats().Issued != want {
			t.Fatalf("after %s: %d issued, want %d", name, g.Stats().Issued, want)
		}
	}
	mustNext(t, g)
	step("Next", 1)
	for range 10 {
		mustNext(t, g)
	}
	step("10 times Next", 10)
	mustFill(t, g, 100)
	step("Fill of 100", 100)
	mustNextLike(t, g, 5)
	step("NextLike, which skips numbers", 1)
	mustNext(t, g)
	mustNext(t, g)
	step("Next twice", 2)
	mustFill(t, g, 9000)
	step("Fill over three ticks", 9000)
	for range 5 {
		mustNext(t, g)
	}
	clock.Move(time.Second)
	mustNext(t, g)
	step("Next before and after the tick changed", 6)
	mustFill(t, g, 0)
	step("Fill of nothing", 0)
}

func TestStatsTellWhereTheGeneratorStands(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(midLife().Add(300 * time.Microsecond))
	until := midLife().Add(time.Hour)
	g := mustNew(t, l, window{Node: 5, Until: until.In(time.FixedZone("", 3600))},
		generator.WithClock(clock.Now), generator.WithMaxWait(0), generator.WithShards(1))
	mustNext(t, g)
	if got := g.Stats(); !got.Last.Equal(midLife()) || got.Lead != 0 || got.WindowEnd != until || got.ClockSteps != 0 {
		t.Errorf("after one id: %+v", got)
	}
	// Two ticks and one ID of a third: its tick begins 1.7 ms ahead of the clock.
	mustFill(t, g, 2*4096)
	if got := g.Stats(); !got.Last.Equal(midLife().Add(2*time.Millisecond)) || got.Lead != 1700*time.Microsecond {
		t.Errorf("after a burst: last %v, lead %v", got.Last, got.Lead)
	}
	clock.Move(-time.Second)
	if got := g.Stats(); got.Lead != time.Second+1700*time.Microsecond || got.ClockSteps != 1 {
		t.Errorf("after a step back: lead %v, %d steps", got.Lead, got.ClockSteps)
	}
	clock.Move(-999 * time.Microsecond) // less than counts as a step
	clock.Move(time.Hour)
	clock.Move(-time.Minute)
	if got := g.Stats(); got.Lead != 0 || got.ClockSteps != 1 {
		t.Errorf("a step that nobody saw: lead %v, %d steps", got.Lead, got.ClockSteps)
	}
	clock.Move(-time.Millisecond)
	if got := g.Stats(); got.ClockSteps != 2 {
		t.Errorf("after a step of a millisecond: %d steps, want 2", got.ClockSteps)
	}
	if got := mustNew(t, l, generator.FixedNode(5)).Stats(); !got.WindowEnd.IsZero() {
		t.Errorf("a node given by hand has the window end %v", got.WindowEnd)
	}
}
