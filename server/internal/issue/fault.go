package issue

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Kind says what a client can do about a fault. It is the name that metrics and logs use, which is the one of
// Connect and gRPC.
type Kind string

// The kinds of faults.
const (
	Internal    Kind = "internal"            // a mistake in the service
	Invalid     Kind = "invalid_argument"    // the request is wrong
	Unknown     Kind = "not_found"           // there is no such source
	Unavailable Kind = "unavailable"         // ask again, here or elsewhere
	Exhausted   Kind = "resource_exhausted"  // the source has no number left
	Broken      Kind = "failed_precondition" // somebody has to repair the service
	Canceled    Kind = "canceled"            // the client gave up
	Deadline    Kind = "deadline_exceeded"   // the time was over
	Denied      Kind = "permission_denied"   // the token does not open the source
)

// Fault is an error whose text may be shown to every client: it names no host, no database and no error
// of a driver.
type Fault struct {
	Kind Kind
	Text string
}

// Error returns the text.
func (f *Fault) Error() string { return f.Text }

// explain turns an error of a source into a fault.
func explain(ctx context.Context, err error) *Fault {
	is := func(kinds ...error) bool { return errs.IsAny(err, kinds...) }
	switch {
	case errors.As(err, new(*Fault)):
	case is(generator.ErrSealed, lease.ErrClosed, segment.ErrClosed):
		return &Fault{Unavailable, "this replica is ending; ask another one"}
	case is(generator.ErrTimeExhausted):
		return &Fault{Broken, "the time bits of the layout are used up"}
	case is(generator.ErrBeforeEpoch):
		return &Fault{Broken, "the clock of the replica is before the epoch of the layout"}
	case is(generator.ErrCanceled, segment.ErrCanceled, context.Canceled, context.DeadlineExceeded) &&
		ctx.Err() != nil:
		return Ended(ctx)
	case is(generator.ErrClockBehind):
		return &Fault{Unavailable, "the clock of the replica is behind its last ID, or IDs are asked for " +
			"faster than the layout has them; ask again, or ask another replica"}
	case is(segment.ErrDayFull):
		return &Fault{Exhausted, "the numbers of the day are used up"}
	case is(segment.ErrFull):
		return &Fault{Exhausted, "the counter has come to its last number"}
	case is(segment.ErrWentBack):
		return &Fault{Broken, "the counter has lost numbers that it gave, and gives none until an operator " +
			"raises it; the log of the service says more"}
	case is(segment.ErrResidue, segment.ErrKind, segment.ErrInvalidCounter):
		return &Fault{Broken, "the counter does not fit the configuration; the log of the service says why"}
	case is(segment.ErrExhausted, segment.ErrFrozen, segment.ErrStore):
		return &Fault{Unavailable, "the database of the counter does not answer; ask again"}
	case is(generator.ErrOutsideWindow, lease.ErrStore):
		return &Fault{Unavailable, "the lease of the replica has ended, and its database has not extended it; " +
			"ask again, or ask another replica"}
	}
	return AsFault(err)
}

// Ended is the fault of a request whose context is done.
func Ended(ctx context.Context) *Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Fault{Deadline, "the IDs could not be made in the time that the request had"}
	}
	return &Fault{Canceled, "the request was canceled"}
}
