package generator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// scaled returns the part of a large count that a test uses: a tenth with the race detector or
// -short, and at least one.
func scaled(n int) int {
	if raceEnabled || testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// testClock is a wall clock that moves only when a test moves it. Safe for concurrent use.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock(at time.Time) *testClock { return &testClock{now: at} }

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testClock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// always is the tenure of a node that was never used before and never ends. Unlike with FixedNode,
// there is no earlier process, so the first ID comes at once.
type always int64

func (a always) Window() generator.Window {
	return generator.Window{Node: int64(a), Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
}

func (a always) Extend(context.Context) error { return errors.New("this window has no end") }

// midLife is a typical instant in the life of all presets, at the very beginning of a tick.
func midLife() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// vast is a layout whose ticks no test can exhaust: 4 million IDs per millisecond, and one node.
func vast() generator.Layout {
	l := generator.Default()
	l.Name, l.Node, l.SequenceBits = "vast", nil, 22
	return l
}

// small is a layout whose ticks are exhausted quickly: 2^bits IDs per millisecond.
func small(bits int) generator.Layout {
	l := generator.Default()
	l.Name, l.SequenceBits = "small", bits
	return l
}

func mustNew(
	t testing.TB, l generator.Layout, tenure generator.Tenure, opts ...generator.Option,
) *generator.Generator {
	t.Helper()
	g, err := generator.New(l, tenure, opts...)
	if err != nil {
		t.Fatalf("New: %v", err)
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

func mustNextLike(t testing.TB, g *generator.Generator, key int64) int64 {
	t.Helper()
	id, err := g.NextLike(t.Context(), key)
	if err != nil {
		t.Fatalf("NextLike(%d): %v", key, err)
	}
	return id
}

func mustFill(t testing.TB, g *generator.Generator, n int) []int64 {
	t.Helper()
	ids := make([]int64, n)
	if err := g.Fill(t.Context(), ids); err != nil {
		t.Fatalf("Fill of %d: %v", n, err)
	}
	return ids
}

func mustDecompose(t testing.TB, l generator.Layout, id int64) generator.Parts {
	t.Helper()
	p, err := l.Decompose(id)
	if err != nil {
		t.Fatalf("Decompose(%d): %v", id, err)
	}
	return p
}

// wantIncreasing fails unless every ID is greater than the previous one. This also means that no ID
// repeats.
func wantIncreasing(t testing.TB, ids []int64) {
	t.Helper()
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Fatalf("id %d of %d is %d, not above the one before it, %d", i, len(ids), ids[i], ids[i-1])
		}
	}
}

// wantError fails unless err wraps target and its text contains every phrase.
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

// newRand returns a source of random numbers whose seed a failing test prints.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, seed))
}

// sequenceOf returns the part of an ID that selects a shard.
func sequenceOf(l generator.Layout, id int64) int64 { return id & l.MaxSequence() }

// errNoMore is returned by the tenures of tests that do not extend.
var errNoMore = errors.New("the test's tenure gives no more")

func asClockError(t testing.TB, err error) *generator.ClockError {
	t.Helper()
	var behind *generator.ClockError
	if !errors.As(err, &behind) {
		t.Fatalf("error %v, want a *ClockError", err)
	}
	if !errors.Is(err, generator.ErrClockBehind) {
		t.Errorf("%v does not wrap ErrClockBehind", err)
	}
	return behind
}
