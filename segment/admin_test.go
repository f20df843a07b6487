package segment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

func TestThreeTicketServersFollowTwo(t *testing.T) {
	t.Parallel()
	stores := []segment.Ledger{segmenttest.NewMemory(), segmenttest.NewMemory(), segmenttest.NewMemory()}
	seen := map[int64]bool{}
	take := func(modulus int64, count int) (sources []*segment.Source) {
		for i := range modulus {
			source := newSource(t, stores[i], segment.WithResidue(i, modulus), segment.WithBlock(10, 50))
			sources = append(sources, source)
			for range count * int(i+1) {
				n, err := source.Next(t.Context())
				if err != nil || seen[n] || n%modulus != i {
					t.Fatalf("store %d of %d gave %d, %v, seen: %t", i, modulus, n, err, seen[n])
				}
				seen[n] = true
			}
		}
		return sources
	}
	old := take(2, 300)
	must(t, segment.SetResidues(t.Context(), "orders", stores...))
	must(t, segment.SetResidues(t.Context(), "orders", stores...)) // after an interruption
	take(3, 300)
	// The old ones give out what they have, and then are refused.
	for _, source := range old {
		for {
			n, err := source.Next(t.Context())
			if err != nil {
				if !errors.Is(err, segment.ErrResidue) {
					t.Error(err)
				}
				break
			}
			if seen[n] {
				t.Fatalf("%d was given twice", n)
			}
			seen[n] = true
		}
	}
}

func TestARaisedCounterGoesOnAboveAndNeverFalls(t *testing.T) {
	t.Parallel()
	store := segmenttest.NewMemory()
	must(t, segment.Raise(t.Context(), store, "orders", 1000))
	must(t, segment.Raise(t.Context(), store, "orders", 5))
	if n, err := newSource(t, store).Next(t.Context()); err != nil || n != 1000 {
		t.Errorf("Next returned %d, %v", n, err)
	}
	// Of what nobody can read, nobody can say that it is over.
	frozen, err := store.Counters(t.Context(), "orders")
	must(t, err)
	frozen[0].Kind, frozen[0].Modulus = "segment: went back, nobody can read this", 0
	before, err := store.Counters(t.Context(), "orders")
	must(t, err)
	if ok, err := store.Change(t.Context(), before[0], frozen[0]); !ok {
		t.Fatal(err)
	}
	if err := segment.Raise(t.Context(), store, "orders", 1<<62); !errors.Is(err, segment.ErrWentBack) {
		t.Errorf("a counter that was changed by hand is raised: %v", err)
	}
	if err := segment.Raise(t.Context(), store, "orders", 0); !errors.Is(err, segment.ErrInvalidOption) ||
		!strings.Contains(err.Error(), "0 is not from 1 to 9223372036854775806") {
		t.Error(err)
	}
}
