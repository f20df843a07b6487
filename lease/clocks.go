package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// clocks is one reading of the store's clock and of the local one.
type clocks struct {
	store       time.Time
	early, late time.Time // the earlier and the later of the two
}

// compare reads both clocks. It returns an error wrapping ErrClockSkew if they are too far apart. The
// local clock is read before and after the store's. If these two readings differ by more than MaxSkew,
// the local clock may have been set in between, and no comparison is possible.
func (k *Keeper) compare(ctx context.Context) (clocks, error) {
	before := k.now()
	store, err := k.store.Now(ctx)
	after := k.now()
	if err != nil {
		return clocks{}, failed("its clock could not be read", err)
	}
	store = store.Round(0).UTC()
	if took := after.Sub(before); took > MaxSkew || took < -MaxSkew {
		return clocks{}, failed("its clock could not be compared", fmt.Errorf("%w: it went from %s to %s",
			errUncompared, stamp(before), stamp(after)))
	}
	k.offset = store.Sub(after)
	if after.Before(before) {
		before, after = after, before // the local clock was set back meanwhile
	}
	if store.Before(before.Add(-MaxSkew)) || store.After(after.Add(MaxSkew)) {
		return clocks{}, skewed(after, store)
	}
	return clocks{store: store, early: earlier(store, before), late: later(store, after)}, nil
}

// errUncompared is the cause when a reading of the store's clock took too long, or the local clock was
// set during it. The next reading may do better.
var errUncompared = fmt.Errorf("the local clock changed by more than %v during the request", MaxSkew)

// comparisons is how often the clocks are read before a number is taken, if they cannot be compared.
const comparisons = 3

// compareAgain is compare, but reads the clocks again if they could not be compared.
func (k *Keeper) compareAgain(ctx context.Context) (c clocks, err error) {
	for range comparisons {
		c, err = k.compare(ctx)
		if !errors.Is(err, errUncompared) || ctx.Err() != nil {
			break
		}
	}
	return c, err
}

// now reads the local clock, without the monotonic reading, which would hide a step of the clock.
func (k *Keeper) now() time.Time { return k.config.now().Round(0).UTC() }

func skewed(local, store time.Time) error {
	direction, by := "behind", store.Sub(local)
	if by < 0 {
		direction, by = "ahead of", local.Sub(store) // not -by, which has no value for the least one
	}
	return fmt.Errorf("%w: the clock of this machine shows %s, %v %s the store's, which shows %s; %v is "+
		"allowed, and no window is granted until then: correct the clock that is wrong", ErrClockSkew,
		stamp(local), by.Round(time.Millisecond), direction, stamp(store), MaxSkew)
}

// failed wraps what the store returned.
func failed(what string, err error) error { return fmt.Errorf("%w: %s: %w", ErrStore, what, err) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
