package segment_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// nextOf returns the next number of a source.
func nextOf(t *testing.T, source *segment.Source) int64 {
	t.Helper()
	n, err := source.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// goBack makes a store what it was before: every counter that it has begins again.
func goBack(t *testing.T, store segment.Ledger) {
	t.Helper()
	counters, err := store.Counters(t.Context(), "")
	for _, c := range counters {
		_, removing := store.Remove(t.Context(), c)
		err = errors.Join(err, removing)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sourcesOfAllKinds makes sources on fresh stores, whose numbers of the day begin with 20000101.
func sourcesOfAllKinds(t *testing.T) map[string]func() (*segment.Source, []segment.Ledger) {
	block := segment.WithBlock(100, 100)
	return map[string]func() (*segment.Source, []segment.Ledger){
		"one counter": func() (*segment.Source, []segment.Ledger) {
			store := segmenttest.NewMemory()
			return newSource(t, store, block), []segment.Ledger{store}
		},
		"the counter of a day": func() (*segment.Source, []segment.Ledger) {
			store := segmenttest.NewMemory()
			source, err := segment.Daily(store, "orders", 6, time.UTC, block)
			if err != nil {
				t.Fatal(err)
			}
			return source, []segment.Ledger{store}
		},
		"tickets": func() (*segment.Source, []segment.Ledger) {
			a, b := segmenttest.NewMemory(), segmenttest.NewMemory()
			source, err := segment.Tickets(newSource(t, a, block, segment.WithResidue(0, 2)),
				newSource(t, b, block, segment.WithResidue(1, 2)))
			if err != nil {
				t.Fatal(err)
			}
			return source, []segment.Ledger{a, b}
		},
	}
}

// A failover to a replica that lagged behind is found out by the first number that somebody else has.
func TestARefusedNumberFindsACounterThatWentBack(t *testing.T) {
	t.Parallel()
	for name, make := range sourcesOfAllKinds(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, stores := make()
				defer source.Close()
				refused := nextOf(t, source)
				synctest.Wait()
				for _, store := range stores {
					goBack(t, store)
				}
				for range stores {
					source.Refused(refused)
					refused = nextOrWentBack(t, source)
				}
				if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrWentBack) {
					t.Fatalf("the error of the next call is %v", err)
				}
				for i, store := range stores {
					raised := "orders"
					if name == "the counter of a day" {
						raised += "/20000101"
					}
					must(t, segment.Raise(t.Context(), store, raised, 5000))
					counters, err := store.Counters(t.Context(), raised)
					must(t, err)
					if c := counters[0]; len(counters) != 1 || c.Modulus != int64(len(stores)) || c.Remainder != int64(i) {
						t.Fatalf("after it was raised there is %+v", counters)
					}
				}
				if n := nextOf(t, source); n%1_000_000 < 5000 {
					t.Errorf("after the counter was raised the number is %d", n)
				}
			})
		})
	}
}

// nextOrWentBack returns the next number of a source, or 0 if its counter went back.
func nextOrWentBack(t *testing.T, source *segment.Source) int64 {
	t.Helper()
	n, err := source.Next(t.Context())
	if err != nil && !errors.Is(err, segment.ErrWentBack) {
		t.Fatal(err)
	}
	return n
}

// Somebody may have set a number by hand. Then the counter is in order.
func TestARefusedNumberOfACounterInOrderCostsOneBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource(t, segmenttest.NewMemory(), segment.WithBlock(100, 10_000))
		defer source.Close()
		var held []int64
		for range 20 {
			held = append(held, nextOf(t, source))
		}
		synctest.Wait()
		block := source.Stats().Block
		// Every call that has a number of the blocks that were given up is refused, and says so.
		for _, n := range held {
			source.Refused(n)
		}
		first := nextOf(t, source)
		if first <= held[19]+1 || source.Stats().Block != block {
			t.Errorf("after %d comes %d, and the block is %+v", held[19], first, source.Stats())
		}
		for _, n := range held {
			source.Refused(n)
		}
		source.Refused(1 << 50) // which was never claimed
		if n := nextOf(t, source); n != first+1 {
			t.Errorf("after %d comes %d, although nothing new was refused", first, n)
		}
	})
}

// An answer that comes after the refusal may be of the server that was lost.
func TestAClaimThatWasUnderWayIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(100, 100))
		defer source.Close()
		for range 10 {
			nextOf(t, source)
		}
		time.Sleep(time.Millisecond / 2) // the tenth number has begun the next claim, which takes a millisecond
		source.Refused(10)
		if n := nextOf(t, source); n <= 200 {
			t.Errorf("the next number is %d, of a block that was claimed before the refusal", n)
		}
	})
}

// Each process knows the numbers that it has claimed. The counter has to come above all of them.
func TestTheProcessThatKnowsMoreSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &changing{Memory: segmenttest.NewMemory()}
		first := newSource(t, store, segment.WithBlock(1, 1), segment.WithResidue(1, 2))
		second := newSource(t, store, segment.WithBlock(1, 1), segment.WithResidue(1, 2))
		for _, source := range []*segment.Source{first, first, second} {
			nextOf(t, source)
		}
		goBack(t, store)
		claimed := func(source *segment.Source, want int64, changes int) {
			t.Helper()
			store.changes = 0
			for range 3 {
				if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrWentBack) {
					t.Fatalf("the error is %v", err)
				}
			}
			counters, err := store.Counters(t.Context(), "orders")
			must(t, err)
			if above, is := counters[0].WentBack(); !is || above != want || store.changes != changes {
				t.Errorf("%d changes, and numbers up to %d are known, %t, want %d and %d", store.changes, above, is, changes,
					want)
			}
		}
		claimed(first, 3, 1)
		claimed(second, 5, 1)
		claimed(first, 5, 0)
		if err := segment.Raise(t.Context(), store, "orders", 5); !errors.Is(err, segment.ErrWentBack) {
			t.Errorf("a counter is raised to a number that was claimed: %v", err)
		}
		must(t, segment.Raise(t.Context(), store, "orders", 6))
		for _, want := range []int64{7, 9} {
			if n := nextOf(t, first); n != want {
				t.Errorf("after it was raised the number is %d, want %d", n, want)
			}
		}
	})
}

// changing counts the changes of a store.
type changing struct {
	*segmenttest.Memory
	changes int
}

func (c *changing) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	c.changes++
	return c.Memory.Change(ctx, prev, next)
}

// What freezes a counter must outlive a store that is away at this moment: the next claim is refused, too, and
// freezes it then.
func TestACounterIsFrozenWhenItsStoreTakesTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &unchanging{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(1, 1))
		nextOf(t, source)
		goBack(t, store)
		for _, away := range []bool{true, false} {
			store.away = away
			if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrWentBack) {
				t.Fatalf("the error is %v", err)
			}
			counters, err := store.Counters(t.Context(), "orders")
			must(t, err)
			if frozen := len(counters) == 1; frozen == away {
				t.Errorf("the store is away: %t, and has %+v", away, counters)
			}
		}
	})
}

// unchanging is a store that takes no change while it is away.
type unchanging struct {
	*segmenttest.Memory
	away bool
}

func (u *unchanging) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	if u.away {
		return false, errors.New("the store is away")
	}
	return u.Memory.Change(ctx, prev, next)
}
