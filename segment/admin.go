package segment

import (
	"context"
	"errors"
	"fmt"
)

// Raise makes a counter go on from next, or later if it is there already. Use it when numbers of the counter
// are in use that the store does not know of, for example after it was restored from a backup. It creates a
// counter without a residue if there is none. It is what ends that a counter is frozen because it went back.
// Such a counter has to come to be above all numbers that are known to be claimed: see [Counter.WentBack].
// Otherwise Raise changes nothing, and returns an error wrapping [ErrWentBack]. It returns one wrapping
// [ErrInvalidOption] for a next that is not from 1 to 9,223,372,036,854,775,806, or the error of the store.
func Raise(ctx context.Context, s Ledger, name string, next int64) error {
	if next < 1 || next > maxNumber {
		return fmt.Errorf("%w: Raise: counter %q: the next number %d is not from 1 to %d", ErrInvalidOption, name,
			next, int64(maxNumber))
	}
	return change(ctx, s, name, func(c Counter) (Counter, error) {
		if c.Modulus == 0 && c.Next == 0 {
			c.Modulus = 1
		}
		c.Next = max(c.Next, next)
		if claimed, is := c.WentBack(); is && c.Next <= claimed {
			return c, fmt.Errorf("%w: Raise: counter %q: numbers up to %d were claimed, so its next number cannot "+
				"be %d", ErrWentBack, name, claimed, c.Next)
		}
		return c.released(), nil
	})
}

// SetResidues gives the counter of the name in several stores a new modulus, which is the number of stores,
// and the store at index i the remainder i. It is the way from two ticket servers to three: list the old
// stores and the new ones. Stop the programs that use the counter first, or restart them with the new residue
// afterwards: until then they get [ErrFrozen] or [ErrResidue], and what they have claimed stays good.
//
// First it freezes the counter in all stores, so that no number is claimed with the old residue any more.
// Then it raises all of them above every number that was claimed anywhere, and sets the residues. If it is
// interrupted, run it again with the same stores: counters stay frozen until it has succeeded. A counter that
// went back has to be raised first: SetResidues returns an error wrapping [ErrWentBack].
func SetResidues(ctx context.Context, name string, stores ...Ledger) error {
	modulus := int64(len(stores))
	if modulus == 0 || modulus > maxModulus {
		return fmt.Errorf("%w: SetResidues: %d stores", ErrInvalidOption, modulus)
	}
	highest := int64(1)
	for i, s := range stores {
		err := change(ctx, s, name, func(c Counter) (Counter, error) {
			if _, is := c.WentBack(); is {
				return c, Refusal(c, 1, AnyTerms())
			}
			c.Next, c.Remainder, c.Modulus = max(c.Next, 1), 0, 0
			return c, nil
		})
		if err != nil {
			return fmt.Errorf("freezing the counter in store %d: %w", i, err)
		}
	}
	for i, s := range stores {
		c, err := counterOf(ctx, s, name)
		if err != nil {
			return fmt.Errorf("reading the counter in store %d: %w", i, err)
		}
		highest = max(highest, c.Next)
	}
	// All are raised before the first is open again, so that a run that is interrupted finds the same numbers.
	for _, residues := range []bool{false, true} {
		for i, s := range stores {
			err := change(ctx, s, name, func(c Counter) (Counter, error) {
				c.Next = max(c.Next, highest)
				if residues {
					c.Remainder, c.Modulus = int64(i), modulus
				}
				return c, nil
			})
			if err != nil {
				return fmt.Errorf("setting the residue in store %d: %w", i, err)
			}
		}
	}
	return nil
}

// change changes a counter, and tries again if somebody else has changed it meanwhile. It changes nothing if
// edit returns an error, and returns that.
func change(ctx context.Context, s Ledger, name string, edit func(Counter) (Counter, error)) error {
	for {
		prev, err := counterOf(ctx, s, name)
		if err != nil {
			return err
		}
		next, err := edit(prev)
		if err != nil || next == prev {
			return err
		}
		if ok, err := s.Change(ctx, prev, next); ok || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return canceled(ctx)
		}
	}
}

// counterOf returns a counter. Its Next is 0 if there is none.
func counterOf(ctx context.Context, s Ledger, name string) (Counter, error) {
	if s == nil {
		return Counter{}, errors.Join(ErrInvalidOption, errors.New("the store is nil"))
	}
	counters, err := s.Counters(ctx, name)
	if err != nil {
		return Counter{}, err
	}
	for _, c := range counters {
		if c.Name == name {
			return c, nil
		}
	}
	return Counter{Name: name}, nil
}
