package segment_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// A call that needs several numbers may have got some of them when the store fails.
func TestASeriesOfSingleNumbersHasNoGapAfterCallsThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(1, 1))
		var (
			mu      sync.Mutex
			numbers []int64
		)
		for range 50 {
			var all sync.WaitGroup
			for caller := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(caller) * time.Microsecond)
					ids, ctx := make([]int64, 2), t.Context()
					if caller == 0 {
						// The first one claims alone, and does not wait for the answer. The three numbers are
						// one and a half of what the others need.
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, 500*time.Microsecond)
						defer cancel()
						ids = make([]int64, 3)
					}
					if source.Fill(ctx, ids) == nil {
						mu.Lock()
						defer mu.Unlock()
						numbers = append(numbers, ids...)
					}
				})
			}
			time.Sleep(1500 * time.Microsecond)
			store.refuse.Store(true) // after the first claim, which is too small for all of them
			all.Wait()
			store.refuse.Store(false)
		}
		n, err := source.Next(t.Context())
		must(t, err)
		numbers = append(numbers, n)
		slices.Sort(numbers)
		for i, n := range numbers {
			if n != int64(i+1) {
				t.Fatalf("after %d comes %d", i, n)
			}
		}
	})
}

func TestAStoreWithoutTermsBeginsAtTheStart(t *testing.T) {
	t.Parallel()
	for start := int64(1); start < 40; start++ {
		store := struct{ segment.Store }{segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithStart(start), segment.WithBlock(10, 10))
		if n, err := source.Next(t.Context()); err != nil || n < start || n > start+9 {
			t.Errorf("a series from %d begins at %d, %v", start, n, err)
		}
	}
}

func TestStatsCountTheBlockThatWasClaimedAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource(t, segmenttest.NewMemory(), segment.WithBlock(100, 100))
		ids := make([]int64, 30)
		must(t, source.Fill(t.Context(), ids))
		synctest.Wait()
		s := source.Stats()
		if s.Left != 170 || s.Issued != 30 || s.Claims != 2 {
			t.Errorf("after 30 of two blocks of 100 the stats are %+v", s)
		}
		time.Sleep(10 * time.Second)
		must(t, source.Fill(t.Context(), append(ids, ids...))) // and then 20 of the next block claim another one
		must(t, source.Fill(t.Context(), ids))
		synctest.Wait()
		// 30 numbers were given out in the 10 s between the last two claims, so 180 last 60 s.
		if s := source.Stats(); s.Left != 180 || s.Lasts < 15*time.Second || s.Lasts > time.Minute {
			t.Errorf("at 9 to 12 numbers a second 180 are said to last %v: %+v", s.Lasts, s)
		}
	})
}

// A server that needs somebody's help is neither asked at every call nor reported again and again.
func TestTicketsSeldomAskAServerThatCannotHelpItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := segment.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
		broken := segmenttest.NewMemory()
		_, err := broken.Claim(t.Context(), "orders", 1) // which notes that there is no residue
		must(t, err)
		even := newSource(t, broken, segment.WithResidue(0, 2), segment.WithBlock(10, 10), logger)
		odd := newSource(t, segmenttest.NewMemory(), segment.WithResidue(1, 2), segment.WithBlock(10, 10), logger)
		tickets, err := segment.Tickets(even, odd)
		must(t, err)
		for range 600 { // a minute
			if n, err := tickets.Next(t.Context()); err != nil || n%2 == 0 {
				t.Fatalf("Next returned %d, %v", n, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s := even.Stats(); s.Failures < 5 || s.Failures > 20 || !errors.Is(s.LastError, segment.ErrResidue) {
			t.Errorf("in a minute the broken server was asked %d times: %v", s.Failures, s.LastError)
		}
		must(t, errors.Join(even.Close(), odd.Close()))
		if n := bytes.Count(log.Bytes(), []byte("until somebody acts")); n != 1 {
			t.Errorf("it was reported %d times:\n%s", n, log.String())
		}
	})
}

// curious is a ledger that lets somebody claim when it is read.
type curious struct {
	*segmenttest.Memory
	read func()
}

func (c curious) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	found, err := c.Memory.Counters(ctx, prefix)
	c.read()
	return found, err
}

func TestNobodyClaimsWhileResiduesAreChanged(t *testing.T) {
	t.Parallel()
	a, b := segmenttest.NewMemory(), segmenttest.NewMemory()
	claim := func(s *segmenttest.Memory, remainder int64) (int64, error) {
		terms := segment.AnyTerms()
		terms.Remainder, terms.Modulus = remainder, 2
		return s.ClaimOn(t.Context(), "orders", 2, terms)
	}
	given := map[int64]bool{}
	frozen := 0
	reads := 0
	meddle := func() {
		if reads++; reads%2 == 0 {
			return // so that a change succeeds in the end
		}
		for remainder, s := range []*segmenttest.Memory{a, b} {
			first, err := claim(s, int64(remainder))
			switch {
			case errors.Is(err, segment.ErrFrozen):
				frozen++
			case err == nil:
				given[first+(int64(remainder)+first)%2] = true
			}
		}
	}
	meddle()
	stores := []segment.Ledger{curious{a, meddle}, curious{b, meddle}, segmenttest.NewMemory()}
	must(t, segment.SetResidues(t.Context(), "orders", stores...))
	if frozen < 4 || len(given) < 3 {
		t.Fatalf("%d claims were refused because the counters were frozen, and %d succeeded before", frozen, len(given))
	}
	for remainder, s := range stores {
		terms := segment.AnyTerms()
		terms.Remainder, terms.Modulus = int64(remainder), 3
		first, err := s.(segment.TermsStore).ClaimOn(t.Context(), "orders", 3, terms)
		for n := first; n < first+3; n++ {
			if n%3 == int64(remainder) && given[n] {
				t.Errorf("number %d was given before and after the change", n)
			}
		}
		must(t, err)
	}
}
