package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// An error here is temporary if a retry may help: no number was given out, and the cause goes away as time
// passes. An error that wraps a temporary one and one that is not, is not temporary.
var (
	// ErrExhausted is wrapped by [*ExhaustedError], which is returned when both blocks of a source are used
	// up and the store has not answered within the maximum wait. It is temporary: the source keeps trying.
	ErrExhausted = errs.Passing("segment: no numbers left")

	// ErrDayFull is returned by a source of [Daily] when all numbers of the day are given out. It is not
	// temporary for this day, and is over at midnight.
	ErrDayFull = errs.Lasting("segment: the numbers of the day are used up")

	// ErrFull is returned when a counter has come to its last number. It is not temporary.
	ErrFull = errs.Lasting("segment: counter is full")

	// ErrResidue is returned when the store notes another remainder or modulus for the counter than the
	// source has, and by [Tickets] for sources that could give out equal numbers. It is not temporary.
	ErrResidue = errs.Lasting("segment: another residue")

	// ErrKind is returned when the store notes another kind for the counter than the source has: a source of
	// [New] and one of [Daily] have given their counters one name. It is not temporary.
	ErrKind = errs.Lasting("segment: another kind of counter")

	// ErrFrozen is returned while the residue of a counter is being changed. It is temporary.
	ErrFrozen = errs.Passing("segment: counter is frozen")

	// ErrWentBack is returned when a counter is not above the numbers that it gave before: the store has lost
	// what it had acknowledged, or somebody lowered the counter. It is also returned to those who knew a store
	// that was emptied or made anew. Nothing is claimed. The source freezes the counter then, if its store is a
	// [Ledger], and from then on every process gets this error, also one that begins later. It is not
	// temporary: somebody has to raise the counter (see [Raise]), or to do what the error says. Then the
	// sources go on.
	ErrWentBack = errs.Lasting("segment: counter went back")

	// ErrStore is returned when the store failed or did not answer in time. It wraps what the store
	// returned. It is temporary.
	ErrStore = errs.Passing("segment: store failed")

	// ErrInvalidCounter is returned when a store holds something that is no counter, because somebody
	// changed it by hand. It is not temporary.
	ErrInvalidCounter = errs.Lasting("segment: invalid counter")

	// ErrInvalidOption is returned by [New], [Tickets], [Daily] and stores for an argument or option that
	// is out of range. It is not temporary.
	ErrInvalidOption = errs.Lasting("segment: invalid option")

	// ErrCanceled is returned when the context ended before there was a number. The context's error and its
	// cause are wrapped too. It is temporary if the context's error is a deadline.
	ErrCanceled = errors.New("segment: canceled")

	// ErrClosed is returned after Close. For errors.Is it is snowflakeplugin.ErrClosed too. It is not
	// temporary.
	ErrClosed = errs.Closed("segment: closed")
)

// ExhaustedError says which counter has no numbers left, and since when its store has not answered. It
// wraps [ErrExhausted], and the last error of the store.
type ExhaustedError struct {
	// Name is the name of the counter.
	Name string
	// Since is when the first of the claims began that have failed since, by the local clock. It is zero if
	// no claim has failed and the numbers of several calls together were too many for the time.
	Since time.Time
	// Waited is how long the caller waited.
	Waited time.Duration
	// Err is what the store returned last, or nil if it has not answered at all.
	Err error
}

// Error says what to do, too.
func (e *ExhaustedError) Error() string {
	text := fmt.Sprintf("%v: counter %q: no numbers came within %v", ErrExhausted, e.Name,
		e.Waited.Round(time.Millisecond))
	if !e.Since.IsZero() {
		text += fmt.Sprintf("; its store has not answered since %s", e.Since.UTC().Format(time.RFC3339Nano))
	}
	text += "; numbers come back by themselves when the store answers, and a restart does not help"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns [ErrExhausted], and the error of the store.
func (e *ExhaustedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrExhausted}
	}
	return []error{ErrExhausted, e.Err}
}

// canceled is the error for a context that ended before there was a number.
func canceled(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrCanceled, errs.Ended(ctx)) }
