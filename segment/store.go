package segment

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Store keeps named counters. It may live in any system that can add to a number and return it in one
// atomic and durable step. Package segmenttest has the tests that a store must pass. Implementations must
// be safe for concurrent use.
type Store interface {
	// Claim reserves n consecutive numbers of the counter and returns the first. No other call, past or
	// future, in any process, gets one of them, and later claims lie above earlier ones. The reservation
	// is durable when Claim returns. After an error numbers may be lost, but they are never repeated. A
	// counter that does not exist begins at 1. It begins with [CheckClaim] and returns its error.
	Claim(ctx context.Context, name string, n int64) (first int64, err error)
}

// Terms are conditions of a claim. The store checks them in the same atomic step.
type Terms struct {
	// Start is the least number that may be returned. A counter that is below it skips to it.
	Start int64
	// Last is the greatest number that may be claimed.
	Last int64
	// Above is the greatest number that the caller knows to be claimed, or 0. A counter that is not above it
	// has lost numbers, or somebody lowered it.
	Above int64
	// Remainder and Modulus have to be those that the store notes for the counter. The first claim of a
	// counter notes them. A claim without a residue has Modulus 1 and Remainder 0.
	Remainder, Modulus int64
	// Kind is what the counter is for: that of [New] is "segment", and that of [Daily] is "daily". It has to be
	// the kind that the store notes for the counter. The first claim with a kind of a counter that has none
	// notes it. An empty kind is compared with none. A kind has up to 60 bytes of small letters.
	Kind string
}

// AnyTerms are the terms of [Store.Claim]: every number from 1 on, without a residue, of any kind.
func AnyTerms() Terms { return Terms{Start: 1, Last: maxNumber, Above: 0, Remainder: 0, Modulus: 1} }

// maxNumber leaves room for the next number of a counter that was used up.
const maxNumber = math.MaxInt64 - 1

// TermsStore is an optional ability of a [Store]: it checks terms. Without it residues and kinds are not
// noted, and a claim that goes beyond Last, or of a counter that went back, is lost. All stores of this
// module have it.
type TermsStore interface {
	Store

	// ClaimOn is Claim on terms. It returns an error wrapping [ErrResidue] if the store notes another
	// residue, [ErrKind] if it notes another kind, [ErrWentBack] if the counter is not above Above, and
	// [ErrFull] if a number would be greater than Last. It claims nothing and changes nothing then. It begins
	// with [CheckTerms] and returns its error.
	ClaimOn(ctx context.Context, name string, n int64, t Terms) (first int64, err error)
}

// Prober is an optional ability of a [Store]: to tell whether it answers while a claim has had no answer. A
// source whose calls wait uses it to find out that a claim is lost, which was sent while the store was cut
// off. Without it the calls may wait for such a claim for a second longer. All stores of this module have it.
type Prober interface {
	// Probe returns nil when the store has answered a small request that changes nothing. It must not
	// wait for other requests, so a store with one connection opens another one. It returns an error if
	// there is no answer before ctx ends, and one that wraps errors.ErrUnsupported if the store can
	// never tell.
	Probe(ctx context.Context) error
}

// Identity names a store of counters.
type Identity struct {
	// ID is random and without blanks. It is made together with the counters, lies where they lie, and stays as
	// long as they do. Two stores never have the same ID, unless one is a copy of the other.
	ID string
	// Place says in words where the counters are, without secrets. It is for people.
	Place string
}

// Identifier is an optional ability of a [Store]: it has an identity. Then a claim by a handle that knows it
// is refused with [ErrWentBack] when the store was emptied or replaced, and the plugin notes for each column
// with numbers which store they come from, and refuses another store. All stores of this module have it.
type Identifier interface {
	// Identity returns the identity. Concurrent calls, in any number of processes, return the same one.
	Identity(ctx context.Context) (Identity, error)
}

// Counter is what a store knows of one counter.
type Counter struct {
	// Name is the name of the counter.
	Name string
	// Next is the first number that was not claimed yet.
	Next int64
	// Remainder and Modulus are the residue that claims must have. Modulus is 1 for a counter without a
	// residue, and 0 for one that is frozen: every claim is refused with [ErrFrozen] then, or with
	// [ErrWentBack] as WentBack says.
	Remainder, Modulus int64
	// Kind is the kind that claims must have, or empty if no claim has noted one. In a counter that went back
	// it tells that, too, and what its residue is. A store keeps it as it is, in up to 255 bytes.
	Kind string
	// UpdatedAt is when the counter was last changed, by the writer's clock. Nothing is decided by it.
	UpdatedAt time.Time
}

