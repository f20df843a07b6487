package lease_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// refusing makes a store lose so many races, and tells for which numbers.
func refusing(races int, tried *[]int64) spoiler {
	return func(_ context.Context, r request, serve func() bool) (bool, error) {
		if r.kind != asksSwap || len(*tried) == races {
			return serve(), nil
		}
		*tried = append(*tried, r.next.Node)
		return false, nil
	}
}

// freeSince is a record whose last window ended so long ago.
func freeSince(node int64, ago time.Duration) lease.Record {
	return heldBy("somebody before", node, after(-ago))
}

// seeded is a source of choices that can be repeated.
func seeded(seed uint64) lease.Option {
	source := rand.New(rand.NewPCG(seed, seed))
	var mu sync.Mutex
	return lease.Random(func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Int64N(n)
	})
}

func TestRestedNumbersAreTriedFirstThenUnusedOnesThenTheLongestFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const day = 24 * time.Hour
		first := map[int64]bool{}
		for seed := range uint64(50) {
			s := newTable(
				freeSince(10, day-1), freeSince(11, 365*day), freeSince(12, 0), freeSince(13, day),
				heldBy("a process", 14, after(1)),
			)
			var refused []int64
			s.spoilWith(refusing(6, &refused))
			k := acquire(t, s, lease.WithNodes(10, 17), seeded(seed))
			tried := append(slices.Clone(refused), k.Window().Node)
			mustClose(t, k)
			first[tried[0]] = true
			groups := [][]int64{tried[:2], tried[2:5], tried[5:7]}
			for i, want := range [][]int64{{11, 13}, {15, 16, 17}, {10, 12}} {
				slices.Sort(groups[i])
				if !slices.Equal(groups[i], want) {
					t.Errorf("seed %d: tried %v, of which %v are not %v", seed, tried, groups[i], want)
				}
			}
		}
		if len(first) != 2 {
			t.Errorf("of two numbers that have rested only %v came first in 50 choices", first)
		}
	})
}

func TestOfNumbersFreedLatelyTheSixteenLongestFreeComeFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var records []lease.Record
		for node := range int64(40) {
			records = append(records, freeSince(node, time.Hour-time.Duration(node)*time.Second))
		}
		chosen := map[int64]bool{}
		for seed := range uint64(200) {
			k := acquire(t, newTable(records...), lease.WithNodes(0, 39), seeded(seed))
			chosen[k.Window().Node] = true
			mustClose(t, k)
		}
		if len(chosen) < 10 {
			t.Errorf("only %d of 16 equally good numbers were chosen in 200 choices", len(chosen))
		}
		for node := range chosen {
			if node >= 16 {
				t.Errorf("node %d was chosen, and 16 others were free for longer", node)
			}
		}
	})
}

func TestANumberIsFreeFromTheVeryEndOfItsWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, err := tryAcquire(t, newTable(heldBy("a process", 0, after(1)), heldBy("b", 1, after(2))), lease.WithNodes(0, 1))
		wantError(t, err, lease.ErrNoFreeNode)
		k := acquire(t, newTable(heldBy("a process", 0, midLife()), heldBy("b", 1, after(2))), lease.WithNodes(0, 1))
		wantWindow(t, k, 0, midLife(), after(span))
	})
}

// Numbers outside the range count for nothing, whatever state they are in.
func TestOnlyNumbersOfTheRangeAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable(freeSince(0, time.Hour), freeSince(9, 48*time.Hour), heldBy("a process", 3, after(time.Minute)))
		seen := map[int64]bool{}
		for range 3 {
			k := acquire(t, s, lease.WithNodes(2, 5))
			seen[k.Window().Node] = true
		}
		if len(seen) != 3 || seen[3] || !seen[2] || !seen[4] || !seen[5] {
			t.Errorf("the numbers %v were taken, want 2, 4 and 5", seen)
		}
		_, err := tryAcquire(t, s, lease.WithNodes(2, 5))
		wantError(t, err, lease.ErrNoFreeNode, "all of 2 to 5 are held")
	})
}

