package generator

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// anchorEvery is how long a generator trusts the monotonic clock before it reads the wall clock
	// again. A step of the wall clock is noticed after this much running time. The same is true for
	// a suspended machine, whose monotonic clock stood still.
	anchorEvery = 50 * time.Millisecond
	// stepBack is the smallest movement backwards that counts as a step of the clock. Slewing is
	// slower: it moves a clock by less than a thousandth, which is 50 microseconds between two
	// anchors.
	stepBack = time.Millisecond
)

// clock reads the wall clock as nanoseconds since the epoch of a layout. Reading the monotonic
// clock costs half as much as reading the wall clock. The clock therefore stores the wall clock as
// an offset from the monotonic clock. It is safe for concurrent use.
type clock struct {
	read  func() time.Time // immutable; nil for the system's clock
	epoch time.Time        // immutable; without a monotonic reading
	base  time.Time        // immutable; with a monotonic reading

	offset atomic.Int64 // wall clock minus monotonic clock, both in nanoseconds
	due    atomic.Int64 // monotonic time of the next reading of the wall clock
	latest atomic.Int64 // last reading of an injected clock

	mu     sync.Mutex
	steps  uint64 // guarded by mu: number of steps back seen so far
	before int64  // guarded by mu: time before the steps that the clock has not made up yet
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

// now returns the time with the accuracy of the last anchor.
func (c *clock) now() int64 {
	if c.read == nil {
		if mono := int64(time.Since(c.base)); mono < c.due.Load() {
			return mono + c.offset.Load()
		}
	}
	return c.exact()
}

// exact reads the wall clock itself and sets a new anchor.
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
	// Many goroutines may do this at the same time. Each stores a valid offset. Because of the
	// swap, only one of them sees a given step.
	if expected := mono + c.offset.Swap(now-mono); expected-now >= int64(stepBack) {
		c.note(expected, now)
	}
	c.due.Store(mono + int64(anchorEvery))
	return now
}

// note records a step back from before to now. After several steps in a row, the latest time before
// any of them is kept until the clock has reached it again.
func (c *clock) note(before, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps++
	if c.before <= now || before > c.before {
		c.before = before
	}
}

// stepped returns the number of steps back seen so far. It also returns the time that the clock
// showed before them, if the clock at now has not reached that time again.
func (c *clock) stepped(now int64) (steps uint64, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps > 0 && now < c.before {
		since = c.epoch.Add(time.Duration(c.before)).UTC()
	}
	return c.steps, since
}
