package segment_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// newSource returns a source that is closed when the test ends.
// newSource returns a source that waits longer for its store than by default: on a busy machine the goroutine that
// fetches may have to wait for a processor.
func newSource(tb testing.TB, s segment.Store, opts ...segment.Option) *segment.Source {
	tb.Helper()
	source, err := segment.New(s, "orders", append([]segment.Option{segment.WithMaxWait(time.Minute)}, opts...)...)
	must(tb, err)
	tb.Cleanup(func() { must(tb, source.Close()) })
	return source
}

func TestNumbersOfManyProcessesAreAllDifferent(t *testing.T) {
	t.Parallel()
	const processes, callers, each = 8, 4, 5_000
	store := segmenttest.NewMemory()
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		numbers []int64
	)
	for range processes {
		source := newSource(t, store, segment.WithBlock(10, 1_000))
		for range callers {
			all.Go(func() {
				mine := make([]int64, 0, each)
				for len(mine) < each/2 {
					n, err := source.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mine = append(mine, n)
				}
				for len(mine) < each {
					rest := mine[len(mine):min(len(mine)+37, each)]
					if err := source.Fill(t.Context(), rest); err != nil {
						t.Error(err)
						return
					}
					mine = mine[:len(mine)+len(rest)]
				}
				if !slices.IsSorted(mine) {
					t.Error("the numbers of one caller do not increase")
				}
				mu.Lock()
				defer mu.Unlock()
				numbers = append(numbers, mine...)
			})
		}
	}
	all.Wait()
	slices.Sort(numbers)
	if n := len(slices.Compact(numbers)); n != processes*callers*each {
		t.Errorf("of %d numbers %d are different", processes*callers*each, n)
	}
}
