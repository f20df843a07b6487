package generator

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// Parts are the parts of an ID.
type Parts struct {
	// Time is the beginning of the ID's tick, in UTC.
	Time time.Time
	// Node is the node number; [Layout.UnpackNode] splits it into its fields.
	Node int64
	// Sequence is the number of the ID within its tick and node.
	Sequence int64
}

// Compose packs parts into an ID. If Time is inside a tick, the beginning of that tick is used.
// Compose returns an error that wraps [ErrBeforeEpoch] or [ErrTimeExhausted] for a time that the
// layout cannot represent, [ErrNodeRange] or [ErrSequenceRange] for a number that does not fit its
// bits, and [ErrInvalidLayout] for an invalid layout.
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

// Decompose splits an ID into its parts. It returns an error that wraps [ErrInvalidID] if the ID is
// negative or wider than the layout, and [ErrInvalidLayout] for an invalid layout. It accepts every
// other int64, because an ID does not record which layout made it.
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

// Range returns the IDs of the time range [from, to) as a half-open range [lo, hi). It holds every
// ID of this layout whose time, as returned by [Layout.Decompose], is at or after from and before
// to. A time before the epoch counts as the epoch, and a time after the end counts as the end,
// because no ID has such a time. A query for "the rows of yesterday" therefore needs no time
// column:
//
//	lo, hi, err := layout.Range(midnight.AddDate(0, 0, -1), midnight)
//	db.Where("id >= ? AND id < ?", lo, hi)
//
// The time of an ID can be ahead of the wall clock by up to MaxAhead ([WithMaxAhead]). A query for
// "the rows of the last minute" should therefore have no upper bound.
//
// In a layout of 63 bits, the range of the last tick would end at 2^63, which is one more than the
// largest int64. In this case hi is the largest int64, and the ID with that value is not in the
// range.
//
// Range returns an error if to is before from, and an error that wraps [ErrInvalidLayout] for an
// invalid layout.
func (l Layout) Range(from, to time.Time) (lo, hi int64, err error) {
	if err := l.Validate(); err != nil {
		return 0, 0, err
	}
	from, to = from.Round(0), to.Round(0) // compare by the wall clock, even if both have monotonic readings
	if to.Before(from) {
		return 0, 0, fmt.Errorf("generator: range from %s to %s ends before it begins",
			stamp(from), stamp(to))
	}
	return l.firstID(from), l.firstID(to), nil
}

// firstID returns the smallest ID whose time is not before t.
func (l Layout) firstID(t time.Time) int64 {
	if !t.After(l.Epoch) {
		return 0
	}
	tick, exact, err := l.tickOf(t)
	if err != nil {
		tick, exact = l.maxTick(), false // at or after the end: the tick after the last one
	}
	next := uint64(tick)
	if !exact {
		next++
	}
	return int64(min(next<<l.timeShift(), math.MaxInt64))
}

// checkNode returns an error for a node number that does not fit the node bits.
func (l Layout) checkNode(node int64) error {
	if node < 0 || node > l.MaxNode() {
		return fmt.Errorf("%w: node %d is not between 0 and %d, the %d node bits of layout %s",
			ErrNodeRange, node, l.MaxNode(), l.NodeBits(), l.label())
	}
	return nil
}

// Diagram draws the bits of an ID for people. Each part has one line with its highest bit, its bits
// and its value. For an ID that the layout cannot represent, Diagram returns the reason. The text
// is not meant to be parsed and may change between versions.
func (l Layout) Diagram(id int64) string {
	parts, err := l.Decompose(id)
	if err != nil {
		return err.Error() + "\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d  layout %s, %d bits\n", id, l.label(), l.bits())

	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "bit\tpart\tbits\tvalue\n")
	high := l.bits()
	row := func(name string, width int, value int64, note string) {
		fmt.Fprintf(table, "%d\t%s\t%0*b\t%d%s\n", high-1, name, width, value, value, note)
		high -= width
	}
	row("time", l.TimeBits, id>>l.timeShift(), "  "+stamp(parts.Time))
	for i, value := range l.UnpackNode(parts.Node) {
		row(l.Node[i].Name, l.Node[i].Bits, value, "")
	}
	row("sequence", l.SequenceBits, parts.Sequence, "")
	_ = table.Flush() // a strings.Builder cannot fail
	return text.String()
}
