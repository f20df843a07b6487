package generator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// An error here is temporary if a retry may help: no ID was issued, and the cause goes away as time
// passes. An error that wraps a temporary one and one that is not, is not temporary.
var (
	// ErrInvalidLayout is wrapped by [*LayoutError]. Every function that takes a [Layout] returns that
	// for an invalid one, and so does every method of an invalid one. It is not temporary.
	ErrInvalidLayout = errors.New("generator: invalid layout")

	// ErrInvalidOption is returned by [New] for an option that is out of range, and by
	// [Generator.NextOn] for a shard that is. It is not temporary.
	ErrInvalidOption = errs.Lasting("generator: invalid option")

	// ErrNodeRange is returned when a node number, or one of its fields, does not fit its bits. It is
	// not temporary.
	ErrNodeRange = errs.Lasting("generator: node out of range")

	// ErrSequenceRange is returned by [Layout.Compose] when the sequence does not fit its bits. It is
	// not temporary.
	ErrSequenceRange = errors.New("generator: sequence out of range")

	// ErrBeforeEpoch is returned when a time, or the clock, is before the epoch of the layout. It is
	// not temporary: somebody has to correct the clock. Then IDs go on without a restart.
	ErrBeforeEpoch = errs.Lasting("generator: time before the epoch")

	// ErrTimeExhausted is returned when a time, or the clock, no longer fits the time bits of the
	// layout. IDs never wrap around. It is not temporary.
	ErrTimeExhausted = errs.Lasting("generator: time bits used up")

	// ErrInvalidID is returned for an ID that is negative or wider than the layout. It is not
	// temporary.
	ErrInvalidID = errors.New("generator: not an ID of this layout")

	// ErrClockBehind is wrapped by [*ClockError]. It is temporary: the clock catches up.
	ErrClockBehind = errs.Passing("generator: clock too far behind")

	// ErrOutsideWindow is returned when the next tick lies outside the window of the tenure and the
	// tenure could not extend it in time. It wraps the reason that the tenure gave, and is temporary
	// unless that reason is not.
	ErrOutsideWindow = errs.Passing("generator: outside the window of the node")

	// ErrTenureTaken is returned by [New] for a [Lease] that already serves another generator: two
	// generators under one tenure would issue the same IDs. It is not temporary.
	ErrTenureTaken = errs.Lasting("generator: tenure already serves a generator")

	// ErrSealed is returned when an ID is asked for after the generator was sealed, because its
	// lease was closed. For errors.Is it is snowflakeplugin.ErrClosed too. It is not temporary.
	ErrSealed = errs.Closed("generator: sealed")

	// ErrCanceled is returned when the context ended before there was an ID. The context's error and
	// its cause are wrapped as well. It is temporary if the context's error is a deadline.
	ErrCanceled = errors.New("generator: canceled")
)

// LayoutError reports everything that is wrong with a layout. It wraps [ErrInvalidLayout].
type LayoutError struct {
	// Layout is the name of the layout.
	Layout string
	// Faults has one sentence for each fault. It begins with the name of the field.
	Faults []string
}

// Error lists all faults.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("%v %s: %s", ErrInvalidLayout, e.Layout, strings.Join(e.Faults, "; "))
}

// Unwrap returns [ErrInvalidLayout].
func (e *LayoutError) Unwrap() error { return ErrInvalidLayout }

// ClockError reports that the time of the next ID would be further ahead of the wall clock than
// MaxAhead allows, and that the clock would not catch up within MaxWait. It wraps [ErrClockBehind].
type ClockError struct {
	// Next is the time of the tick that the next ID would have.
	Next time.Time
	// Ahead is how far Next is ahead of the wall clock. MaxAhead is how far it may be.
	Ahead, MaxAhead time.Duration
	// Waited is how long this call has waited so far. Wait is how much longer it would have to wait.
	// MaxWait is the limit for both together.
	Waited, Wait, MaxWait time.Duration
	// Since is the time that the clock showed before it was set back. The clock has not reached it
	// again yet. It is zero if the generator has not seen the clock being set back.
	Since time.Time

	start start
}

// start says which boundary, if any, makes a tick begin ahead of the clock, instead of the load.
type start uint8

const (
	startNone   start = iota
	startFence        // the restart fence of a fixed node
	startWindow       // the window of a tenure
)

// Error says what happened, since when, and what to do.
func (e *ClockError) Error() string {
	cause := "IDs are asked for faster than the layout has them"
	remedy := "use a layout with more sequence bits or spread the load over more nodes"
	switch {
	case e.start == startWindow:
		cause = "the window of the node begins at that time"
		remedy = "correct this clock or that of the store"
	case e.start == startFence:
		cause = "a generator with a fixed node begins after the last ID that an earlier one may have issued"
		remedy = "raise MaxWait to at least one tick"
	case !e.Since.IsZero():
		cause = "the wall clock was set back at " + stamp(e.Since)
		remedy = "correct the clock, or wait until it has passed that time"
	}
	return fmt.Sprintf("%v: the time of the next ID would be %s, %v ahead of the wall clock (MaxAhead is "+
		"%v), because %s; the call has waited %v and would have to wait another %v (MaxWait is %v in all): %s",
		ErrClockBehind, stamp(e.Next), e.Ahead, e.MaxAhead, cause, e.Waited, e.Wait, e.MaxWait, remedy)
}

// Unwrap returns [ErrClockBehind].
func (e *ClockError) Unwrap() error { return ErrClockBehind }

// canceled wraps the reason why ctx ended.
func canceled(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrCanceled, errs.Ended(ctx)) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
