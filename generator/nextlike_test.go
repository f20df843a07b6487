package generator_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

var shardTable = []int64{1, 2, 3, 4, 10, 16, 100, 256, 1000, 1024, 4096}

// far is a bound that no test of a standing clock reaches: 86 million ticks.
func far() generator.Option { return generator.WithMaxAhead(24 * time.Hour) }

// NextLike is the smallest sequence above the last that lies on the shard of the key, in the tick
// of the last ID or else the one after it: no more, no less, and so never the same twice.
func TestNextLikeTakesTheSmallestSequenceOnTheShard(t *testing.T) {
	for _, n := range shardTable {
		r, g := newRand(t), newQuiet(t, generator.Default(), int(n), far())
		draws := 1_000_000
		if n != 16 {
			draws = 30_000
		}
		last := mustDecompose(t, g.layout, mustNext(t, g.Generator))
		for i := range scaled(draws) {
			key := r.Int64N(math.MaxInt64)
			if i%2 == 0 {
				key = key>>40<<40 | 7 // one popular shard
			}
			shard := sequenceOf(g.layout, key) % n
			want := last
			for want.Sequence++; want.Sequence%n != shard && want.Sequence <= g.layout.MaxSequence(); {
				want.Sequence++
			}
			if want.Sequence > g.layout.MaxSequence() {
				want.Time, want.Sequence = want.Time.Add(g.layout.Tick), shard
			}
			got := mustDecompose(t, g.layout, mustNextLike(t, g.Generator, key))
			if got != want {
				t.Fatalf("N=%d: key %d after %+v gives %+v, want %+v", n, key, last, got, want)
			}
			last = got
		}
	}
}

// The items of an order lie beside the order for the number of shards that was declared and for all
// of its divisors.
func TestNextLikeServesEveryDivisor(t *testing.T) {
	for _, n := range []int64{12, 1000, 1024} {
		g := newQuiet(t, generator.Default(), int(n), far())
		for range 300 {
			order := mustNext(t, g.Generator)
			for range 3 {
				item := mustNextLike(t, g.Generator, order)
				for divisor := int64(1); divisor <= n; divisor++ {
					if n%divisor == 0 && sequenceOf(g.layout, item)%divisor != sequenceOf(g.layout, order)%divisor {
						t.Fatalf("N=%d: order %d and item %d are on different shards of %d", n, order, item, divisor)
					}
				}
			}
		}
	}
}

// A tick of R has R/N IDs for one key. For random keys it has 2R/(N+1), because the way to the next
// shard is anything from 1 to N.
func TestNextLikeHasTheCapacityItsTableSays(t *testing.T) {
	for _, test := range []struct {
		bits, shards  int
		random, equal float64
	}{
		{12, 2, 2730.7, 2048}, {12, 4, 1638.4, 1024}, {12, 8, 910.2, 512}, {12, 16, 481.9, 256},
		{12, 64, 126.0, 64}, {12, 256, 31.9, 16}, {10, 2, 682.7, 512}, {10, 16, 120.5, 64}, {10, 64, 31.5, 16},
	} {
		keys := rand.New(rand.NewPCG(1, uint64(test.shards))) // the same keys every time
		drawRandom := func() int64 { return keys.Int64N(1 << 40) }
		if got := likePerTick(t, test.bits, test.shards, drawRandom); math.Abs(got-test.random) > test.random*0.03 {
			t.Errorf("%d bits, N=%d: %.1f ids a tick for random keys, want %v", test.bits, test.shards, got, test.random)
		}
		drawEqual := func() int64 { return 1541815603606036481 }
		if got := likePerTick(t, test.bits, test.shards, drawEqual); got != test.equal {
			t.Errorf("%d bits, N=%d: %.1f ids a tick for one key, want %v", test.bits, test.shards, got, test.equal)
		}
	}
}

