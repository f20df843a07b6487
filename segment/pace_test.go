package segment_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// distant is a store that answers a claim after the time that a trip to another continent takes.
type distant struct{ *segmenttest.Memory }

func (d distant) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	time.Sleep(200 * time.Millisecond)
	return d.Memory.ClaimOn(ctx, name, n, t)
}

func TestNobodyWaitsForADistantStoreAtAMillionNumbersASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource(t, distant{segmenttest.NewMemory()})
		ids := make([]int64, 1_000)
		took := func() time.Duration {
			began := time.Now()
			must(t, source.Fill(t.Context(), ids))
			took := time.Since(began)
			time.Sleep(time.Millisecond - took)
			return took
		}
		// While the blocks grow to a million numbers, calls wait for them.
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			took()
		}
		claims := source.Stats().Claims
		for range 5_000 {
			if waited := took(); waited > 0 {
				t.Fatalf("a call waited %v for the store", waited)
			}
		}
		if more := source.Stats().Claims - claims; more < 4 || more > 6 {
			t.Errorf("5 million numbers took %d claims of a million", more)
		}
	})
}
