package lease

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// NoFreeNodeError says that every number that may be taken is held, by whom, and when the first
// of them falls free. It wraps [ErrNoFreeNode].
type NoFreeNodeError struct {
	// Lo and Hi are the least and the greatest number that may be taken.
	Lo, Hi int64
	// Holders has the record of each, the one that ends first in front.
	Holders []Record
	// Now is the store's time, Free when the first number falls free if it is not extended.
	Now, Free time.Time
}

// mostListed is how many holders an error names.
const mostListed = 8

// Error says what to do, too.
func (e *NoFreeNodeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: all of %d to %d are held; the first falls free at %s, in %v, unless it is extended: ",
		ErrNoFreeNode, e.Lo, e.Hi, stamp(e.Free), e.Free.Sub(e.Now).Round(time.Millisecond))
	for i, r := range e.Holders {
		if i == mostListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Holders)-mostListed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d until %s by %s", r.Node, stamp(r.Until), holder(r))
		if distant(r, e.Now) {
			b.WriteString(" (no keeper grants that far ahead: a clock was wrong, or the record was altered)")
		}
	}
	b.WriteString("; stop a process that does not need its number, allow more numbers, " +
		"or use a layout with more node bits")
	return b.String()
}

// Unwrap returns [ErrNoFreeNode].
func (e *NoFreeNodeError) Unwrap() error { return ErrNoFreeNode }

// NodeHeldError says that the one number that is wanted is held by another tenure. It wraps
// [ErrNodeHeld].
type NodeHeldError struct {
	// Record is what the store says of the number.
	Record Record
	// Now is the store's time.
	Now time.Time
}

// Error says who holds it and what to do.
func (e *NodeHeldError) Error() string {
	remedy := "two processes want the same number: stop one of them, or give it another number"
	if distant(e.Record, e.Now) {
		remedy = "no keeper grants that far ahead, so a clock was wrong or the record was altered: " +
			"use another number, or see \"snowflake help nodes release\""
	}
	return fmt.Sprintf("%v: node %d until %s, in %v, by %s: %s", ErrNodeHeld, e.Record.Node,
		stamp(e.Record.Until), e.Record.Until.Sub(e.Now).Round(time.Millisecond), holder(e.Record), remedy)
}

// Unwrap returns [ErrNodeHeld].
func (e *NodeHeldError) Unwrap() error { return ErrNodeHeld }

// distant tells whether a record ends further ahead than any keeper grants: a span, the lead of
// its generator, and the skew of its clock.
func distant(r Record, now time.Time) bool {
	const longestAhead = 24 * time.Hour // of a generator
	return r.Until.After(now.Add(longestSpan + longestAhead + MaxSkew))
}

func holder(r Record) string {
	if r.Owner == "" {
		return "nobody (it was given back)"
	}
	return fmt.Sprintf("%q", r.Owner)
}

// layoutError says which layout the store is for.
func layoutError(records []Record, fingerprint string) error {
	var nodes []int64
	other := ""
	for _, r := range records {
		if r.Layout == fingerprint {
			continue
		}
		if other == "" {
			other = r.Layout
		}
		nodes = append(nodes, r.Node)
	}
	if other == "" {
		return nil
	}
	slices.Sort(nodes)
	more := ""
	if len(nodes) > mostListed {
		more = fmt.Sprintf(" and %d more", len(nodes)-mostListed)
		nodes = nodes[:mostListed]
	}
	return fmt.Errorf("%w: this process has %q, but nodes %v%s have %q: all that share a store use one "+
		"layout; to change it, use a new store (another table or prefix), with node numbers or times whose "+
		"IDs cannot be equal to the old ones", ErrLayoutMismatch, fingerprint, nodes, more, other)
}

// stamp prints an instant the one way that messages use.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