// likePerTick is how many IDs NextLike found in a tick on average, over 64 ticks, or over 16 where a tick has so many
// that it is like any other.
func likePerTick(t *testing.T, bits, shards int, key func() int64) float64 {
	t.Helper()
	ticks := 64
	if shards <= 8 {
		ticks = 16
	}
	g, drawn := newQuiet(t, small(bits), shards, far()), 0
	end, err := g.layout.Compose(generator.Parts{Time: g.now.Add(time.Duration(ticks) * g.layout.Tick)})
	if err != nil {
		t.Fatal(err)
	}
	for mustNextLike(t, g.Generator, key()) < end {
		drawn++
	}
	return float64(drawn) / float64(ticks)
}

// Plain IDs are as even as without it, whatever NextLike calls come between: they neither take its
// cards nor follow where it went. All keys here lie on one shard, the worst there is.
func TestNextLikeDoesNotMakePlainIDsUneven(t *testing.T) {
	r := newRand(t)
	for _, n := range []int{2, 3, 10, 16, 100} {
		g, counts := newQuiet(t, generator.Default(), n), make([]int, n)
		for i := range scaled(5000) {
			g.now = g.now.Add(time.Millisecond)
			for range r.IntN(4) {
				mustNextLike(t, g.Generator, 0)
			}
			shard := g.next(t, 0) % int64(n)
			if counts[shard] != i/n {
				t.Fatalf("N=%d: plain id %d falls on shard %d, which has %d already", n, i+1, shard, counts[shard])
			}
			counts[shard]++
			for range r.IntN(4) {
				mustNextLike(t, g.Generator, 0)
			}
		}
	}
}

// The same inside a burst that goes through many ticks: plain IDs go round and round.
func TestPlainIDsGoRoundThroughNextLike(t *testing.T) {
	r := newRand(t)
	for _, n := range shardTable {
		g := newQuiet(t, generator.Default(), int(n), far())
		want, last := int64(-1), int64(-1)
		for range scaled(20_000) {
			if r.IntN(3) > 0 {
				id := mustNextLike(t, g.Generator, r.Int64N(5)*r.Int64N(1<<20))
				wantIncreasing(t, []int64{last, id})
				last = id
				continue
			}
			ids := mustFill(t, g.Generator, 1+r.IntN(3))
			wantIncreasing(t, append([]int64{last}, ids...))
			for _, id := range ids {
				if shard := sequenceOf(g.layout, id) % n; want >= 0 && shard != want {
					t.Fatalf("N=%d: a plain id on shard %d, want %d", n, shard, want)
				}
				want = (sequenceOf(g.layout, id) + 1) % n
				last = id
			}
		}
	}
}

// Next counts on by itself inside a tick, and must look twice after NextLike.
func TestNextAfterNextLikeGoesOnWhereItsRoundWas(t *testing.T) {
	g := newQuiet(t, generator.Default(), 10)
	first := sequenceOf(g.layout, mustNext(t, g.Generator)) % 10
	for i := range int64(100) {
		mustNextLike(t, g.Generator, 3)
		mustNextLike(t, g.Generator, 3)
		if got, want := sequenceOf(g.layout, mustNext(t, g.Generator))%10, (first+2*i+1)%10; got != want {
			t.Fatalf("Next after NextLike is on shard %d, want %d", got, want)
		}
		if got, want := sequenceOf(g.layout, mustNext(t, g.Generator))%10, (first+2*i+2)%10; got != want {
			t.Fatalf("the Next after that is on shard %d, want %d", got, want)
		}
	}
}

func TestNextLikeTakesAnyKeyThatIsNotNegative(t *testing.T) {
	g := newQuiet(t, generator.Game(), 64, far())
	for _, key := range []int64{-1, math.MinInt64} {
		id, err := g.NextLike(t.Context(), key)
		wantError(t, err, generator.ErrInvalidID, "key", "negative")
		if id != 0 {
			t.Errorf("id %d and an error", id)
		}
	}
	// A key of another layout, whose sequence is wider.
	for _, key := range []int64{0, 1, 4095, math.MaxInt64, 1541815603606036480} {
		if id := mustNextLike(t, g.Generator, key); id%64 != key%64 {
			t.Errorf("%d is not on the shard of %d", id, key)
		}
	}
}
