package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// span is the default length of a window.
const span = 15 * time.Second

// midLife is an ordinary instant in the life of all presets, at the very beginning of a tick.
func midLife() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// after is midLife plus some time.
func after(d time.Duration) time.Time { return midLife().Add(d) }

// bubble runs a test in parallel to others, in a bubble whose time begins at midLife and passes
// only while everything waits. A goroutine that is left at its end fails it.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		time.Sleep(time.Until(midLife()))
		test(t)
	})
}

// wallClock is the clock of a machine. It runs with the bubble's time and can be set to anything.
type wallClock struct{ shift atomic.Int64 }

func (c *wallClock) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.shift.Load())).UTC()
}

// Step sets the clock forward, or back where d is negative.
func (c *wallClock) Step(d time.Duration) { c.shift.Add(int64(d)) }

// Set makes the clock show a time.
func (c *wallClock) Set(to time.Time) { c.Step(to.Sub(c.Now())) }

// quiet silences a keeper whose words a test does not read.
func quiet() lease.Option { return lease.WithLogger(slog.New(slog.DiscardHandler)) }

// tryAcquire is lease.Acquire for the default layout, with nothing logged. A keeper is closed when
// the test ends.
func tryAcquire(t *testing.T, s lease.Store, opts ...lease.Option) (*lease.Keeper, error) {
	t.Helper()
	return acquireFor(t.Context(), t, s, generator.Default(), opts...)
}

func acquireFor(
	ctx context.Context, t *testing.T, s lease.Store, l generator.Layout, opts ...lease.Option,
) (*lease.Keeper, error) {
	t.Helper()
	k, err := lease.Acquire(ctx, s, l, append([]lease.Option{quiet()}, opts...)...)
	if (k == nil) == (err == nil) {
		t.Fatalf("Acquire returned %v beside the error %v", k, err)
	}
	if err == nil {
		t.Cleanup(func() { abandon(k) }) //nolint:contextcheck // the test's own has ended by then
	}
	return k, err
}

// abandon closes a keeper, whatever comes of it.
func abandon(k *lease.Keeper) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = k.Close(ctx)
}

func acquire(t *testing.T, s lease.Store, opts ...lease.Option) *lease.Keeper {
	t.Helper()
	k, err := tryAcquire(t, s, opts...)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return k
}

func newGenerator(t testing.TB, k *lease.Keeper, opts ...generator.Option) *generator.Generator {
	t.Helper()
	g, err := generator.New(generator.Default(), k, opts...)
	if err != nil {
		t.Fatalf("generator.New: %v", err)
	}
	return g
}

func mustNext(t testing.TB, g *generator.Generator) int64 {
	t.Helper()
	id, err := g.Next(t.Context())
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return id
}

// partsOf takes an ID of the default layout apart.
func partsOf(t testing.TB, id int64) generator.Parts {
	t.Helper()
	parts, err := generator.Default().Decompose(id)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func mustClose(t testing.TB, k *lease.Keeper) {
	t.Helper()
	if err := k.Close(context.Background()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// heldBy is a record that somebody else wrote, of the default layout.
func heldBy(owner string, node int64, until time.Time) lease.Record {
	return lease.Record{
		Node: node, Owner: owner, Until: until, Version: 1,
		Layout: lease.Fingerprint(generator.Default()), UpdatedAt: midLife().Add(-time.Hour),
	}
}

// wantError fails unless err wraps target and its text holds every one of the phrases.
func wantError(t testing.TB, err, target error, phrases ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want one that wraps %q", err, target)
	}
	for _, phrase := range phrases {
		if !strings.Contains(err.Error(), phrase) {
			t.Errorf("error %q does not say %q", err, phrase)
		}
	}
}

func wantTime(t testing.TB, what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantWindow fails unless the keeper has this window.
func wantWindow(t testing.TB, k *lease.Keeper, node int64, from, until time.Time) {
	t.Helper()
	w := k.Window()
	if w.Node != node {
		t.Errorf("the window is of node %d, want %d", w.Node, node)
	}
	wantTime(t, "the beginning of the window", w.From, from)
	wantTime(t, "the end of the window", w.Until, until)
}

// eventually waits, in time of the bubble, until something is so.
func eventually(t testing.TB, what string, within time.Duration, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// alwaysFirst makes every choice of a keeper the first of those there are.
func alwaysFirst(int64) int64 { return 0 }
