package segment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// cutOff is a store behind a network that drops what is sent while it is cut off: nothing that was asked then
// is ever answered.
type cutOff struct {
	*segmenttest.Memory
	off    atomic.Bool
	probes atomic.Int64
}

func (c *cutOff) ask(ctx context.Context) error {
	if c.off.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Millisecond)
	return nil
}

func (c *cutOff) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := c.ask(ctx); err != nil {
		return 0, err
	}
	return c.Memory.ClaimOn(ctx, name, n, t)
}

func (c *cutOff) Probe(ctx context.Context) error {
	c.probes.Add(1)
	return c.ask(ctx)
}

// However long the store was cut off, and whichever claim is under way when it is back, calls that wait get
// numbers within half a second.
func TestNumbersComeBackHalfASecondAfterASilentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &cutOff{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(1, 1))
		longest := time.Duration(0)
		for off := 100 * time.Millisecond; off < 30*time.Second; off += 130 * time.Millisecond {
			for range 3 {
				if _, err := source.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			store.off.Store(true)
			back := make(chan time.Time, 1)
			time.AfterFunc(off, func() {
				store.off.Store(false)
				back <- time.Now()
			})
			for failed := true; failed; {
				_, err := source.Next(t.Context())
				failed = err != nil
			}
			longest = max(longest, time.Since(<-back))
		}
		t.Logf("the longest time was %v, with %d probes", longest, store.probes.Load())
		if longest > 500*time.Millisecond {
			t.Errorf("a call got a number %v after the store was back", longest)
		}
	})
}

// A process that begins while the store is cut off has no claim to compare with.
func TestTheFirstClaimIsSentAgainWhenASilentStoreIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for off := 100 * time.Millisecond; off < 8*time.Second; off += 170 * time.Millisecond {
			store := &cutOff{Memory: segmenttest.NewMemory()}
			store.off.Store(true)
			source := newSource(t, store)
			back := make(chan time.Time, 1)
			time.AfterFunc(off, func() {
				store.off.Store(false)
				back <- time.Now()
			})
			for failed := true; failed; {
				_, err := source.Next(t.Context())
				failed = err != nil
			}
			if took := time.Since(<-back); took > 600*time.Millisecond {
				t.Errorf("after %v without a store, the first number came %v later", off, took)
			}
		}
	})
}

// probed is a slow store that answers probes at once.
type probed struct{ *delayed }

func (probed) Probe(context.Context) error { return nil }

// A store that answers probes and takes long for claims is not given up for ever, and its first claim never.
func TestAStoreThatAnswersProbesAndIsSlowIsBelieved(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := probed{&delayed{Memory: segmenttest.NewMemory()}}
			store.takes.Store(int64(takes))
			source := newSource(t, store, segment.WithBlock(1, 1), segment.WithMaxWait(8*time.Second))
			if n, err := source.Next(t.Context()); err != nil || n != 1 {
				t.Fatalf("the first number is %d, %v", n, err)
			}
			store.takes.Store(int64(time.Millisecond))
			for range 50 {
				if _, err := source.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			store.takes.Store(int64(takes))
			began := time.Now()
			for range 3 {
				if _, err := source.Next(t.Context()); err != nil {
					t.Fatalf("a store that takes %v, after %v: %v", takes, time.Since(began), err)
				}
			}
		})
	}
}
