package generator

import (
	"fmt"
	"slices"
	"time"
)

// maxBits is what a non-negative int64 holds.
const maxBits = 63

// Field is one named part of the node number, such as a datacenter or a game server.
type Field struct {
	// Name says what the number counts. It must not be empty and must be unique in a layout.
	Name string
	// Bits is the width of the field, at least 1.
	Bits int
}

// Layout says how an ID is packed: 63 bits or fewer, high to low the time, the node fields and
// the sequence. The zero Layout is not valid; start from a preset, or fill every field and call
// [Layout.Validate].
//
// A Layout is a value. Its methods do not change it and are safe for concurrent use.
type Layout struct {
	// Name appears in errors and drawings. It may be empty.
	Name string
	// Epoch is the instant at which tick 0 begins, between the years 1970 and 2200. Only the
	// instant counts, not its time zone. Moving the epoch of a table that already holds IDs
	// repeats or reorders them.
	Epoch time.Time
	// Tick is the length of one unit of the time part, at least one microsecond.
	Tick time.Duration
	// TimeBits is the width of the time part, at least 1. It decides when the layout ends.
	TimeBits int
	// Node lists the fields that together are the node number, high to low. None means that
	// there is exactly one node, number 0.
	Node []Field
	// SequenceBits is the width of the sequence, at least 1: a tick has 2^SequenceBits IDs.
	SequenceBits int
}

// NodeBits returns the width of the node number, the sum over all node fields.
func (l Layout) NodeBits() int {
	bits := 0
	for _, f := range l.Node {
		bits += f.Bits
	}
	return bits
}

// MaxNode returns the greatest node number. It is 0 when the layout has no node fields.
func (l Layout) MaxNode() int64 { return maxOf(l.NodeBits()) }

// MaxSequence returns the greatest sequence number of a tick.
func (l Layout) MaxSequence() int64 { return maxOf(l.SequenceBits) }

// End returns the first instant, in UTC, that no longer fits into the time bits. An invalid
// layout has no end: the zero time is returned.
func (l Layout) End() time.Time {
	if l.Validate() != nil {
		return time.Time{}
	}
	end, _ := l.end()
	return end
}

// PackNode joins one value for every node field, high to low, into a node number. It returns an
// error wrapping [ErrNodeRange] when the number of values is not the number of fields or a value
// does not fit its field, and one wrapping [ErrInvalidLayout] for an invalid layout.
func (l Layout) PackNode(values ...int64) (int64, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	if len(values) != len(l.Node) {
		return 0, fmt.Errorf("%w: layout %s has %d node fields, %d values were given",
			ErrNodeRange, l.label(), len(l.Node), len(values))
	}
	var node int64
	for i, f := range l.Node {
		if values[i] < 0 || values[i] > maxOf(f.Bits) {
			return 0, fmt.Errorf("%w: %s %d does not fit its %d bits, 0 to %d",
				ErrNodeRange, f.Name, values[i], f.Bits, maxOf(f.Bits))
		}
		node = node<<f.Bits | values[i]
	}
	return node, nil
}

// UnpackNode takes a node number apart into one value for every node field, high to low. Bits
// above [Layout.NodeBits] are ignored.
func (l Layout) UnpackNode(node int64) []int64 {
	values := make([]int64, len(l.Node))
	for i, f := range slices.Backward(l.Node) {
		values[i] = node & maxOf(f.Bits)
		node >>= clampBits(f.Bits)
	}
	return values
}

// bits is the width of the whole ID.
func (l Layout) bits() int { return l.TimeBits + l.NodeBits() + l.SequenceBits }

// timeShift is how far the time part lies above bit 0.
func (l Layout) timeShift() int { return l.NodeBits() + l.SequenceBits }

// maxTick is the number of the last tick.
func (l Layout) maxTick() int64 { return maxOf(l.TimeBits) }

// label is the name for messages.
func (l Layout) label() string {
	if l.Name == "" {
		return "(unnamed)"
	}
	return l.Name
}

// clone makes the layout independent of the caller's node slice.
func (l Layout) clone() Layout {
	l.Node = slices.Clone(l.Node)
	return l
}

// maxOf is the greatest number of that many bits; nonsense widths count as the nearest sane one,
// so that the accessors of a layout that was never validated still return.
func maxOf(bits int) int64 {
	return int64(uint64(1)<<clampBits(bits) - 1)
}

func clampBits(bits int) int { return min(max(bits, 0), maxBits) }