// Ledger is an optional ability of a [Store]: counters can be listed, changed and removed. [Raise]
// and [SetResidues] need it, and so does [Daily] to remove old counters. All stores of this module
// have it.
type Ledger interface {
	Store

	// Counters returns the counters whose names begin with prefix, sorted by name.
	Counters(ctx context.Context, prefix string) ([]Counter, error)

	// Change replaces prev by next if the counter has the values of prev. UpdatedAt is not compared, and
	// the store sets it itself. The counter is created if prev.Next is 0. It returns false if the stored
	// counter is another one. It begins with [CheckChange], which refuses to lower Next. It accepts names that
	// no claim can have, which [Daily] uses.
	Change(ctx context.Context, prev, next Counter) (bool, error)

	// Remove removes the counter if it has the values of prev. A removed counter begins again at 1, so its
	// numbers repeat unless something else makes sure that nobody uses it again.
	Remove(ctx context.Context, prev Counter) (bool, error)

	// Now returns the store's clock: the same one for all processes that use the store.
	Now(ctx context.Context) (time.Time, error)
}

// maxName is how many bytes the name of a counter may have.
const maxName = 180

// CheckName returns an error wrapping [ErrInvalidOption] unless name can be that of a counter: up to 180
// bytes of printable text.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: counter %.40q: a name has from 1 to %d bytes of UTF-8", ErrInvalidOption, name,
			maxName)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: counter %.40q: a name has no control characters", ErrInvalidOption, name)
	}
	return nil
}

// CheckClaim returns an error wrapping [ErrInvalidOption] if no store can claim n numbers of the counter.
func CheckClaim(name string, n int64) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if n < 1 || n > maxNumber {
		return fmt.Errorf("%w: counter %q: a claim of %d numbers", ErrInvalidOption, name, n)
	}
	return nil
}

// CheckTerms is [CheckClaim] for a claim on terms.
func CheckTerms(name string, n int64, t Terms) error {
	if err := CheckClaim(name, n); err != nil {
		return err
	}
	switch {
	case t.Modulus < 1 || t.Remainder < 0 || t.Remainder >= t.Modulus:
		return fmt.Errorf("%w: counter %q: remainder %d of modulus %d", ErrInvalidOption, name, t.Remainder,
			t.Modulus)
	case t.Start < 1 || t.Last > maxNumber:
		return fmt.Errorf("%w: counter %q: numbers from %d to %d, where 1 to %d are possible", ErrInvalidOption,
			name, t.Start, t.Last, int64(maxNumber))
	case t.Above < 0:
		return fmt.Errorf("%w: counter %q: numbers above %d", ErrInvalidOption, name, t.Above)
	case len(t.Kind) > maxKind || strings.Trim(t.Kind, "abcdefghijklmnopqrstuvwxyz") != "":
		return fmt.Errorf("%w: counter %q: the kind %.80q: up to %d small letters", ErrInvalidOption, name,
			t.Kind, maxKind)
	case n > t.Last-t.Start+1:
		return fullError(name, t.Last)
	}
	return nil
}

// CheckChange returns an error wrapping [ErrInvalidOption] if next cannot replace prev.
func CheckChange(prev, next Counter) error {
	if err := CheckName(strings.TrimPrefix(next.Name, closedDays)); err != nil {
		return err
	}
	switch {
	case prev.Next != 0 && prev.Name != next.Name:
		return fmt.Errorf("%w: counter %q cannot replace %q", ErrInvalidOption, next.Name, prev.Name)
	case next.Next < 1 || next.Next < prev.Next:
		return fmt.Errorf("%w: counter %q: the next number cannot fall from %d to %d, because the numbers in "+
			"between may be in use", ErrInvalidOption, next.Name, prev.Next, next.Next)
	case next.Modulus < 0 || next.Remainder < 0 || next.Remainder >= max(next.Modulus, 1):
		return fmt.Errorf("%w: counter %q: remainder %d of modulus %d", ErrInvalidOption, next.Name,
			next.Remainder, next.Modulus)
	}
	return nil
}

