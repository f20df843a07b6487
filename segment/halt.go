package segment

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The kinds of counters.
const (
	kindSegment = "segment" // of New
	kindDaily   = "daily"   // of a day
	kindClosed  = "closed"  // of the note of the days that are closed
)

// maxKind is how many bytes a kind may have, so that there is room for what halts a counter.
const maxKind = 60

// A halt is what the kind of a counter tells that went back, behind the kind itself. The counter is frozen,
// so that versions which do not know this claim nothing either.
type halt struct {
	remainder, modulus int64 // what it had before
	above              int64 // the greatest number that is known to be claimed
}

// haltMark is between a kind and the halt. No kind has it.
const haltMark = ": went back, "

// String is read by halt of a counter.
func (h halt) String() string {
	return fmt.Sprintf("%s%d mod %d, above %d", haltMark, h.remainder, h.modulus, h.above)
}

// halt returns the kind of a counter alone, and what halts the counter if it went back.
func (c Counter) halt() (kind string, h halt, is bool) {
	kind, text, is := strings.Cut(c.Kind, haltMark)
	if !is {
		return kind, halt{}, false
	}
	if _, err := fmt.Sscanf(text, "%d mod %d, above %d", &h.remainder, &h.modulus, &h.above); err != nil {
		h = halt{modulus: 1, above: maxNumber} // somebody changed it by hand, so nobody knows a number above
	}
	return kind, h, true
}

// WentBack reports whether somebody has found that the counter went back, and the greatest number that is
// known to be claimed. Then every claim is refused with [ErrWentBack], of whatever process, until [Raise] has
// raised the counter above that number.
func (c Counter) WentBack() (above int64, is bool) {
	_, h, is := c.halt()
	return h.above, is
}

// halted returns the counter as it is when somebody knows that it went back, who has claimed numbers up to
// above on those terms. A counter that is not there is made.
func (c Counter) halted(t Terms, above int64) Counter {
	kind, h, is := c.halt()
	switch {
	case !is && c.Next == 0:
		kind, h = t.Kind, halt{remainder: t.Remainder, modulus: t.Modulus}
	case !is:
		h = halt{remainder: c.Remainder, modulus: c.Modulus}
	}
	h.above = max(h.above, above)
	c.Next, c.Remainder, c.Modulus, c.Kind = max(c.Next, 1), 0, 0, kind+h.String()
	return c
}

// released returns the counter as it was before it was halted.
func (c Counter) released() Counter {
	if kind, h, is := c.halt(); is {
		c.Kind, c.Remainder, c.Modulus = kind, h.remainder, h.modulus
	}
	return c
}

// A haltedError is the error of a counter that is halted. The greatest number that is known to be claimed
// tells a source whether it knows a greater one.
type haltedError struct {
	name        string
	next, above int64
}

// Error says what to do.
func (e *haltedError) Error() string {
	return fmt.Sprintf("%v: counter %q would go on with %d, and %d was claimed before: its store has lost "+
		"what it had acknowledged, or somebody lowered or removed the counter. It is frozen for every process "+
		"until it is raised above all numbers in use, and above those that running processes hold: see "+
		"\"snowflake help segments raise\" and its --above, or segment.Raise. The processes then go on by "+
		"themselves",
		ErrWentBack, e.name, e.next, e.above)
}

// Unwrap returns [ErrWentBack].
func (e *haltedError) Unwrap() error { return ErrWentBack }

// halt freezes the counter, which went back, as the refusal of a claim on those terms says. Processes that
// begin later know no number of it, and would get numbers that are in use. If it cannot be frozen, the next
// claim is refused as this one was.
func (l *lane) halt(ctx context.Context, t Terms, refusal error) error {
	var known *haltedError
	ledger, ok := l.store.(Ledger)
	if !ok || errors.As(refusal, &known) && known.above >= l.fetch.highest {
		return refusal
	}
	var after Counter
	err := change(ctx, ledger, l.name, func(c Counter) (Counter, error) {
		after = c.halted(t, l.fetch.highest)
		return after, nil
	})
	switch {
	case errors.Is(err, ErrWentBack):
		return refusal // the store was emptied, and grants nothing to those who knew it
	case err != nil:
		return fmt.Errorf("%w; the counter could not be frozen for the others: %w", refusal, err)
	}
	return Refusal(after, 1, t)
}
