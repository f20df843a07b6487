package generator_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// dying is a layout of 16 ticks with 4 IDs each, without any higher bits.
func dying() generator.Layout {
	return generator.Layout{
		Name: "dying", Epoch: midLife(), Tick: time.Millisecond,
		TimeBits: 4, Node: []generator.Field{{Name: "node", Bits: 1}}, SequenceBits: 2,
	}
}

// A peer whose time bits ran out went on with negative IDs and then repeated eight years of them.
func TestTimeThatIsUsedUpNeverWraps(t *testing.T) {
	l := dying()
	clock := newTestClock(l.Epoch)
	g := mustNew(t, l, always(1), generator.WithClock(clock.Now), generator.WithMaxAhead(0),
		generator.WithShards(1))
	var all []int64
	for range 16 {
		all = append(all, mustFill(t, g, 3)...)
		all = append(all, mustNext(t, g)) // the fourth and last of its tick
		clock.Move(l.Tick)
	}
	wantIncreasing(t, all)
	// Every ID that node 1 of this layout can have was given out, and no other.
	var want []int64
	for tick := range int64(16) {
		for sequence := range int64(4) {
			want = append(want, tick<<3|1<<2|sequence)
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("ids are\n%v, want\n%v", all, want)
	}
	// From now on there is nothing, whatever is asked and however late it gets.
	for _, later := range []time.Duration{0, time.Millisecond, time.Hour, 1000 * time.Hour} {
		clock.Move(later)
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrTimeExhausted, "dying", "4 time bits", "more time bits or a longer tick")
		_, err = g.NextLike(t.Context(), 3)
		wantError(t, err, generator.ErrTimeExhausted)
		wantError(t, g.Fill(t.Context(), make([]int64, 1)), generator.ErrTimeExhausted)
	}
}

// The virtual clock may reach the end before the wall clock does.
func TestABurstCannotBorrowTimePastTheEnd(t *testing.T) {
	l := dying()
	clock := newTestClock(l.Epoch.Add(14 * l.Tick))
	g := mustNew(t, l, always(0), generator.WithClock(clock.Now), generator.WithShards(1))
	ids := make([]int64, 9) // the last two ticks have eight
	wantError(t, g.Fill(t.Context(), ids), generator.ErrTimeExhausted)
	if slices.ContainsFunc(ids, func(id int64) bool { return id != 0 }) {
		t.Errorf("ids after the failed Fill are %v, want zeros", ids)
	}
	_, err := g.Next(t.Context())
	wantError(t, err, generator.ErrTimeExhausted)
	// The fence of a hand-given node near the end lies past it.
	g = mustNew(t, l, generator.FixedNode(0), generator.WithClock(clock.Now))
	_, err = g.Next(t.Context())
	wantError(t, err, generator.ErrTimeExhausted)
}

// The last of all IDs of a 63-bit layout is the greatest int64, and the sum that finds the next
// one must not overflow.
func TestTheGreatestInt64IsTheLastID(t *testing.T) {
	for name, draw := range map[string]func(g *generator.Generator) (int64, error){
		"Next":     func(g *generator.Generator) (int64, error) { return g.Next(t.Context()) },
		"NextLike": func(g *generator.Generator) (int64, error) { return g.NextLike(t.Context(), 0) },
		"Fill": func(g *generator.Generator) (int64, error) {
			ids := make([]int64, 1)
			err := g.Fill(t.Context(), ids)
			return ids[0], err
		},
	} {
		l := generator.Default()
		clock := newTestClock(l.End().Add(-1))
		g := mustNew(t, l, always(l.MaxNode()), generator.WithClock(clock.Now), generator.WithShards(1))
		last := int64(0)
		for range l.MaxSequence() + 1 {
			id, err := draw(g)
			if err != nil || id <= last {
				t.Fatalf("%s: %d after %d, %v", name, id, last, err)
			}
			last = id
		}
		if last != math.MaxInt64 {
			t.Errorf("%s: the last id is %d, want the greatest int64", name, last)
		}
		for range 3 {
			id, err := draw(g)
			wantError(t, err, generator.ErrTimeExhausted)
			if id != 0 {
				t.Errorf("%s: id %d and an error", name, id)
			}
		}
		if stats := g.Stats(); stats.Issued != 4096 || !stats.Last.Equal(l.End().Add(-l.Tick)) {
			t.Errorf("%s: %d issued, the last at %v", name, stats.Issued, stats.Last)
		}
	}
}

func TestAClockSetBackBeforeTheEpochIsAnError(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(midLife())
	g := mustNew(t, l, always(1), generator.WithClock(clock.Now))
	last := mustNext(t, g)
	clock.Set(l.Epoch.Add(-time.Hour))
	_, err := g.Next(t.Context())
	wantError(t, err, generator.ErrBeforeEpoch, "the clock shows 2024-12-31T23:00:00Z", "default", "correct the clock")
	wantError(t, g.Fill(t.Context(), make([]int64, 2)), generator.ErrBeforeEpoch)
	clock.Set(midLife())
	if id := mustNext(t, g); id <= last {
		t.Errorf("%d after %d", id, last)
	}
}

// Ticks of centuries leave the numbers in which a wait is counted. Then there is an error, not a
// number that went round.
func TestATickTooFarAwayToCountIsAClockError(t *testing.T) {
	l := generator.Layout{
		Name: "centuries", Epoch: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Tick: 200 * 8766 * time.Hour,
		TimeBits: 5, SequenceBits: 2,
	}
	g := mustNew(t, l, always(0), generator.WithClock(newTestClock(midLife()).Now), generator.WithShards(1))
	ids := mustFill(t, g, 4)
	if want := []int64{0, 1, 2, 3}; !slices.Equal(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
	}
	_, err := g.Next(t.Context())
	if behind := asClockError(t, err); behind.Wait <= behind.MaxWait || behind.Next.Year() != 2200 {
		t.Errorf("%+v", behind)
	}
	// The same for a window that begins further away than an int64 counts nanoseconds.
	far := window{From: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), Until: l.End()}
	_, err = mustNew(t, l, far, generator.WithClock(newTestClock(midLife()).Now)).Next(t.Context())
	if behind := asClockError(t, err); behind.Wait <= behind.MaxWait || behind.Next.Year() != 2400 {
		t.Errorf("%+v", behind)
	}
}
