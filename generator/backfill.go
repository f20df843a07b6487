package generator

import (
	"sync"
	"time"
)

// Backfiller makes IDs for times in the past, for imports of old rows. Make one with [Backfill]. It is safe
// for concurrent use.
type Backfiller struct {
	layout Layout
	node   int64

	mu   sync.Mutex
	next map[int64]int64 // the next sequence of each tick that was used
}

// Backfill returns a maker of IDs for the past. All its IDs have the node number, which no generator may use:
// lease.Reserve notes it in the store of the leases, so that they never give it out. One number serves one
// import, because another Backfiller with the same number makes the same IDs.
//
// It returns an error that wraps [ErrInvalidLayout] or [ErrNodeRange].
func Backfill(l Layout, node int64) (*Backfiller, error) {
	if _, err := l.Compose(Parts{Time: l.Epoch, Node: node}); err != nil {
		return nil, err
	}
	return &Backfiller{layout: l, node: node, next: make(map[int64]int64)}, nil
}

// At returns an ID whose time is t, or the tick that t is in. Times may come in any order, and any number
// of times may be equal. Every ID is unique among those of this Backfiller. If the numbers of a tick are used
// up, the ID lies in the next tick that has one. The same times in the same order give the same IDs, so an
// import can be repeated.
//
// A Backfiller remembers every tick that it has used, which takes some tens of bytes each. At returns an
// error that wraps [ErrBeforeEpoch] or [ErrTimeExhausted] for a time that the layout cannot represent.
func (b *Backfiller) At(t time.Time) (int64, error) {
	first, err := b.layout.Compose(Parts{Time: t, Node: b.node})
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	shift, largest := b.layout.timeShift(), b.layout.MaxSequence()
	tick := first >> shift
	for b.next[tick] > largest {
		tick++
	}
	if tick > maxOf(b.layout.TimeBits) {
		return 0, ErrTimeExhausted
	}
	sequence := b.next[tick]
	b.next[tick] = sequence + 1
	return tick<<shift | first&(1<<shift-1) | sequence, nil
}
