package lease

import (
	"context"
	"fmt"
	"time"
)

// Store keeps one record for every node number that was ever used. It may live in any system that
// has a linearizable compare-and-swap: what Swap has acknowledged is seen by every later Swap and
// List, and is never lost. Package leasetest has the tests that a store must pass.
//
// A store keeps all fields of a record as they are given to it, times to the nanosecond.
// Implementations must be safe for concurrent use.
type Store interface {
	// Now returns the store's clock: the same one for all processes that use the store.
	Now(ctx context.Context) (time.Time, error)

	// List returns all records, in any order, as they are now, which a replica that lags behind
	// cannot tell. It returns an error wrapping [ErrInvalidRecord], which names the node, if it
	// holds something that is no record, because somebody changed it by hand.
	List(ctx context.Context) ([]Record, error)

	// Swap stores next if the record of that node has the Owner and the Version of prev; if
	// prev.Version is 0, if the node has no record yet. It returns true when next is stored and
	// false when it is not and never will be. After an error it may have been stored, or may be
	// later. It begins with [CheckSwap] and returns its error.
	Swap(ctx context.Context, prev, next Record) (bool, error)
}

// WithinSwapper is an optional ability of a [Store]: to look at its clock and to swap in one
// request, which saves a renewal the request for Now.
type WithinSwapper interface {
	// SwapWithin is Swap, but returns false also when the store's clock is not between earliest
	// and latest, both included, and then stores nothing.
	SwapWithin(ctx context.Context, prev, next Record, earliest, latest time.Time) (bool, error)
}

// Prober is an optional ability of a [Store]: to tell whether it answers while another request has had
// no answer. A keeper whose callers wait uses it to find out that a request is lost, which was sent while
// the store was cut off. Without it the keeper may wait for such a request for a third of a span.
type Prober interface {
	// Probe returns nil when the store has answered a small request that changes nothing. It must not
	// wait for other requests, so a store with one connection opens another one. It returns an error if
	// there is no answer before ctx ends, and one that wraps errors.ErrUnsupported if the store can
	// never tell.
	Probe(ctx context.Context) error
}

// SpanHinter is an optional ability of a [Store]: one that cannot be written to for long in its
// normal operation asks for longer windows than the default. A keeper has them when it is as old as that;
// see [WithSpan].
type SpanHinter interface {
	// SpanHint returns the span to grow up to where the user names none; 0 for the default.
	SpanHint() time.Duration
}

// Identity names a store.
type Identity struct {
	// ID is random and without blanks. It is made together with the store's records, and it stays as long
	// as they exist. Two stores never have the same ID, unless one is a copy of the other.
	ID string
	// Place says in words where the records are, without secrets. It is for people.
	Place string
}

// Identifier is an optional ability of a [Store]: it has an identity. With it the plugin notes in each
// database which store the IDs of its rows come from, and refuses another store. A store without it is
// noted as "external, not identified", so that two such stores are not told apart.
type Identifier interface {
	// Identity returns the identity, which the first call makes. Concurrent calls, in any number of
	// processes, return the same one.
	Identity(ctx context.Context) (Identity, error)
}

// CheckSwap returns an error wrapping [ErrInvalidRecord] if next cannot follow prev: it is no
// valid record, it is about another node, or its version is not the next one. Every
// implementation of [Store] begins its Swap with it.
func CheckSwap(prev, next Record) error {
	if err := next.Validate(); err != nil {
		return err
	}
	if prev.Version != 0 && prev.Node != next.Node {
		return fmt.Errorf("%w: a record of node %d cannot replace one of node %d", ErrInvalidRecord,
			next.Node, prev.Node)
	}
	if prev.Version < 0 || next.Version != prev.Version+1 {
		return fmt.Errorf("%w of node %d: version %d cannot follow version %d", ErrInvalidRecord, next.Node,
			next.Version, prev.Version)
	}
	return nil
}