func TestTheOneNumberThatIsLeftIsFoundAmongMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := generator.Game16()
		s := newTable()
		const left = 54321
		r := heldBy("a process", 0, after(time.Hour))
		r.Layout = lease.Fingerprint(l)
		for r.Node = range l.MaxNode() + 1 {
			if r.Node != left {
				s.put(r)
			}
		}
		k, err := acquireFor(t.Context(), t, s, l)
		if err != nil {
			t.Fatal(err)
		}
		if node := k.Window().Node; node != left {
			t.Errorf("node %d was taken, want %d", node, left)
		}
		_, err = acquireFor(t.Context(), t, s, l)
		wantError(t, err, lease.ErrNoFreeNode, "all of 0 to 65535 are held", "and 65528 more")
	})
}

func TestNumbersOfHugeLayoutsAreChosenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		huge := generator.Layout{
			Name: "huge", Epoch: midLife(), Tick: time.Hour, TimeBits: 4,
			Node: []generator.Field{{Name: "high", Bits: 29}, {Name: "low", Bits: 29}}, SequenceBits: 1,
		}
		for name, c := range map[string]struct {
			layout generator.Layout
			lo, hi int64
		}{
			"2^20 numbers":  {generator.Game(), 0, 1<<20 - 1},
			"2^58 numbers":  {huge, 0, huge.MaxNode()},
			"the last ones": {huge, huge.MaxNode() - 1, huge.MaxNode()},
			"the last one":  {huge, huge.MaxNode(), huge.MaxNode()},
		} {
			s := newTable()
			for range min(c.hi-c.lo+1, 5) {
				k, err := acquireFor(t.Context(), t, s, c.layout, lease.WithNodes(c.lo, c.hi))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if node := k.Window().Node; node < c.lo || node > c.hi {
					t.Errorf("%s: node %d was taken", name, node)
				}
			}
		}
	})
}

// Those who start together rarely want the same number, and when they do they try another.
func TestManyThatStartTogetherHaveDifferentNumbers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		taken := make(chan int64, 64)
		var wg sync.WaitGroup
		for range cap(taken) {
			wg.Go(func() {
				k, err := tryAcquire(t, s, lease.WithNodes(0, int64(cap(taken)-1)))
				if err != nil {
					t.Error(err)
					return
				}
				taken <- k.Window().Node
			})
		}
		wg.Wait()
		close(taken)
		seen := map[int64]bool{}
		for node := range taken {
			if seen[node] {
				t.Errorf("node %d was taken twice", node)
			}
			seen[node] = true
		}
	})
}

func TestWhoLosesEightRacesLooksAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var tried []int64
		s.spoilWith(refusing(9, &tried))
		acquire(t, s)
		s.wantAsked(t, asksNow, asksList, asksSwap, asksSwap, asksSwap, asksSwap, asksSwap, asksSwap, asksSwap, asksSwap,
			asksNow, asksList, asksSwap, asksSwap, asksList)
	})
}

func TestWhoLosesEveryRaceEndsWithTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		ctx, cancel := context.WithCancel(t.Context())
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind != asksSwap {
				return serve(), nil
			}
			if len(s.asked(asksSwap)) == 3*8 {
				cancel()
			}
			return false, nil
		})
		_, err := acquireFor(ctx, t, s, generator.Default())
		wantError(t, err, lease.ErrStore, "every free number was taken by somebody else")
		wantError(t, err, context.Canceled)
	})
}

// A store that refuses every first record, because it has lost its records, must not be asked without a pause.
func TestWhoLosesEveryRacePausesLongerAndLonger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		ctx, cancel := context.WithCancel(t.Context())
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if len(s.asked(asksList)) == 1000 {
				cancel()
			}
			return r.kind != asksSwap && serve(), nil
		})
		_, err := acquireFor(ctx, t, s, generator.Default())
		wantError(t, err, lease.ErrStore, "every free number was taken by somebody else")
		wantError(t, err, context.DeadlineExceeded)
		rounds := s.asked(asksList)
		if len(rounds) != 12 {
			t.Fatalf("within 30 s the store was asked %d times", len(rounds))
		}
		want := 50 * time.Millisecond
		for i := 1; i < len(rounds); i++ {
			if pause := rounds[i].at.Sub(rounds[i-1].at); pause != want {
				t.Errorf("pause %d is %v, want %v", i, pause, want)
			}
			want = min(2*want, span/3)
		}
	})
}
