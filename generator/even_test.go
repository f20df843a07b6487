package generator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// quiet is a generator on a clock that the test moves. It has no locks and is used to count shards.
type quiet struct {
	*generator.Generator
	layout generator.Layout
	now    time.Time
}

func newQuiet(t testing.TB, l generator.Layout, shards int, opts ...generator.Option) *quiet {
	t.Helper()
	q := &quiet{layout: l, now: midLife()}
	opts = append(opts, generator.WithShards(shards), generator.WithClock(func() time.Time { return q.now }))
	q.Generator = mustNew(t, l, always(1), opts...)
	return q
}

// next moves the clock and returns the sequence of the next ID.
func (q *quiet) next(t testing.TB, d time.Duration) int64 {
	t.Helper()
	q.now = q.now.Add(d)
	return sequenceOf(q.layout, mustNext(t, q.Generator))
}

// spread is the difference between the largest and the smallest count.
func spread(counts []int) int { return slices.Max(counts) - slices.Min(counts) }

// shardCounts counts IDs by shard.
func shardCounts(l generator.Layout, ids []int64, shards int) []int {
	counts := make([]int, shards)
	for _, id := range ids {
		counts[sequenceOf(l, id)%int64(shards)]++
	}
	return counts
}

// At one ID a tick, after any number of IDs, the counts of the N shards differ by at most 1. The
// same said step by step: every ID falls on a shard that is not ahead. It holds for N and for the
// products of its first prime factors. After a round of N the counts of every divisor are equal.
func TestOneIDATickIsEvenForEveryNumberOfShards(t *testing.T) {
	stride := 1
	if raceEnabled || testing.Short() {
		stride = 31
	}
	for n := 1; n <= 1024; n += stride {
		g, products := newQuiet(t, generator.Default(), n), firstProducts(n)
		counts := make([][]int, len(products))
		for i, product := range products {
			counts[i] = make([]int, product)
		}
		for i := range 3*n + n/2 {
			sequence := int(g.next(t, time.Millisecond))
			for j, product := range products {
				shard := sequence % product
				if counts[j][shard] != i/product {
					t.Fatalf("N=%d: id %d falls on shard %d of %d, which has %d already",
						n, i+1, shard, product, counts[j][shard])
				}
				counts[j][shard]++
			}
			if (i+1)%n == 0 {
				wantEvenDivisors(t, counts[len(counts)-1])
			}
		}
	}
}

// firstProducts are the products of the first prime factors of n in ascending order, the last of
// which is n itself: 2, 4, 12 and 60 for 60.
func firstProducts(n int) []int {
	products := []int{1}
	for rest, factor := n, 2; rest > 1; {
		if rest%factor != 0 {
			factor++
			continue
		}
		rest /= factor
		products = append(products, products[len(products)-1]*factor)
	}
	return products
}

// wantEvenDivisors fails unless the counts are equal for every divisor of their number.
func wantEvenDivisors(t *testing.T, counts []int) {
	t.Helper()
	for divisor := 1; divisor <= len(counts); divisor++ {
		if len(counts)%divisor != 0 {
			continue
		}
		coarse := make([]int, divisor)
		for shard, c := range counts {
			coarse[shard%divisor] += c
		}
		if spread(coarse) != 0 {
			t.Fatalf("N=%d: counts of %d shards are %v", len(counts), divisor, coarse)
		}
	}
}

// In the middle of a round a divisor d of N may be off by the cards that fall on one of its shards,
// N/d; never by more.
func TestADivisorIsNeverOffByMoreThanARound(t *testing.T) {
	for _, n := range []int{12, 60, 256, 1000, 1024} {
		g, counts := newQuiet(t, generator.Default(), n), map[int][]int{}
		for i := range 2 * n {
			sequence := g.next(t, 1001*time.Microsecond)
			for divisor := 1; divisor <= n; divisor++ {
				if n%divisor != 0 {
					continue
				}
				if counts[divisor] == nil {
					counts[divisor] = make([]int, divisor)
				}
				counts[divisor][sequence%int64(divisor)]++
				if off := spread(counts[divisor]); off > n/divisor {
					t.Fatalf("N=%d: after %d ids %d shards are off by %d", n, i+1, divisor, off)
				}
			}
		}
	}
}