// Refusal explains why a store could not claim n numbers of a counter on terms, given what it has stored.
// It returns nil if the counter does not forbid the claim. Stores whose atomic step only says that nothing
// was done read the counter afterwards, and use it. A counter that is not there stands for one whose Next is
// 1 and that has the residue and the kind of the terms.
func Refusal(c Counter, n int64, t Terms) error {
	kind, halt, halted := c.halt()
	switch {
	case t.Kind != "" && kind != "" && kind != t.Kind:
		return fmt.Errorf("%w: counter %q is of the kind %q, and this process wants one of the kind %q: give "+
			"one of the two another name", ErrKind, c.Name, kind, t.Kind)
	case halted:
		return &haltedError{name: c.Name, next: c.Next, highest: halt.highest}
	case c.Modulus == 0:
		return fmt.Errorf("%w: counter %q: somebody is changing its residue; if that was interrupted, run "+
			"segment.SetResidues again (\"snowflake segments residues\"). An earlier version does this to a "+
			"counter that has the name of daily numbers", ErrFrozen, c.Name)
	case c.Modulus != t.Modulus || c.Remainder != t.Remainder:
		return fmt.Errorf("%w: counter %q has numbers %s, and this process wants numbers %s: all processes that "+
			"use the counter need the same residue; to change it, use segment.SetResidues",
			ErrResidue, c.Name, residue(c.Remainder, c.Modulus), residue(t.Remainder, t.Modulus))
	case c.Next <= t.Above:
		return backError(c.Name, c.Next, t.Above)
	case n > t.Last-max(c.Next, t.Start)+1:
		return fullError(c.Name, t.Last)
	}
	return nil
}

func fullError(name string, last int64) error {
	return fmt.Errorf("%w: counter %q: %d is its last number", ErrFull, name, last)
}

func backError(name string, next, highest int64) error {
	return fmt.Errorf("%w: counter %q goes on with %d, and %d was claimed before: its store has lost what it "+
		"had acknowledged, or somebody lowered or removed the counter; raise it above all numbers in use "+
		"(segment.Raise)", ErrWentBack, name, next, highest)
}

// residue describes the numbers with a remainder.
func residue(remainder, modulus int64) string {
	if modulus == 1 {
		return "without a residue"
	}
	return fmt.Sprintf("= %d (mod %d)", remainder, modulus)
}

// The kinds of counters.
const (
	kindSegment = "segment" // of New
	kindDaily   = "daily"   // of a day
	kindClosed  = "closed"  // of the note of the days that are closed
)

// closedDays begins the name of the counter that notes which days are closed: those before its next number.
// No claim can have such a name.
const closedDays = "closed\t"

// maxKind is how many bytes a kind may have, so that there is room for what halts a counter.
const maxKind = 60

// A halt is what the kind of a counter tells that went back, behind the kind itself. The counter is frozen,
// so that versions which do not know this claim nothing either.
type halt struct {
	remainder, modulus int64 // what it had before
	highest            int64 // the greatest number that is known to be claimed
}

// haltMark is between a kind and the halt. No kind has it.
const haltMark = ": went back, "

// String is read by halt of a counter.
func (h halt) String() string {
	return fmt.Sprintf("%s%d mod %d, above %d", haltMark, h.remainder, h.modulus, h.highest)
}

// halt returns the kind of a counter alone, and what halts the counter if it went back.
func (c Counter) halt() (kind string, h halt, is bool) {
	kind, text, is := strings.Cut(c.Kind, haltMark)
	if !is {
		return kind, halt{}, false
	}
	if _, err := fmt.Sscanf(text, "%d mod %d, above %d", &h.remainder, &h.modulus, &h.highest); err != nil {
		h = halt{modulus: 1, highest: maxNumber} // somebody changed it by hand, so nobody knows a number above
	}
	return kind, h, true
}

// WentBack reports whether somebody has found that the counter went back, and the greatest number that is
// known to be claimed. Then every claim is refused with [ErrWentBack], of whatever process, until [Raise] has
// raised the counter above that number.
func (c Counter) WentBack() (highest int64, is bool) {
	_, h, is := c.halt()
	return h.highest, is
}

// halted returns the counter as it is when somebody knows that it went back, who has claimed numbers up to
// the highest on those terms. A counter that is not there is made.
func (c Counter) halted(t Terms, highest int64) Counter {
	kind, h, is := c.halt()
	switch {
	case !is && c.Next == 0:
		kind, h = t.Kind, halt{remainder: t.Remainder, modulus: t.Modulus}
	case !is:
		h = halt{remainder: c.Remainder, modulus: c.Modulus}
	}
	h.highest = max(h.highest, highest)
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
	name          string
	next, highest int64
}

// Error says what to do.
func (e *haltedError) Error() string {
	return fmt.Sprintf("%v: counter %q would go on with %d, and %d was claimed before: its store has lost "+
		"what it had acknowledged, or somebody lowered or removed the counter. It is frozen for every process "+
		"until it is raised above all numbers in use, and above those that running processes hold: see "+
		"\"snowflake help segments raise\" and its --above, or segment.Raise. The processes then go on by "+
		"themselves",
		ErrWentBack, e.name, e.next, e.highest)
}

// Unwrap returns [ErrWentBack].
func (e *haltedError) Unwrap() error { return ErrWentBack }
