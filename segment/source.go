package segment

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Source hands out the numbers of a counter. Make one with [New], [Daily] or [Tickets]. It must not be
// copied. Its methods are safe for concurrent use.
type Source struct {
	// current is the block that numbers come from. It is empty for a source of several counters.
	current atomic.Pointer[block]
	supply  supply
	text    func(int64) string
}

// A supply is where numbers come from when the current block has none. Its methods are safe for concurrent
// use.
type supply interface {
	// refill asks for the next block, and does not wait for it.
	refill()
	// fill sets all of ids to new numbers, and waits for them. After an error the content of ids is open.
	fill(ctx context.Context, ids []int64) error
	// refused is told that somebody else has a number that was given out.
	refused(number int64)
	counters() []Origin // without the identities of their stores
	stats() Stats
	close()
}

// Next returns a new number. It is greater than every number that this source returned before the call,
// except for sources of [Tickets], of [Daily] when the date goes back, and of a counter without blocks
// (WithBlock(1, 1)), where calls at the same time may get their numbers in any order.
//
// It returns an error wrapping [ErrCanceled] if the context has ended, also if there are numbers left. If
// none are left it waits for the store, and returns an error wrapping [ErrExhausted], [ErrDayFull],
// [ErrFull], [ErrResidue], [ErrKind], [ErrWentBack] or [ErrClosed].
func (s *Source) Next(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, canceled(ctx)
	}
	b := s.current.Load()
	if n := b.taken.Add(1); n <= b.count {
		if n == b.refill {
			s.supply.refill()
		}
		return b.first + (n-1)*b.step, nil
	}
	one := make([]int64, 1)
	if err := s.supply.fill(ctx, one); err != nil {
		return 0, err
	}
	return one[0], nil
}

// Fill sets every element of ids to a new number, in ascending order except for sources of [Tickets]. If it
// fails, it sets all of them to 0. The errors are those of Next.
func (s *Source) Fill(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		clear(ids)
		return canceled(ctx)
	}
	got := 0
	// An empty block has nothing to reserve. Without this a block that is used up would count further.
	if b := s.current.Load(); b.left() > 0 {
		n, refill := b.fill(ids)
		if got = n; refill {
			s.supply.refill()
		}
	}
	if got == len(ids) {
		return nil
	}
	if err := s.supply.fill(ctx, ids[got:]); err != nil {
		clear(ids)
		return err
	}
	return nil
}

// Refused tells the source that a number which it has given out is in use already. So the counter may have
// gone back, or somebody else gives out the same numbers. The source gives up all numbers of the counter that
// it holds, and the next call claims new ones, which fails with [ErrWentBack] if the counter is not above
// those that were claimed before. The plugin calls it when the database has refused a row because another row
// has the number. A number that the source has not claimed, or has given up already, changes nothing. It asks
// nobody and waits for nothing.
func (s *Source) Refused(number int64) { s.supply.refused(number) }

// Origin says where numbers of a source come from.
type Origin struct {
	Identity // of the store; the ID is empty if it is no [Identifier]

	Store   Store
	Counter string
	// Kind is that of the counter, as in [Terms].
	Kind string
	// Remainder and Modulus are the residue of the numbers.
	Remainder, Modulus int64
}

// Origins returns where the numbers of the source come from: one origin, or several for a source of
// [Tickets]. The plugin notes them for each column that gets the numbers. The error is that of the store.
func (s *Source) Origins(ctx context.Context) ([]Origin, error) {
	all := s.supply.counters()
	for i := range all {
		if identified, ok := all[i].Store.(Identifier); ok {
			var err error
			if all[i].Identity, err = identified.Identity(ctx); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Counters is Origins without the identities of the stores. It asks nobody.
func (s *Source) Counters() []Origin { return s.supply.counters() }

// originOf is the origin of numbers of a counter in a store.
func originOf(s Store, name, kind string, c config) []Origin {
	return []Origin{{Store: s, Counter: name, Kind: kind, Remainder: c.remainder, Modulus: c.modulus}}
}

// String names the counter, for messages. A source of [Tickets] has one of each store.
func (s *Source) String() string { return fmt.Sprintf("counter %q", s.Stats().Name) }

// Text returns the text of a number for fields of kind string. See [WithText]. A source of [Tickets] uses
// the text of its first source.
func (s *Source) Text(number int64) string { return s.text(number) }

// Stats returns what the source has done so far, and how it stands with its store. It asks nobody.
func (s *Source) Stats() Stats { return s.supply.stats() }

// Close ends the source. The numbers that are left are lost, and calls return an error wrapping
// [ErrClosed]. It stops a claim that is under way, and waits up to the maximum wait until it has ended, so
// that the store can be closed afterwards. Close may be called more than once. It returns nil.
func (s *Source) Close() error {
	s.supply.close()
	return nil
}