// The rate does not matter as long as every ID has its own tick.
func TestSlowTrafficIsEvenAtAnyRate(t *testing.T) {
	for _, apart := range []time.Duration{time.Millisecond, 2230 * time.Microsecond, time.Second, time.Minute, 24 * time.Hour} {
		for _, n := range []int{2, 4, 8, 10, 16, 1000, 1024} {
			g, counts := newQuiet(t, generator.Default(), n), make([]int, n)
			for range scaled(5000) {
				counts[g.next(t, apart)%int64(n)]++
			}
			if spread(counts) > 1 {
				t.Errorf("N=%d, one id in %v: spread %d", n, apart, spread(counts))
			}
		}
	}
}

// Without a word about shards, every power of two up to a sixteenth of the sequence is served. Of
// ten peers nine put all of such IDs on one shard of four.
func TestTheDefaultServesPowersOfTwo(t *testing.T) {
	for _, p := range presets() {
		clock := newTestClock(midLife())
		g := mustNew(t, p.layout, always(1), generator.WithClock(clock.Now))
		shards := int(max((p.layout.MaxSequence()+1)/16, 1))
		var ids []int64
		for range 4 * shards {
			clock.Move(p.layout.Tick)
			ids = append(ids, mustNext(t, g))
		}
		for n := 1; n <= shards; n *= 2 {
			if counts := shardCounts(p.layout, ids, n); spread(counts) != 0 {
				t.Errorf("%s: counts of %d shards are %v", p.name, n, counts)
			}
			// For a power of two it is the whole ID modulo n, which is easy to write in SQL.
			for _, id := range ids {
				if id%int64(n) != sequenceOf(p.layout, id)%int64(n) {
					t.Fatalf("%s: %d modulo %d is not its shard", p.name, id, n)
				}
			}
		}
	}
}

// A burst of any size spreads within 1, for any number of ticks.
func TestABurstOfAnySizeSpreadsWithinOne(t *testing.T) {
	for n := 1; n <= 16; n++ {
		for size := 1; size <= 6*16; size++ {
			g := newQuiet(t, small(4), n)
			if counts := shardCounts(g.layout, mustFill(t, g.Generator, size), n); spread(counts) > 1 {
				t.Fatalf("N=%d: a burst of %d in small ticks gives %v", n, size, counts)
			}
		}
	}
	stride := 1
	if raceEnabled || testing.Short() {
		stride = 31
	}
	for n := 1; n <= 1024; n += stride {
		for _, size := range []int{1, 2, 7, n - 1, n, n + 1, 4095, 4096, 4097, 5000, 3*4096 + 17} {
			g := newQuiet(t, generator.Default(), n)
			if counts := shardCounts(g.layout, mustFill(t, g.Generator, size), n); spread(counts) > 1 {
				t.Fatalf("N=%d: a burst of %d gives a spread of %d", n, size, spread(counts))
			}
		}
	}
}

// Bursts of one size, one after another, add up to no more than their tails do, which the deck
// spreads: after a round of N bursts all counts are equal.
func TestARoundOfBurstsIsEven(t *testing.T) {
	for _, n := range []int{2, 3, 8, 10, 64, 100, 128} {
		for _, size := range []int{2, 3, 7, 50, 5000} {
			g, counts := newQuiet(t, generator.Default(), n), make([]int, n)
			for range n {
				g.now = g.now.Add(time.Second)
				for shard, c := range shardCounts(g.layout, mustFill(t, g.Generator, size), n) {
					counts[shard] += c
				}
			}
			if spread(counts) != 0 {
				t.Errorf("N=%d: %d bursts of %d give a spread of %d", n, n, size, spread(counts))
			}
		}
	}
}

// Many generators on one table, each restarted many times, add no more than 1 each.
func TestManyGeneratorsAndRestartsAddNoMoreThanOneEach(t *testing.T) {
	r := newRand(t)
	const generators, restarts = 5, 8
	for _, n := range []int{2, 16, 100} {
		counts := make([]int, n)
		for range generators * restarts {
			g := newQuiet(t, generator.Default(), n)
			for range r.IntN(400) {
				counts[g.next(t, time.Millisecond)%int64(n)]++
			}
		}
		if spread(counts) > generators*restarts {
			t.Errorf("N=%d: spread %d of %d generators", n, spread(counts), generators*restarts)
		}
	}
}
