package generator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrInvalidLayout is wrapped by [*LayoutError], which every function that takes or belongs
	// to an invalid [Layout] returns.
	ErrInvalidLayout = errors.New("generator: invalid layout")

	// ErrInvalidOption is returned by [New] for an option out of its range.
	ErrInvalidOption = errors.New("generator: invalid option")

	// ErrNodeRange is returned when a node number, or one of its fields, does not fit its bits.
	ErrNodeRange = errors.New("generator: node out of range")

	// ErrSequenceRange is returned by [Layout.Compose] when the sequence does not fit its bits.
	ErrSequenceRange = errors.New("generator: sequence out of range")

	// ErrBeforeEpoch is returned when a time, or the clock, is before the epoch of the layout.
	ErrBeforeEpoch = errors.New("generator: time before the epoch")

	// ErrTimeExhausted is returned when a time, or the clock, no longer fits the time bits of
	// the layout. Numbers never wrap around.
	ErrTimeExhausted = errors.New("generator: time bits used up")

	// ErrInvalidID is returned for an ID that is negative or wider than the layout.
	ErrInvalidID = errors.New("generator: not an ID of this layout")

	// ErrClockBehind is wrapped by [*ClockError].
	ErrClockBehind = errors.New("generator: clock too far behind")

	// ErrOutsideWindow is returned when the tick to be stamped lies outside the window of the
	// tenure and the tenure could not extend it; the reason it gave is wrapped as well.
	ErrOutsideWindow = errors.New("generator: outside the window of the node")

	// ErrTenureTaken is returned by [New] for a [Lease] that serves another generator already: two
	// generators under one tenure would stamp the same ticks.
	ErrTenureTaken = errors.New("generator: tenure already serves a generator")

	// ErrSealed is returned when an ID is asked for after the generator was sealed, because its
	// lease was closed.
	ErrSealed = errors.New("generator: sealed")

	// ErrCanceled is returned when the context ended before the IDs were there. The context's
	// error and its cause are wrapped as well.
	ErrCanceled = errors.New("generator: canceled")
)

// LayoutError says everything that is wrong with a layout. It wraps [ErrInvalidLayout].
type LayoutError struct {
	// Layout is the name of the layout.
	Layout string
	// Faults has a sentence for every fault, each beginning with the field that it is about.
	Faults []string
}

// Error lists all faults.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("%v %s: %s", ErrInvalidLayout, e.Layout, strings.Join(e.Faults, "; "))
}

// Unwrap returns [ErrInvalidLayout].
func (e *LayoutError) Unwrap() error { return ErrInvalidLayout }

// ClockError says that the next ID would be stamped further ahead of the wall clock than
// MaxAhead allows, and that waiting for the clock would take longer than MaxWait. It wraps
// [ErrClockBehind].
type ClockError struct {
	// Next is the time of the tick that the next ID would have.
	Next time.Time
	// Ahead is how far Next lies before the wall clock; MaxAhead is how far it may.
	Ahead, MaxAhead time.Duration
	// Waited is how long this call has waited already, Wait how much longer it would have to,
	// MaxWait how long both together may take.
	Waited, Wait, MaxWait time.Duration
	// Since is what the clock showed before it was set back; it has not reached that time again
	// yet. It is zero when the clock was not seen to be set back.
	Since time.Time

	start start
}

// Error says what happened, since when, and what to do.
func (e *ClockError) Error() string {
	cause := "IDs are asked for faster than the layout has them"
	remedy := "use a layout with more sequence bits or spread the load over more nodes"
	switch {
	case e.start == startWindow:
		cause = "the window of the node begins only then"
		remedy = "correct this clock or that of the store"
	case e.start == startFence:
		cause = "a generator begins beyond what an earlier one with its node may have issued"
		remedy = "allow a longer MaxWait, one tick at least"
	case !e.Since.IsZero():
		cause = "the wall clock was set back at " + stamp(e.Since)
		remedy = "correct the clock, or wait until it has passed that time"
	}
	return fmt.Sprintf("%v: the next ID would be stamped %s, %v ahead of the wall clock where %v "+
		"is allowed, because %s; after %v another %v of waiting would be needed where %v in all is "+
		"allowed: %s", ErrClockBehind, stamp(e.Next), e.Ahead, e.MaxAhead, cause, e.Waited, e.Wait,
		e.MaxWait, remedy)
}

// Unwrap returns [ErrClockBehind].
func (e *ClockError) Unwrap() error { return ErrClockBehind }

// canceled wraps what ended ctx: its error, and its cause where that says more.
func canceled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", ErrCanceled, err)
	}
	return fmt.Errorf("%w: %w: %w", ErrCanceled, err, cause)
}
