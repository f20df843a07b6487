package issue

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Kind says what a client can do about a fault.
type Kind int

// The kinds of faults.
const (
	Internal    Kind = iota // a mistake in the service
	Invalid                 // the request is wrong
	Unknown                 // there is no such source
	Unavailable             // ask again, here or elsewhere
	Exhausted               // the source has no number left
	Broken                  // somebody has to repair the service
	Canceled                // the client gave up
	Deadline                // the time was over
	Denied                  // the token does not open the source
)

// String returns the name that metrics and logs use. It is the one of Connect and gRPC.
func (k Kind) String() string {
	switch k {
	case Invalid:
		return "invalid_argument"
	case Unknown:
		return "not_found"
	case Unavailable:
		return "unavailable"
	case Exhausted:
		return "resource_exhausted"
	case Broken:
		return "failed_precondition"
	case Canceled:
		return "canceled"
	case Deadline:
		return "deadline_exceeded"
	case Denied:
		return "permission_denied"
	case Internal:
	}
	return "internal"
}

// Fault is an error whose text may be shown to every client: it names no host, no database and no error
// of a driver.
type Fault struct {
	Kind Kind
	Text string
}

// Error returns the text.
func (f *Fault) Error() string { return f.Text }

// A Classifier is an error of a source that knows its kind and a text for clients.
type Classifier interface {
	error
	Fault() *Fault
}

// explain turns an error of a source into a fault.
func explain(ctx context.Context, err error) *Fault {
	var own *Fault
	var known Classifier
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &known):
		return known.Fault()
	case is(generator.ErrSealed, lease.ErrClosed):
		return &Fault{Unavailable, "this replica is ending; ask another one"}
	case is(generator.ErrTimeExhausted):
		return &Fault{Broken, "the time bits of the layout are used up"}
	case is(generator.ErrBeforeEpoch):
		return &Fault{Broken, "the clock of the replica is before the epoch of the layout"}
	case is(generator.ErrCanceled, context.Canceled, context.DeadlineExceeded) && ctx.Err() != nil:
		return Ended(ctx)
	case is(generator.ErrClockBehind):
		return &Fault{Unavailable, "the clock of the replica is behind its last ID, or IDs are asked for " +
			"faster than the layout has them; ask again, or ask another replica"}
	case is(segment.ErrCanceled) && ctx.Err() != nil:
		return Ended(ctx)
	case is(segment.ErrClosed):
		return &Fault{Unavailable, "this replica is ending; ask another one"}
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
