package generator

import (
	"fmt"
	"math"
	"time"
)

// Parts is an ID taken apart.
type Parts struct {
	// Time is the beginning of the ID's tick, in UTC.
	Time time.Time
	// Node is the node number; [Layout.UnpackNode] splits it into its fields.
	Node int64
	// Sequence is the number of the ID inside its tick and node.
	Sequence int64
}

// Compose packs parts into an ID. A Time inside a tick counts as the beginning of that tick. It
// returns an error wrapping [ErrBeforeEpoch] or [ErrTimeExhausted] for a time that the layout
// cannot hold, [ErrNodeRange] or [ErrSequenceRange] for a number that does not fit its bits, and
// [ErrInvalidLayout] for an invalid layout.
func (l Layout) Compose(p Parts) (int64, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	tick, _, err := l.tickOf(p.Time)
	if err != nil {
		return 0, err
	}
	if err := l.checkNode(p.Node); err != nil {
		return 0, err
	}
	if p.Sequence < 0 || p.Sequence > l.MaxSequence() {
		return 0, fmt.Errorf("%w: sequence %d is not between 0 and %d, the %d sequence bits of layout %s",
			ErrSequenceRange, p.Sequence, l.MaxSequence(), l.SequenceBits, l.label())
	}
	return tick<<l.timeShift() | p.Node<<l.SequenceBits | p.Sequence, nil
}

// Decompose takes an ID apart. It returns an error wrapping [ErrInvalidID] when the ID is
// negative or has bits above those of the layout, and [ErrInvalidLayout] for an invalid layout.
// Any other int64 decomposes: an ID does not say which layout made it.
func (l Layout) Decompose(id int64) (Parts, error) {
	if err := l.Validate(); err != nil {
		return Parts{}, err
	}
	if id < 0 || id > maxOf(l.bits()) {
		return Parts{}, fmt.Errorf("%w: %d is not between 0 and %d, the %d bits of layout %s",
			ErrInvalidID, id, maxOf(l.bits()), l.bits(), l.label())
	}
	at, _ := l.timeOf(uint64(id >> l.timeShift()))
	return Parts{
		Time:     at,
		Node:     id >> l.SequenceBits & l.MaxNode(),
		Sequence: id & l.MaxSequence(),
	}, nil
}

// Range returns the IDs of [from, to) as a half-open range [lo, hi): every ID of this layout
// whose time, as [Layout.Decompose] tells it, is not before from and before to. Instants before
// the epoch count as the epoch and instants after the end as the end, since no ID lies there. So
// "the rows of yesterday" needs no time column:
//
//	lo, hi, err := layout.Range(midnight.AddDate(0, 0, -1), midnight)
//	db.Where("id >= ? AND id < ?", lo, hi)
//
// IDs may lie ahead of the wall clock by as much as MaxAhead ([WithMaxAhead]): for "the rows of
// the last minute" leave the upper end open.
//
// In a layout of all 63 bits the range of the last tick would end at 2^63, one more than an
// int64 holds; there hi is the greatest int64 and the one ID of that value is not in the range.
// It returns an error when to is before from, and one wrapping [ErrInvalidLayout] for an invalid
// layout.
func (l Layout) Range(from, to time.Time) (lo, hi int64, err error) {
	if err := l.Validate(); err != nil {
		return 0, 0, err
	}
	from, to = from.Round(0), to.Round(0) // by the wall clock, even if both have monotonic readings
	if to.Before(from) {
		return 0, 0, fmt.Errorf("generator: range from %s to %s ends before it begins",
			stamp(from), stamp(to))
	}
	return l.firstID(from), l.firstID(to), nil
}

// firstID is the least ID whose time is not before t.
func (l Layout) firstID(t time.Time) int64 {
	if !t.After(l.Epoch) {
		return 0
	}
	tick, exact, err := l.tickOf(t)
	if err != nil {
		tick, exact = l.maxTick(), false // at or past the end: the tick after the last
	}
	next := uint64(tick)
	if !exact {
		next++
	}
	return int64(min(next<<l.timeShift(), math.MaxInt64))
}

// checkNode refuses a node number that does not fit the node bits.
func (l Layout) checkNode(node int64) error {
	if node < 0 || node > l.MaxNode() {
		return fmt.Errorf("%w: node %d is not between 0 and %d, the %d node bits of layout %s",
			ErrNodeRange, node, l.MaxNode(), l.NodeBits(), l.label())
	}
	return nil
}
