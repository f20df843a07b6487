package generator

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Window is the exclusive right to use a node number in the ticks of [From, Until). These are the
// ticks that begin at or after From and end at or before Until. The zero From is before every tick.
type Window struct {
	Node        int64
	From, Until time.Time
}

// Tenure grants a node number to a generator, and the ticks in which the generator may use it. The
// uniqueness of IDs across generators depends on it: an implementation must never grant two windows
// that share a node and a tick, whatever the clocks show. A grant is permanent. A window may grow
// or be replaced with another one, but the ticks of an earlier window still belong to their
// generator.
//
// Implementations must be safe for concurrent use.
type Tenure interface {
	// Window returns the current window. It must be fast and do no I/O, because the generator calls
	// it under its lock whenever a new tick begins. It is not called again within a granted tick.
	Window() Window
	// Extend waits until the window has grown or moved and returns nil, or returns the reason why
	// that is not possible. The generator calls it without any lock, possibly from many goroutines
	// at once, when the clock has reached the end of the window.
	Extend(ctx context.Context) error
}

// Lease is a [Tenure] that is granted for a limited time, recorded in a store and given back, such
// as the Keeper of package lease. [New] tells the lease which generator it serves.
type Lease interface {
	Tenure
	// Claim is called once by New, when nothing else can fail. A lease that already serves another
	// generator returns an error that wraps [ErrTenureTaken], and then New fails.
	Claim(c Claim) error
	// Extensions returns how often the window has grown or moved.
	Extensions() uint64
}

// Claim describes a generator to its [Lease].
type Claim struct {
	// Layout is the layout of the generator's IDs.
	Layout Layout
	// MaxAhead is how far the time of an ID may be ahead of the generator's clock. A window must
	// reach this much further than the time until it can be extended.
	MaxAhead time.Duration
	// Seal ends the generator permanently. It returns the end of the last tick that the generator
	// used, in UTC, or the zero time if it used none. After Seal has returned, every request for a
	// new ID fails with [ErrSealed]. Seal may be called more than once and concurrently.
	Seal func() (last time.Time)
}

// FixedNode returns a tenure that grants one node number permanently. The caller must make sure
// that at any time at most one generator in the world uses this number with this layout. Two such
// generators create duplicates, in one process or in several, and nothing can detect this. The
// package documentation describes what a restart does.
func FixedNode(n int64) Tenure { return fixedNode(n) }

// fixedNode is a Tenure whose window never ends.
type fixedNode int64

// forever is later than the end of every valid layout.
func forever() time.Time { return time.Date(maxEndYear+1, time.January, 1, 0, 0, 0, 0, time.UTC) }

func (n fixedNode) Window() Window { return Window{Node: int64(n), Until: forever()} }

func (n fixedNode) Extend(context.Context) error {
	return errors.New("a fixed node has no window to extend")
}

// grant is a window converted to ticks of the layout.
type grant struct {
	window       Window // the window as returned by the tenure
	first, until int64  // the first tick, and the first tick no longer granted
}

// grantOf converts a window to ticks and limits it to the life of the layout.
func (l Layout) grantOf(w Window) (grant, error) {
	if err := l.checkNode(w.Node); err != nil {
		return grant{}, err
	}
	g := grant{window: w}
	if w.From.After(l.Epoch) {
		tick, exact, err := l.tickOf(w.From)
		if err != nil {
			return grant{}, fmt.Errorf("the window of node %d begins at %s: %w", w.Node, stamp(w.From), err)
		}
		if !exact {
			tick++
		}
		g.first = tick
	}
	if w.Until.After(l.Epoch) {
		tick, _, err := l.tickOf(w.Until)
		if err != nil {
			tick = l.maxTick() + 1
		}
		g.until = tick
	}
	return g, nil
}
