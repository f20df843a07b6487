package shardmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestAFanOutAsksEveryShardOnceAndAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * maxConcurrent
		var asked [n]atomic.Int32
		var working atomic.Int32
		goOn, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- Scatter(t.Context(), Singles(n), func(i int) error {
				asked[i].Add(1)
				working.Add(1)
				<-goOn
				return nil
			})
		}()
		synctest.Wait() // until nobody can go on
		if working.Load() != maxConcurrent {
			t.Errorf("%d at a time, want %d", working.Load(), maxConcurrent)
		}
		close(goOn)
		check(t, <-ended)
		for i := range asked {
			if asked[i].Load() != 1 {
				t.Errorf("shard %d was asked %d times", i, asked[i].Load())
			}
		}
	})
}

func TestAFanOutTellsWhichShardsFailedAndWhy(t *testing.T) {
	t.Parallel()
	const n = 2 * maxConcurrent
	odd := errors.New("an odd shard")
	err := Scatter(t.Context(), Singles(n), func(i int) error {
		switch {
		case i == 4:
			panic("it fell over")
		case i%2 == 1:
			return fmt.Errorf("%w, %d", odd, i)
		}
		return nil
	})
	var partial *PartialError
	if !errors.As(err, &partial) || !errors.Is(err, odd) {
		t.Fatalf("%v, want a *PartialError of odd shards", err)
	}
	for i := range n {
		failed := i%2 == 1 || i == 4
		if (partial.Failed[i] != nil) != failed || slices.Contains(partial.OK, i) == failed {
			t.Errorf("shard %d has the error %v", i, partial.Failed[i])
		}
	}
}

func TestAFanOutStartsNothingAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	const n = 3 * maxConcurrent
	why := errors.New("the server shuts down")
	ctx, cancel := context.WithCancelCause(t.Context())
	var begun atomic.Int32
	err := Scatter(ctx, Singles(n), func(int) error {
		begun.Add(1)
		cancel(why)
		<-ctx.Done()
		return ctx.Err()
	})
	var partial *PartialError
	if !errors.As(err, &partial) || len(partial.Failed) != n || !errors.Is(err, why) {
		t.Errorf("%v, want an error of every shard", err)
	}
	if begun.Load() > maxConcurrent {
		t.Errorf("%d calls began, want at most %d", begun.Load(), maxConcurrent)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
