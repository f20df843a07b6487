package generator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Fill of every size from nothing to several ticks, on a clock that stands: the IDs are those that
// Next would have given, one after the other, and end exactly where they should.
func TestFillOfEverySizeIsOneRun(t *testing.T) {
	for _, shards := range []int{1, 3, 8, 16} {
		l := small(4) // 16 IDs a tick
		for size := range 6*16 + 2 {
			clock := newTestClock(midLife())
			g := mustNew(t, l, always(9), generator.WithClock(clock.Now), generator.WithShards(shards))
			ids := mustFill(t, g, size)
			wantIncreasing(t, ids)
			if size == 0 {
				continue
			}
			// After the first, every ID follows from the one before by the rule alone.
			first := mustDecompose(t, l, ids[0])
			if !first.Time.Equal(midLife()) || first.Sequence >= int64(shards) {
				t.Fatalf("shards %d: the first of %d is %+v", shards, size, first)
			}
			for i, id := range ids[1:] {
				if want := follower(t, l, ids[i], int64(shards)); id != want {
					t.Fatalf("shards %d: %d of %d follows %d, want %d", shards, id, size, ids[i], want)
				}
			}
			if id, want := mustNext(t, g), follower(t, l, ids[size-1], int64(shards)); id != want {
				t.Fatalf("shards %d: Next after a Fill of %d is %d, want %d", shards, size, id, want)
			}
		}
	}
}

// follower is the plain ID that comes after one when the clock stands: one more, or in the tick
// after it at the residue where the round goes on.
func follower(t *testing.T, l generator.Layout, id, shards int64) int64 {
	t.Helper()
	p := mustDecompose(t, l, id)
	if p.Sequence++; p.Sequence > l.MaxSequence() {
		p.Time, p.Sequence = p.Time.Add(l.Tick), p.Sequence%shards
	}
	next, err := l.Compose(p)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// The IDs of one Fill need no more time than the layout does: ticks as far as MaxAhead at once, the
// others as the clock reaches them.
func TestAHugeFillGoesWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newBubbleClock(midLife())
		g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now),
			generator.WithShards(1), generator.WithMaxWait(time.Millisecond))
		began := time.Now()
		ids := mustFill(t, g, 2_000_000) // 488.28 ticks
		wantIncreasing(t, ids)
		if spent, want := time.Since(began), (488-10)*time.Millisecond; spent != want {
			t.Errorf("it took %v, want %v", spent, want)
		}
		// MaxWait bounds each of the waits, not their sum.
		if stats := g.Stats(); stats.Waits != 478 || stats.Waited != 478*time.Millisecond || stats.Issued != 2_000_000 {
			t.Errorf("%d ids, %d waits of %v", stats.Issued, stats.Waits, stats.Waited)
		}
	})
}

func TestAnEmptyFillDoesNothing(t *testing.T) {
	clock := newTestClock(midLife())
	g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now))
	for _, ids := range [][]int64{nil, {}} {
		if err := g.Fill(t.Context(), ids); err != nil {
			t.Error(err)
		}
	}
	first := mustNext(t, g)
	mustFill(t, g, 0)
	if id := mustNext(t, g); id != first+1 {
		t.Errorf("an empty Fill took an id: %d after %d", id, first)
	}
	clock.Move(-time.Hour) // not even a clock far behind troubles it
	mustFill(t, g, 0)
}

// A tick inside of which the clock moves on is left unfinished.
func TestAFreshTickBeginsWithTheClock(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(midLife())
	g := mustNew(t, l, always(1), generator.WithClock(clock.Now), generator.WithShards(4))
	for tick := range 100 {
		for _, id := range mustFill(t, g, 1+tick%7) {
			if at := mustDecompose(t, l, id).Time; !at.Equal(clock.Now().Truncate(l.Tick)) {
				t.Fatalf("at %v an id of %v", clock.Now(), at)
			}
		}
		clock.Move(l.Tick * time.Duration(1+tick%3))
	}
}
