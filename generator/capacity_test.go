package generator_test

import (
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// perTick counts IDs by their tick, in order.
func perTick(l generator.Layout, ids []int64) []int64 {
	var counts []int64
	last := int64(-1)
	for _, id := range ids {
		if tick := id >> (l.NodeBits() + l.SequenceBits); tick != last {
			counts, last = append(counts, 0), tick
		}
		counts[len(counts)-1]++
	}
	return counts
}

// What a random start costs: the first tick of a burst begins somewhere below N and so loses
// (N-1)/2 of its IDs on average, exactly so over a round of N bursts. A tick that goes on from a
// full one loses what the number of shards leaves over.
func TestATickHasTheIDsThatItsTableSays(t *testing.T) {
	const size = 4096
	tests := []struct {
		shards int
		later  int64 // IDs in every later tick
	}{
		{1, 4096}, {2, 4096}, {16, 4096}, {64, 4096}, {128, 4096}, {1024, 4096},
		{100, 4000}, {1000, 4000}, {3, 4095}, {10, 4090},
		{820, 3280}, // about the worst that can be: four rounds, and nearly a fifth left over
	}
	for _, test := range tests {
		g := newQuiet(t, generator.Default(), test.shards)
		sum, bursts := int64(0), min(test.shards, 1+scaled(10_000)/100)
		for range bursts {
			g.now = g.now.Add(time.Second)
			counts := perTick(g.layout, mustFill(t, g.Generator, 4*size))
			start := size - counts[0]
			if start < 0 || start >= int64(test.shards) {
				t.Fatalf("N=%d: the first tick has %d ids", test.shards, counts[0])
			}
			sum += counts[0]
			for _, count := range counts[1 : len(counts)-1] {
				if count != test.later {
					t.Fatalf("N=%d: a full tick has %d ids, want %d", test.shards, count, test.later)
				}
			}
		}
		lost := int64(bursts)*size - sum
		if n := int64(test.shards); bursts == test.shards && lost != n*(n-1)/2 {
			t.Errorf("N=%d: %d first ticks lose %d ids, want %d", n, bursts, lost, n*(n-1)/2)
		}
	}
}

// On overflow the next tick goes on with the round, whichever call goes over.
func TestOverflowGoesOnWithTheRound(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 5, 6, 7, 10, 15, 16} {
		g := newQuiet(t, small(4), int(n))
		sequence := sequenceOf(g.layout, mustNext(t, g.Generator))
		for range 10 * 16 {
			want := (sequence + 1) % n
			if sequence = sequenceOf(g.layout, mustNext(t, g.Generator)); sequence%n != want {
				t.Fatalf("N=%d: residue %d, want %d", n, sequence%n, want)
			}
			if g.Stats().Lead > 5*time.Millisecond {
				g.now = g.now.Add(time.Millisecond) // the clock goes on behind, which changes nothing
			}
		}
	}
}
