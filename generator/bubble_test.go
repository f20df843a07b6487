package generator_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// bubbleClock is a wall clock for tests in a synctest bubble, where time passes only while
// everything waits. It advances with the bubble's time and can be set to any time.
type bubbleClock struct{ shift atomic.Int64 }

// newBubbleClock returns a clock that shows at now.
func newBubbleClock(at time.Time) *bubbleClock {
	c := new(bubbleClock)
	c.Set(at)
	return c
}

func (c *bubbleClock) Now() time.Time { return time.Now().Round(0).Add(time.Duration(c.shift.Load())) }

// Step sets the clock forward, or back if d is negative.
func (c *bubbleClock) Step(d time.Duration) { c.shift.Add(int64(d)) }

func (c *bubbleClock) Set(at time.Time) { c.shift.Store(int64(at.Sub(time.Now().Round(0)))) }

// witness calls a generator with a bubbleClock and checks every result against the documented rule.
// An ID more than MaxAhead ahead of the wall clock waits until it is no more than that, which takes
// exactly the difference. A wait of more than MaxWait is an error at once.
type witness struct {
	t                 *testing.T
	g                 *generator.Generator
	clock             *bubbleClock
	maxAhead, maxWait time.Duration

	last   int64
	ids    int
	seen   time.Time // the highest reading that the generator can have had
	waited time.Duration
	waits  int
	errors int
}

func newWitness(
	t *testing.T, l generator.Layout, tenure generator.Tenure, maxAhead, maxWait time.Duration,
) *witness {
	t.Helper()
	clock := newBubbleClock(midLife())
	g := mustNew(t, l, tenure, generator.WithClock(clock.Now), generator.WithMaxAhead(maxAhead),
		generator.WithMaxWait(maxWait))
	return &witness{t: t, g: g, clock: clock, maxAhead: maxAhead, maxWait: maxWait, last: -1, seen: clock.Now()}
}

// next, like and fill draw IDs. A *ClockError is checked and returned, any other error is fatal.
func (w *witness) next() *generator.ClockError {
	w.t.Helper()
	return w.call(func(ids []int64) (err error) {
		ids[0], err = w.g.Next(w.t.Context())
		return err
	}, 1)
}

func (w *witness) like(key int64) *generator.ClockError {
	w.t.Helper()
	return w.call(func(ids []int64) (err error) {
		ids[0], err = w.g.NextLike(w.t.Context(), key)
		return err
	}, 1)
}

func (w *witness) fill(n int) *generator.ClockError {
	w.t.Helper()
	return w.call(func(ids []int64) error { return w.g.Fill(w.t.Context(), ids) }, n)
}

func (w *witness) call(draw func(ids []int64) error, n int) *generator.ClockError {
	w.t.Helper()
	began, wall := time.Now(), w.clock.Now()
	ids := make([]int64, n)
	err := draw(ids)
	spent := time.Since(began)
	if now := w.clock.Now(); now.After(w.seen) {
		w.seen = now
	}
	if err != nil {
		w.errors++
		if slices.ContainsFunc(ids, func(id int64) bool { return id != 0 }) {
			w.t.Fatalf("ids %v and the error %v", ids, err)
		}
		var behind *generator.ClockError
		if !errors.As(err, &behind) {
			w.t.Fatalf("error %v, want a *ClockError", err)
		}
		return behind
	}
	wantIncreasing(w.t, append([]int64{w.last}, ids...))
	w.last = ids[n-1]
	w.ids += n
	// The last ID had to wait until its tick began no more than MaxAhead in front of the clock.
	begin := mustDecompose(w.t, w.g.Layout(), w.last).Time
	if want := max(begin.Sub(wall)-w.maxAhead, 0); spent != want {
		w.t.Fatalf("the id of %v at %v took %v, want %v", begin, wall, spent, want)
	}
	// Nor may it lie behind the clock by a whole tick.
	if end := begin.Add(w.g.Layout().Tick); !end.After(wall) {
		w.t.Fatalf("at %v there came an id of the tick that ended at %v", wall, end)
	}
	if spent > 0 {
		w.waits++
		w.waited += spent
	}
	return nil
}

// mustNotFail is for calls that must get their IDs.
func (w *witness) mustNotFail(err *generator.ClockError) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
