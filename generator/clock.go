package generator

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// anchorEvery is how long a generator trusts the monotonic clock before it looks at the wall
	// clock again. So a step of the wall clock, or a suspended machine, whose monotonic clock
	// stood still, is noticed within this time of running.
	anchorEvery = 50 * time.Millisecond
	// stepBack is the least movement backwards that counts as a step of the clock. Slewing moves
	// a clock by less than a thousandth, 50 microseconds between two anchors.
	stepBack = time.Millisecond
)

// clock reads the wall clock as nanoseconds since the epoch of a layout. Reading the monotonic
// clock costs half as much as reading the wall clock, so the wall clock is kept as an offset to
// it. Safe for concurrent use.
type clock struct {
	read  func() time.Time // immutable; nil for the system's clock
	epoch time.Time        // immutable; without a monotonic reading
	base  time.Time        // immutable; with one

	offset atomic.Int64 // wall clock minus monotonic clock, both in nanoseconds
	due    atomic.Int64 // monotonic time of the next look at the wall clock
	latest atomic.Int64 // last reading of an injected clock

	mu     sync.Mutex
	steps  uint64 // guarded by mu: steps back that were seen
	before int64  // guarded by mu: what the clock showed before the steps that are not made up yet
}

func newClock(epoch time.Time, read func() time.Time) *clock {
	c := &clock{read: read, epoch: epoch.Round(0), base: time.Now()}
	if read == nil {
		c.offset.Store(int64(c.base.Round(0).Sub(c.epoch)))
		c.due.Store(int64(anchorEvery))
	} else {
		c.latest.Store(int64(read().Sub(c.epoch)))
	}
	return c
}

// now is the time to the accuracy that the last anchor allows.
func (c *clock) now() int64 {
	if c.read == nil {
		if mono := int64(time.Since(c.base)); mono < c.due.Load() {
			return mono + c.offset.Load()
		}
	}
	return c.exact()
}

// exact looks at the wall clock itself, and ties the monotonic clock to it anew.
func (c *clock) exact() int64 {
	if c.read != nil {
		now := int64(c.read().Sub(c.epoch))
		if last := c.latest.Swap(now); last-now >= int64(stepBack) {
			c.note(last, now)
		}
		return now
	}
	t := time.Now()
	mono, now := int64(t.Sub(c.base)), int64(t.Round(0).Sub(c.epoch))
	// Many goroutines may do this at once. Each stores a valid offset, and swapping it means
	// that only one of them sees a given step.
	if expected := mono + c.offset.Swap(now-mono); expected-now >= int64(stepBack) {
		c.note(expected, now)
	}
	c.due.Store(mono + int64(anchorEvery))
	return now
}

// note records a step back from before to now. Of several steps in a row the highest point
// counts, until the clock has made it up.
func (c *clock) note(before, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps++
	if c.before <= now || before > c.before {
		c.before = before
	}
}

// stepped returns the number of steps back seen so far and, if at now the clock has not yet made
// them up, what it showed before them.
func (c *clock) stepped(now int64) (steps uint64, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps > 0 && now < c.before {
		since = c.epoch.Add(time.Duration(c.before)).UTC()
	}
	return c.steps, since
}
