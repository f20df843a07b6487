package generator

import (
	"sync/atomic"
	"time"
)

const (
	// busyAfter is how many IDs a tick has before Next gets a budget, and leastBudget the smallest one
	// that is worth it.
	busyAfter   = 16
	leastBudget = 8
	// busyTick is how many IDs a tick must have at the present rate. The timer takes about as long as so
	// many readings of the clock, because the runtime has to wake a thread for it.
	busyTick = 256
)

// budget lets Next take some IDs of the current tick without reading the clock, which costs several
// times as much as the ID. While a tick is busy, Next gets as many IDs as it has taken in the tick so
// far, but no more than it will take in the rest of the tick at this rate. So it reads the clock about
// ten times in a tick, and not for every ID. A timer takes the rest of the budget back after a tick, so
// no ID is of an older time than that while the process runs.
//
// Uniqueness does not depend on the budget: a tick that was granted once stays granted, and last still
// reserves every ID. A budget is safe for concurrent use.
type budget struct {
	limit atomic.Int64 // Next may count up to this ID
	first atomic.Int64 // the first ID of the tick
	armed atomic.Bool  // the timer runs
	timer *time.Timer  // nil with an injected clock, of which nothing is known
}

func newBudget(c *clock) *budget {
	b := &budget{}
	if c.read != nil {
		return b
	}
	b.timer = time.AfterFunc(time.Hour, func() {
		b.armed.Store(false)
		b.limit.Store(0)
	})
	b.timer.Stop()
	return b
}

// begin notes the first ID of a tick. It is called before that ID is reserved.
func (b *budget) begin(id int64) { b.first.Store(id) }

// grow extends the budget behind an ID that was taken when a part of the tick had elapsed. The part is
// negative if the tick is ahead of the clock.
func (b *budget) grow(id, lastOfTick int64, elapsed, tick time.Duration) {
	n := id - b.first.Load() + 1
	if n < busyAfter || b.timer == nil {
		return
	}
	if elapsed > 0 {
		left := int64(float64(n) * float64(tick-elapsed) / float64(elapsed))
		if n+left < busyTick {
			return
		}
		n = min(n, left)
	}
	if n < leastBudget {
		return
	}
	// The budget comes first. If the timer ends in between, it is taken back a moment too early.
	b.limit.Store(min(id+n, lastOfTick))
	if b.armed.CompareAndSwap(false, true) {
		b.timer.Reset(tick)
	}
}
