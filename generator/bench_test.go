package generator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// roomy is a layout whose ticks no benchmark can exhaust: 4 million IDs per millisecond.
func roomy() generator.Layout {
	l := generator.Default()
	l.Name, l.Node, l.SequenceBits = "roomy", nil, 22
	return l
}

// newBenchGenerator returns a generator that has passed its restart fence.
func newBenchGenerator(b *testing.B, l generator.Layout) *generator.Generator {
	b.Helper()
	g, err := generator.New(l, generator.FixedNode(0))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := g.Next(b.Context()); err != nil {
		b.Fatal(err)
	}
	return g
}

// BenchmarkFloor measures the minimum cost of any generator that reads a clock and guards its
// state: one time.Since, and one lock and unlock of a mutex.
func BenchmarkFloor(b *testing.B) {
	var mu sync.Mutex
	var sum time.Duration
	base := time.Now()
	for b.Loop() {
		d := time.Since(base)
		mu.Lock()
		sum += d
		mu.Unlock()
	}
}

func BenchmarkNext(b *testing.B) {
	g, ctx := newBenchGenerator(b, roomy()), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNextTwoGoroutines reports the elapsed time divided by the number of IDs of both
// goroutines.
func BenchmarkNextTwoGoroutines(b *testing.B) {
	g, ctx := newBenchGenerator(b, roomy()), context.Background()
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 2 {
		wg.Go(func() {
			for range b.N / 2 {
				if _, err := g.Next(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkNextFreshTick draws every ID in its own tick, like a service with little load.
func BenchmarkNextFreshTick(b *testing.B) {
	l := generator.Default()
	now := l.Epoch
	g, err := generator.New(l, generator.FixedNode(0), generator.WithMaxAhead(0),
		generator.WithClock(func() time.Time { now = now.Add(l.Tick); return now }))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFill1000(b *testing.B) {
	g, ctx := newBenchGenerator(b, roomy()), context.Background()
	ids := make([]int64, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Fill(ctx, ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/id")
}

func BenchmarkNextLike(b *testing.B) {
	g, ctx := newBenchGenerator(b, roomy()), context.Background()
	b.ReportAllocs()
	for key := int64(0); b.Loop(); key++ {
		if _, err := g.NextLike(ctx, key); err != nil {
			b.Fatal(err)
		}
	}
}
