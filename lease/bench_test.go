package lease_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// BenchmarkNextLeased reports, beside the time of an ID, how many times that of the same generator
// with a number given by hand it is. The two take turns, so that both meet the same machine, and
// the window is extended meanwhile.
func BenchmarkNextLeased(b *testing.B) {
	const turn = 20_000
	layout := generator.Default() // with more IDs in a tick than can be made
	layout.Node, layout.SequenceBits = []generator.Field{{Name: "node", Bits: 1}}, 21
	k, err := lease.Acquire(b.Context(), quick{newTable()}, layout, quiet(), lease.WithSpan(200*time.Millisecond))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { abandon(k) })
	var generators []*generator.Generator
	for _, tenure := range []generator.Tenure{k, generator.FixedNode(1)} {
		g, err := generator.New(layout, tenure)
		if err != nil {
			b.Fatal(err)
		}
		generators = append(generators, g)
	}
	ctx := context.Background()
	var took [2][]float64
	spent := func(side int) float64 {
		began := time.Now()
		for range turn {
			if _, err := generators[side].Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(began).Nanoseconds()) / turn
	}
	spent(0)
	spent(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		first := i % 2 // so that neither always comes first
		for _, side := range []int{first, 1 - first} {
			took[side] = append(took[side], spent(side))
		}
	}
	leased, byHand := median(took[0]), median(took[1])
	b.ReportMetric(leased, "ns/id")
	b.ReportMetric(leased/byHand, "of-by-hand")
	b.ReportMetric(float64(k.Extensions()), "extensions")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
