package generator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Whatever the generator spreads its IDs over, divisors or not.
func TestNextOnIsOnItsShardAndIncreases(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 12, 16, 100, 256, 1000, 4096} {
		synctest.Test(t, func(t *testing.T) {
			clock := newBubbleClock(midLife())
			g := mustNew(t, generator.Default(), always(1), generator.WithClock(clock.Now))
			last := int64(0)
			for i := range 2000 {
				shard := i * 7 % shards
				id, err := g.NextOn(t.Context(), shard, shards)
				if err != nil {
					t.Fatal(err)
				}
				if id <= last || id&4095%int64(shards) != int64(shard) {
					t.Fatalf("shard %d of %d: %d after %d", shard, shards, id, last)
				}
				last = id
				// Plain IDs and those like others go on in between.
				if i%3 == 0 {
					last = mustNext(t, g)
				}
			}
		})
	}
}

// A tick has a sixteenth of its numbers for one of sixteen shards.
func TestNextOnUsesEveryNumberOfItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := newTestClock(midLife())
		g := mustNew(t, generator.Default(), always(1), generator.WithClock(frozen.Now),
			generator.WithMaxAhead(0), generator.WithMaxWait(0), generator.WithShards(1))
		n := 0
		for {
			if _, err := g.NextOn(t.Context(), 5, 16); err != nil {
				wantError(t, err, generator.ErrClockBehind)
				break
			}
			n++
		}
		if n != 256 {
			t.Errorf("%d IDs in a tick, want 256", n)
		}
	})
}

func TestNextOnRefusesShardsThatAreNone(t *testing.T) {
	g := mustNew(t, generator.Default(), always(1))
	for _, c := range [][2]int{{0, 0}, {0, -1}, {0, 4097}, {-1, 4}, {4, 4}} {
		if id, err := g.NextOn(t.Context(), c[0], c[1]); !errors.Is(err, generator.ErrInvalidOption) || id != 0 {
			t.Errorf("shard %d of %d: %d, %v", c[0], c[1], id, err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.NextOn(canceled, 0, 4)
	wantError(t, err, generator.ErrCanceled)
	if g.Stats().Issued != 0 {
		t.Error("IDs were used up")
	}
}
