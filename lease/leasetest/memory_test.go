package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

func ExampleMemory() {
	ctx := context.Background()
	store := leasetest.NewMemory(nil)
	quiet := lease.WithLogger(slog.New(slog.DiscardHandler))
	keeper, err := lease.Acquire(ctx, store, generator.Default(), lease.WithNodes(7, 7), quiet)
	if err != nil {
		fmt.Println(err)
		return
	}
	records, _ := store.List(ctx)
	fmt.Println("node", records[0].Node, "is held:", records[0].Owner != "")
	_ = keeper.Close(ctx)
	records, _ = store.List(ctx)
	fmt.Println("node", records[0].Node, "is held:", records[0].Owner != "")
	// Output:
	// node 7 is held: true
	// node 7 is held: false
}

func TestMemoryHasTheClockThatItIsGiven(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	m := leasetest.NewMemory(func() time.Time { return at })
	if now, err := m.Now(t.Context()); err != nil || now != at.UTC() {
		t.Errorf("the clock shows %v, %v; want %v", now, err, at.UTC())
	}
	before := time.Now()
	now, err := leasetest.NewMemory(nil).Now(t.Context())
	if err != nil || now.Before(before.Round(0)) || now.After(time.Now().Round(0)) {
		t.Errorf("without a clock it is %v, %v, want now", now, err)
	}
}

// Both bounds are included, which no clause can tell of a clock that goes on.
func TestMemorySwapsAtTheBoundsThemselves(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	const ns = time.Nanosecond
	for _, test := range []struct {
		earliest, latest time.Duration
		want             bool
	}{
		{0, 0, true},
		{-ns, 0, true},
		{0, ns, true},
		{ns, time.Hour, false},
		{-time.Hour, -ns, false},
		{ns, -ns, false},
	} {
		m := leasetest.NewMemory(func() time.Time { return at })
		next := lease.Record{Node: 7, Owner: "one", Until: at, Version: 1, Layout: "example"}
		ok, err := m.SwapWithin(t.Context(), lease.Record{}, next, at.Add(test.earliest), at.Add(test.latest))
		if ok != test.want || err != nil {
			t.Errorf("from %v to %v it returned %t, %v; want %t", test.earliest, test.latest, ok, err, test.want)
		}
	}
}

func TestMemorySaysWhyTheContextEnded(t *testing.T) {
	t.Parallel()
	reason := errors.New("the test is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	m := leasetest.NewMemory(nil)
	_, err := m.Now(ctx)
	_, err2 := m.List(ctx)
	next := lease.Record{Node: 7, Owner: "one", Until: time.Now(), Version: 1, Layout: "example"}
	_, err3 := m.Swap(ctx, lease.Record{}, next)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, reason) {
			t.Errorf("the error is %v, want one that wraps %q", err, reason)
		}
	}
}

func TestMemoryIsAStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) func() lease.Store {
		m := leasetest.NewMemory(nil)
		return func() lease.Store { return m }
	})
}
