package segment_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// Callers that come back at once must not take the numbers of those who still wait.
func TestCallsGetTheirNumbersInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{5 * time.Millisecond, 300 * time.Millisecond} {
		for _, callers := range []int{5, 100} {
			t.Run(fmt.Sprint(callers, " callers of a store that takes ", takes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := &delayed{Memory: segmenttest.NewMemory()}
					store.takes.Store(int64(takes))
					source := newSource(t, store, segment.WithBlock(1, 1))
					began := time.Now()
					var all sync.WaitGroup
					for caller := range callers {
						all.Go(func() {
							time.Sleep(time.Duration(caller) * 100 * time.Microsecond)
							ids := make([]int64, 1+caller%3)
							for time.Since(began) < 100*takes {
								called := time.Now()
								if err := source.Fill(t.Context(), ids); err != nil {
									t.Error(err)
									return
								}
								// It comes during one claim, and the next one is for it, too.
								if waited := time.Since(called); waited > 2*takes {
									t.Errorf("a call waited %v", waited)
									return
								}
							}
						})
					}
					all.Wait()
					if s := source.Stats(); s.Claims > 102 || s.Issued < int64(50*callers) || s.Left != 0 {
						t.Errorf("the stats are %+v", s)
					}
				})
			})
		}
	}
}

// What a call gives back because it got too little goes to the next in the queue, even if the store is away.
func TestANumberThatIsGivenBackGoesToTheNextInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(1, 1))
		call := func(count int, patience time.Duration) <-chan error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			done := make(chan error, 1)
			go func() {
				defer cancel()
				done <- source.Fill(ctx, make([]int64, count))
			}()
			synctest.Wait()
			return done
		}
		first := call(3, 500*time.Microsecond) // is gone when its claim is answered, after 1 ms
		whole, part, next := call(2, time.Second), call(2, 100*time.Millisecond), call(1, time.Second)
		time.Sleep(1500 * time.Microsecond)
		store.refuse.Store(true)
		if err := <-first; !errors.Is(err, segment.ErrCanceled) {
			t.Errorf("the first call: %v", err)
		}
		must(t, <-whole)
		if err := <-part; !errors.Is(err, segment.ErrCanceled) {
			t.Errorf("the call that got one of two numbers: %v", err)
		}
		must(t, <-next)
		if s := source.Stats(); s.Issued != 3 || s.Left != 0 {
			t.Errorf("the stats are %+v", s)
		}
	})
}
