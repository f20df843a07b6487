package generator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// draw lets goroutines run at once, each with its own function that appends IDs to a list, and
// checks what each got: strictly increasing for itself, and no ID twice among all.
func draw(t *testing.T, goroutines int, body func(i int, ids []int64) ([]int64, error)) {
	t.Helper()
	lists := make([][]int64, goroutines)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			<-start
			ids, err := body(i, nil)
			if err != nil {
				t.Errorf("goroutine %d after %d ids: %v", i, len(ids), err)
			}
			lists[i] = ids
		})
	}
	close(start)
	wg.Wait()
	for _, ids := range lists {
		wantIncreasing(t, ids)
	}
	wantIncreasing(t, merge(lists))
}

// merge joins lists that are sorted each into one that is, two at a time.
func merge(lists [][]int64) []int64 {
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	a, b := merge(lists[:len(lists)/2]), merge(lists[len(lists)/2:])
	all := make([]int64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// withProcs runs a test with as many processors as it says: races that need two goroutines at the
// same instant and those that need one to be taken off its processor are not the same ones.
func withProcs(t *testing.T, test func(t *testing.T)) {
	for _, procs := range []int{2, 8} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			test(t)
		})
	}
}

const goroutines = 16

// nextMany returns a body for draw that asks for n IDs one by one.
func nextMany(ctx context.Context, g *generator.Generator, n int) func(int, []int64) ([]int64, error) {
	return func(_ int, ids []int64) ([]int64, error) {
		ids = slices.Grow(ids, n)
		for range n {
			id, err := g.Next(ctx)
			if err != nil {
				return ids, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
}

// Libraries that kept the time in one word and the sequence in another gave up to two thirds of
// such IDs twice.
func TestSixteenGoroutinesTimesAMillionIDs(t *testing.T) {
	withProcs(t, func(t *testing.T) {
		g := mustNew(t, vast(), generator.FixedNode(0))
		n := scaled(nightly.Pick(200_000, 1_000_000))
		draw(t, goroutines, nextMany(t.Context(), g, n))
		if issued := g.Stats().Issued; issued != uint64(goroutines*n) {
			t.Errorf("Stats tells %d ids, want %d", issued, goroutines*n)
		}
	})
}

// The same where ticks end all the time: by the clock, by use, and both.
func TestSixteenGoroutinesOnASaturatedGenerator(t *testing.T) {
	for _, l := range []generator.Layout{generator.Default(), small(8)} {
		t.Run(l.Name, func(t *testing.T) {
			withProcs(t, func(t *testing.T) {
				g := mustNew(t, l, generator.FixedNode(3), generator.WithMaxWait(time.Minute))
				n := scaled(20_000)
				if l.SequenceBits < 12 {
					n = scaled(2_000)
				}
				draw(t, goroutines, nextMany(t.Context(), g, n))
				if issued := g.Stats().Issued; issued != uint64(goroutines*n) {
					t.Errorf("Stats tells %d ids, want %d", issued, goroutines*n)
				}
			})
		})
	}
}

// All three ways to an ID at once, on ticks that end all the time.
func TestAllWaysToAnIDInterleave(t *testing.T) {
	l := small(9)
	sizes := []int{0, 1, 2, 3, 31, 32, 33, 100, 511, 512, 513, 1024, 2000}
	withProcs(t, func(t *testing.T) {
		g := mustNew(t, l, generator.FixedNode(3), generator.WithMaxWait(time.Minute), generator.WithShards(32))
		rounds := scaled(100)
		draw(t, goroutines, func(i int, ids []int64) ([]int64, error) {
			issued := uint64(0)
			for round := range rounds {
				stats := g.Stats()
				if stats.Issued < issued {
					return ids, fmt.Errorf("%d ids were issued, then %d", issued, stats.Issued)
				}
				issued = stats.Issued
				var err error
				if ids, err = drawOnce(t.Context(), g, i+round, sizes, 32, ids); err != nil {
					return ids, err
				}
			}
			return ids, nil
		})
	})
}

// drawOnce appends IDs by one of the three ways, which a number chooses.
func drawOnce(
	ctx context.Context, g *generator.Generator, way int, sizes []int, shards int64, ids []int64,
) ([]int64, error) {
	switch way % 3 {
	case 0:
		id, err := g.Next(ctx)
		return append(ids, id), err
	case 1:
		key := int64(way) * 7
		id, err := g.NextLike(ctx, key)
		if err == nil && sequenceOf(g.Layout(), id)%shards != sequenceOf(g.Layout(), key)%shards {
			err = fmt.Errorf("%d is not on the shard of %d", id, key)
		}
		return append(ids, id), err
	}
	batch := make([]int64, sizes[way%len(sizes)])
	err := g.Fill(ctx, batch)
	return append(ids, batch...), err
}

// What one goroutine was given before another one asked is smaller, on whichever processor: the
// hand-over through the channel is the happens-before. In a peer half of such pairs were reversed.
func TestAnIDHandedOverIsSmallerThanTheNext(t *testing.T) {
	for name, l := range map[string]generator.Layout{"default": generator.Default(), "vast": vast()} {
		t.Run(name, func(t *testing.T) {
			g := mustNew(t, l, generator.FixedNode(0), generator.WithMaxWait(time.Minute))
			there, back := make(chan int64), make(chan int64)
			defer close(there)
			go func() {
				defer close(back)
				for before := range there {
					id, err := g.Next(t.Context())
					if err != nil || id <= before {
						t.Errorf("%d was handed over, the next is %d, %v", before, id, err)
					}
					back <- id
				}
			}()
			last := mustNext(t, g)
			for range scaled(100_000) {
				there <- last
				id := <-back
				if last = mustNext(t, g); last <= id {
					t.Fatalf("%d was handed back, the next is %d", id, last)
				}
			}
		})
	}
}

// Whoever makes a new generator for every ID still gets no ID twice, if one after the other: each
// begins above whatever the one before could have issued. (A peer gave 17 different IDs in 100,000.)
func TestAGeneratorForEveryIDRepeatsNothing(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(midLife())
	var ids []int64
	for range 5000 {
		g := mustNew(t, l, generator.FixedNode(1), generator.WithClock(clock.Now))
		clock.Move(l.Tick) // what the first Next waits for
		ids = append(ids, mustNext(t, g))
	}
	wantIncreasing(t, ids)
}

func TestNextAndFillAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := mustNew(t, vast(), always(0))
	ctx, ids := context.Background(), make([]int64, 1000)
	for name, call := range map[string]func() error{
		"Next":     func() error { _, err := g.Next(ctx); return err },
		"NextLike": func() error { _, err := g.NextLike(ctx, 77); return err },
		"Fill":     func() error { return g.Fill(ctx, ids) },
	} {
		allocated := testing.AllocsPerRun(1000, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		if allocated != 0 {
			t.Errorf("%s allocates %v times", name, allocated)
		}
	}
}
