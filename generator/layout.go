package generator

import (
	"fmt"
	"slices"
	"time"
)

// maxBits is the number of bits of a non-negative int64.
const maxBits = 63

// Field is one named part of the node number, such as a datacenter or a game server.
type Field struct {
	// Name describes what the number counts. It must not be empty and must be unique within a
	// layout.
	Name string
	// Bits is the width of the field, at least 1.
	Bits int
}

// Layout defines how an ID is packed into at most 63 bits: from high to low, the time, the node
// fields and the sequence. The zero Layout is not valid. Start from a preset, or set every field
// and call [Layout.Validate].
//
// A Layout is a value. Its methods do not change it and are safe for concurrent use.
type Layout struct {
	// Name appears in errors and diagrams. It may be empty.
	Name string
	// Epoch is the instant at which tick 0 begins, between the years 1970 and 2200. Its time zone
	// does not matter. If you change the epoch of a table that already has IDs, IDs are repeated or
	// out of order.
	Epoch time.Time
	// Tick is the length of one unit of the time part, at least one microsecond.
	Tick time.Duration
	// TimeBits is the width of the time part, at least 1. It determines when the layout ends.
	TimeBits int
	// Node lists the fields that together form the node number, high to low. Without fields there
	// is exactly one node, with number 0.
	Node []Field
	// SequenceBits is the width of the sequence, at least 1. A tick has 2^SequenceBits IDs.
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

// MaxNode returns the largest node number. It is 0 if the layout has no node fields.
func (l Layout) MaxNode() int64 { return maxOf(l.NodeBits()) }

// MaxSequence returns the largest sequence number of a tick.
func (l Layout) MaxSequence() int64 { return maxOf(l.SequenceBits) }

// End returns the first instant, in UTC, that no longer fits into the time bits. For an invalid
// layout it returns the zero time.
func (l Layout) End() time.Time {
	if l.Validate() != nil {
		return time.Time{}
	}
	end, _ := l.end()
	return end
}

// PackNode joins one value for every node field, high to low, into a node number. It returns an
// error that wraps [ErrNodeRange] if the number of values differs from the number of fields or a
// value does not fit its field, and an error that wraps [ErrInvalidLayout] for an invalid layout.
func (l Layout) PackNode(values ...int64) (int64, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	if len(values) != len(l.Node) {
		return 0, fmt.Errorf("%w: layout %s has %d node fields, but %d values were given",
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

// UnpackNode splits a node number into one value for every node field, high to low. Bits
// above [Layout.NodeBits] are ignored.
func (l Layout) UnpackNode(node int64) []int64 {
	values := make([]int64, len(l.Node))
	for i, f := range slices.Backward(l.Node) {
		values[i] = node & maxOf(f.Bits)
		node >>= clampBits(f.Bits)
	}
	return values
}

// bits returns the width of the whole ID.
func (l Layout) bits() int { return l.TimeBits + l.NodeBits() + l.SequenceBits }

// timeShift returns the position of the lowest time bit.
func (l Layout) timeShift() int { return l.NodeBits() + l.SequenceBits }

// maxTick returns the number of the last tick.
func (l Layout) maxTick() int64 { return maxOf(l.TimeBits) }

// label returns the name for messages.
func (l Layout) label() string {
	if l.Name == "" {
		return "(unnamed)"
	}
	return l.Name
}

// clone returns a copy that does not share the caller's node slice.
func (l Layout) clone() Layout {
	l.Node = slices.Clone(l.Node)
	return l
}

// maxOf returns the largest number with that many bits. It clamps invalid widths, so the accessors
// of a layout that was never validated still return.
func maxOf(bits int) int64 {
	return int64(uint64(1)<<clampBits(bits) - 1)
}

func clampBits(bits int) int { return min(max(bits, 0), maxBits) }
