package generator_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestIDsOfThePastAreUniqueAndRepeatable(t *testing.T) {
	t.Parallel()
	layout := generator.Default()
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]time.Time, 50_000)
	for i := range times {
		// Far more of them have one tick than the tick has numbers.
		times[i] = layout.Epoch.Add(time.Duration(random.IntN(8)) * time.Millisecond)
		if i%10 == 0 {
			times[i] = layout.Epoch.Add(time.Duration(random.Int64N(int64(365 * 24 * time.Hour))))
		}
	}
	run := func() []int64 {
		b, err := generator.Backfill(layout, 17)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int64, len(times))
		for i, at := range times {
			if ids[i], err = b.At(at); err != nil {
				t.Fatal(err)
			}
			parts, err := layout.Decompose(ids[i])
			if late := parts.Time.Sub(at.Truncate(time.Millisecond)); err != nil || parts.Node != 17 ||
				late < 0 || late > 20*time.Millisecond {
				t.Fatalf("the ID for %v is %+v, %v", at, parts, err)
			}
		}
		return ids
	}
	ids := run()
	if !slices.Equal(ids, run()) {
		t.Error("a second run gives other IDs")
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != len(times) {
		t.Errorf("of %d IDs %d are different", len(times), n)
	}
}

func TestManyGoroutinesImportThePastTogether(t *testing.T) {
	t.Parallel()
	layout := generator.Default()
	b, err := generator.Backfill(layout, 17)
	if err != nil {
		t.Fatal(err)
	}
	const importers, each = 8, 2_000
	ids := make([]int64, importers*each)
	var all sync.WaitGroup
	for importer := range importers {
		all.Go(func() {
			for i := range each {
				id, err := b.At(layout.Epoch.Add(time.Hour))
				if err != nil {
					t.Error(err)
				}
				ids[importer*each+i] = id
			}
		})
	}
	all.Wait()
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != importers*each {
		t.Errorf("of %d IDs %d are different", importers*each, n)
	}
}

func TestTimesAndNodesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	layout := generator.Default()
	if _, err := generator.Backfill(layout, layout.MaxNode()+1); !errors.Is(err, generator.ErrNodeRange) {
		t.Errorf("a node that is too large: %v", err)
	}
	if _, err := generator.Backfill(generator.Layout{}, 1); !errors.Is(err, generator.ErrInvalidLayout) {
		t.Errorf("an invalid layout: %v", err)
	}
	b, err := generator.Backfill(layout, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.At(layout.Epoch.Add(-1)); !errors.Is(err, generator.ErrBeforeEpoch) {
		t.Errorf("before the epoch: %v", err)
	}
	if _, err := b.At(layout.End()); !errors.Is(err, generator.ErrTimeExhausted) {
		t.Errorf("after the end: %v", err)
	}
	last := layout.End().Add(-1)
	for range layout.MaxSequence() + 1 {
		if _, err := b.At(last); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.At(last); !errors.Is(err, generator.ErrTimeExhausted) {
		t.Errorf("when the last tick is full: %v", err)
	}
}
