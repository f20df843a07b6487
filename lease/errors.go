package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// An error here is temporary if a retry may help: no ID was issued, and the cause goes away as time
// passes. An error that wraps a temporary one and one that is not, is not temporary.
var (
	// ErrNoFreeNode is wrapped by [*NoFreeNodeError], which [Acquire] returns when every number
	// that it may take is held. It is temporary: the error says when the first number falls free.
	ErrNoFreeNode = errors.New("lease: no free node")

	// ErrNodeHeld is wrapped by [*NodeHeldError], which [Acquire] returns when exactly one number is
	// wanted and another tenure keeps extending it. It is temporary: the number falls free when its
	// holder ends.
	ErrNodeHeld = errors.New("lease: node is held")

	// ErrTenureTaken is returned by generator.New for a [Keeper] that already serves another
	// generator. It is [generator.ErrTenureTaken]. It is not temporary.
	ErrTenureTaken = generator.ErrTenureTaken

	// ErrClockSkew is returned when the local clock and that of the store are further apart than
	// [MaxSkew]. Then no number is taken and no window is extended. It is not temporary: somebody has
	// to correct a clock. Then the keeper goes on without a restart.
	ErrClockSkew = errors.New("lease: clocks too far apart")

	// ErrLayoutMismatch is returned when the store's records belong to another layout. It is not
	// temporary.
	ErrLayoutMismatch = errors.New("lease: another layout in the store")

	// ErrInvalidRecord is returned when the store holds something that no keeper wrote, and by
	// [CheckSwap]. It is not temporary: somebody has to correct or remove the record.
	ErrInvalidRecord = errors.New("lease: invalid record")

	// ErrInvalidOption is returned by [Acquire] for an option that is out of range. It is not
	// temporary.
	ErrInvalidOption = errors.New("lease: invalid option")

	// ErrStore is returned when the store failed or did not answer in time. It wraps what the store
	// returned. It is temporary.
	ErrStore = errors.New("lease: store failed")

	// ErrClosed is returned by a [Keeper] after Close, and by a store that was closed. For errors.Is
	// it is snowflakeplugin.ErrClosed too. It is not temporary.
	ErrClosed = errs.Closed("lease: closed")
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

// maxListed is how many holders an error names.
const maxListed = 8

// Error says what to do, too.
func (e *NoFreeNodeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: all of %d to %d are held; the first falls free at %s, in %v, unless it is extended: ",
		ErrNoFreeNode, e.Lo, e.Hi, stamp(e.Free), e.Free.Sub(e.Now).Round(time.Millisecond))
	for i, r := range e.Holders {
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Holders)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d until %s by %s", r.Node, stamp(r.Until), holder(r))
		if distant(r, e.Now) && !Reserved(r, e.Now) {
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
	switch {
	case Reserved(e.Record, e.Now):
		remedy = "the number is kept out of the leases for good: use another number"
	case distant(e.Record, e.Now):
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
	const aheadLimit = 24 * time.Hour // of a generator
	return r.Until.After(now.Add(maxSpan + aheadLimit + MaxSkew))
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
		if r.Layout == fingerprint || bindsNothing(r) {
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
	if len(nodes) > maxListed {
		more = fmt.Sprintf(" and %d more", len(nodes)-maxListed)
		nodes = nodes[:maxListed]
	}
	return fmt.Errorf("%w: this process has %q, but nodes %v%s have %q: all that share a store use one "+
		"layout; to change it, use a new store (another table or prefix), with node numbers or times whose "+
		"IDs cannot be equal to the old ones", ErrLayoutMismatch, fingerprint, nodes, more, other)
}

// stamp prints an instant the one way that messages use.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
