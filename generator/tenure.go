package generator

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Window is the exclusive right to stamp the ticks of [From, Until) with a node number: those
// that begin at or after From and end at or before Until. The zero From is before every tick.
type Window struct {
	Node        int64
	From, Until time.Time
}

// Tenure says which node number a generator may use, and for which ticks. All uniqueness between
// generators rests on it: whoever hands out windows must never hand out two that share a node
// and a tick, whatever the clocks say. A right once given is given for good: a window may grow,
// or be replaced by another one, but the ticks of an earlier window stay with their generator.
//
// Implementations must be safe for concurrent use.
type Tenure interface {
	// Window returns the present window. It is cheap and does no I/O: it is read under the
	// generator's lock whenever a fresh tick begins. (Inside a tick that was granted once there
	// is nothing to ask.)
	Window() Window
	// Extend waits until the window has grown or moved, and returns nil, or says why it cannot.
	// It is called without any lock, possibly by many goroutines at once, when the clock has
	// reached the end of the window.
	Extend(ctx context.Context) error
}

// Node returns the tenure of a node number that was given by hand, for good. Whoever gives it
// promises that at any time at most one generator in the world uses this number with this
// layout: two at once make duplicates, in one process or in several, and nothing can notice. See
// the package documentation for what a restart does.
func Node(n int64) Tenure { return fixedNode(n) }

// fixedNode is a Tenure without end.
type fixedNode int64

// forever is later than the end of every valid layout.
func forever() time.Time { return time.Date(maxEndYear+1, time.January, 1, 0, 0, 0, 0, time.UTC) }

func (n fixedNode) Window() Window { return Window{Node: int64(n), Until: forever()} }

func (n fixedNode) Extend(context.Context) error {
	return errors.New("a node given by hand has no window to extend")
}

// grant is a window in ticks of the layout.
type grant struct {
	window      Window // as the tenure gave it
	from, until int64  // the first tick, and the first tick no longer granted
}

// grantOf converts a window, clipped to the life of the layout.
func (l Layout) grantOf(w Window) (grant, error) {
	if err := l.checkNode(w.Node); err != nil {
		return grant{}, err
	}
	g := grant{window: w}
	if w.From.After(l.Epoch) {
		tick, exact, err := l.tickOf(w.From)
		if err != nil {
			return grant{}, fmt.Errorf("window of node %d begins at %s: %w", w.Node, stamp(w.From), err)
		}
		if !exact {
			tick++
		}
		g.from = tick
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
