package segment_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// delayed is a store that takes its time, and looks at the context meanwhile.
type delayed struct {
	*segmenttest.Memory
	takes atomic.Int64
}

func (d *delayed) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	select {
	case <-time.After(time.Duration(d.takes.Load())):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return d.Memory.ClaimOn(ctx, name, n, t)
}

// A claim that calls wait for is given up early, because the connection may be dead. A store that has become
// slow must not look like that for good, however many calls come.
func TestAStoreThatHasBecomeSlowIsBelievedAgain(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{300 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := &delayed{Memory: segmenttest.NewMemory()}
			store.takes.Store(int64(time.Millisecond))
			source := newSource(t, store, segment.WithBlock(1, 1))
			for range 20 {
				if _, err := source.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			store.takes.Store(int64(takes))
			slow := time.Now()
			var callers sync.WaitGroup
			var numbers, late atomic.Int64
			for caller := range 100 {
				callers.Go(func() {
					time.Sleep(time.Duration(caller) * 10 * time.Millisecond)
					for time.Since(slow) < time.Minute {
						_, err := source.Next(t.Context())
						switch {
						case err == nil:
							numbers.Add(1)
							if time.Since(slow) > 50*time.Second {
								late.Add(1)
							}
						case !errors.Is(err, segment.ErrExhausted):
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			// Half of the 100 callers wait for one claim, and the others for the next one.
			claims := int64(time.Minute / takes)
			if n := numbers.Load(); n < 25*claims || late.Load() < n/10 {
				t.Errorf("a store that takes %v gave %d numbers in a minute, and %d in its last 10 s", takes, n,
					late.Load())
			}
		})
	}
}
