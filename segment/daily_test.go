package segment_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// dated is a store whose clock is set by the test.
type dated struct {
	*segmenttest.Memory
	now atomic.Int64 // in days of November 2026
}

func (d *dated) day() time.Time { return november(int(d.now.Load())) }

func (d *dated) Now(context.Context) (time.Time, error) { return d.day(), nil }

func november(day int) time.Time { return time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC) }

// one takes one number with a source of its own, and returns when that has swept.
func (d *dated) one(t *testing.T, clock func() time.Time) (int64, error) {
	t.Helper()
	source, err := segment.Daily(d, "invoice", 4, time.UTC, segment.WithClock(clock))
	must(t, err)
	n, err := source.Next(t.Context())
	synctest.Wait() // until the old counters are removed
	must(t, source.Close())
	return n, err
}

// names returns the names of all counters.
func (d *dated) names(t *testing.T) (names []string) {
	t.Helper()
	counters, err := d.Counters(t.Context(), "")
	must(t, err)
	for _, c := range counters {
		names = append(names, c.Name)
	}
	return names
}

func TestCountersOlderThanAWeekAreRemovedAndTheirDaysClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, oldDaysAreClosed)
}

func oldDaysAreClosed(t *testing.T) {
	store := &dated{Memory: segmenttest.NewMemory()}
	for _, day := range []int64{1, 2, 9} {
		store.now.Store(day)
		if n, err := store.one(t, store.day); err != nil || n != (20261100+day)*10_000+1 {
			t.Fatalf("on day %d the number is %d, %v", day, n, err)
		}
	}
	names := store.names(t)
	if !slices.Equal(names, []string{"closed\tinvoice", "invoice/20261102", "invoice/20261109"}) {
		t.Errorf("the counters are %v", names)
	}
	if _, err := store.Claim(t.Context(), names[0], 1); !errors.Is(err, segment.ErrInvalidOption) {
		t.Errorf("the note of the days that are closed gives numbers: %v", err)
	}
	if n, err := store.Claim(t.Context(), "invoice", 1); err != nil || n != 1 {
		t.Errorf("a counter that has the name of the daily numbers gave %d, %v", n, err)
	}
	// A process whose clock is more than a week behind would give the numbers of that day again.
	if n, err := store.one(t, func() time.Time { return november(1) }); !errors.Is(err, segment.ErrDayFull) {
		t.Errorf("a day whose counter was removed gave %d, %v", n, err)
	}
	if n, err := store.one(t, func() time.Time { return november(2) }); err != nil || n != 202611020002 {
		t.Errorf("a day that is a week ago gave %d, %v", n, err)
	}
}

// An earlier version has noted under the name alone which days are closed, by a counter that is frozen.
func TestDaysThatAnEarlierVersionHasClosedStayClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &dated{Memory: segmenttest.NewMemory()}
		store.now.Store(9)
		note := segment.Counter{Name: "invoice", Next: 20261102}
		if ok, err := store.Change(t.Context(), segment.Counter{}, note); !ok {
			t.Fatal(err)
		}
		if n, err := store.one(t, func() time.Time { return november(1) }); !errors.Is(err, segment.ErrDayFull) {
			t.Errorf("a day that is closed gave %d, %v", n, err)
		}
		if n, err := store.one(t, store.day); err != nil || n != 202611090001 {
			t.Errorf("a day that is not gave %d, %v", n, err)
		}
		// What is open under that name, or is of another kind, is no note.
		note.Next, note.Modulus, note.Kind = 1<<40, 1, "segment"
		if ok, err := store.Change(t.Context(), segment.Counter{Name: "invoice", Next: 20261102}, note); !ok {
			t.Fatal(err)
		}
		if n, err := store.one(t, store.day); err != nil || n != 202611090002 {
			t.Errorf("beside a counter of that name a day gave %d, %v", n, err)
		}
	})
}

func TestAProcessWithAWrongClockRemovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &dated{Memory: segmenttest.NewMemory()}
		store.now.Store(1)
		for _, day := range []int{1, 28, 1} { // the second clock is four weeks ahead
			if _, err := store.one(t, func() time.Time { return november(day) }); err != nil {
				t.Fatal(err)
			}
		}
		if names := store.names(t); !slices.Equal(names, []string{"invoice/20261101", "invoice/20261128"}) {
			t.Errorf("the counters are %v", names)
		}
	})
}
