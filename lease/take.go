package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// holding is a number that a keeper has, or may have.
type holding struct {
	record Record    // as the store has it, as far as is known; Version 0: none
	from   time.Time // no tick before it is ours
	first  bool      // no ID was made with the number before it was taken
}

// extendedTo is the holding after its record was written anew.
func (h holding) extendedTo(r Record) holding {
	h.record = r
	return h
}

// lostRaces is how many swaps may be lost to others before the store is asked anew what is free.
const lostRaces = 8

// take takes a free number. It changes nothing in the keeper but its doubt.
func (k *Keeper) take(ctx context.Context) (holding, error) {
	for {
		c, err := k.compareAgain(ctx)
		if err != nil {
			return holding{}, err
		}
		records, err := k.list(ctx)
		if err != nil {
			return holding{}, err
		}
		free, held := k.choose(records, c.store)
		k.warnOfDistant(held, c.store)
		if len(free) == 0 {
			return holding{}, k.allHeld(held, c.store)
		}
		for _, prev := range free[:min(len(free), lostRaces)] {
			h, err := k.tryTake(ctx, prev, c)
			if err != nil || h.record.Version != 0 {
				return h, err
			}
		}
		if err := ctx.Err(); err != nil {
			return holding{}, failed("every free number was taken by somebody else", err)
		}
	}
}

// tryTake swaps one record. It returns no holding if somebody else was faster.
func (k *Keeper) tryTake(ctx context.Context, prev Record, c clocks) (holding, error) {
	from, err := k.bounds.ceil(later(prev.Until, c.early))
	if err != nil {
		return holding{}, err
	}
	until, err := k.bounds.floor(c.late.Add(k.windowLength()))
	if err != nil {
		return holding{}, err
	}
	if !until.After(from) {
		return holding{}, fmt.Errorf("%w: node %d: no tick of layout %s is left after %s: a new layout is needed",
			generator.ErrTimeExhausted, prev.Node, k.layout.Name, stamp(from))
	}
	next := Record{
		Node: prev.Node, Owner: k.owner, Until: until, Version: prev.Version + 1,
		Layout: k.fingerprint, UpdatedAt: k.now(),
	}
	h := holding{record: next, from: from, first: bindsNothing(prev)}
	ok, err := k.store.Swap(ctx, prev, next)
	switch {
	case err != nil:
		// Unanswered is not granted, unless the store itself says so.
		stored, found, again := k.find(ctx, next.Node)
		if errors.Is(again, ErrLayoutMismatch) && h.first {
			again = errors.Join(again, k.undo(ctx, h)) // it may have been stored
		}
		if again != nil {
			return holding{}, failed(fmt.Sprintf("node %d could not be taken", next.Node), errors.Join(err, again))
		}
		if !found || !same(stored, next) {
			return holding{}, failed(fmt.Sprintf("node %d could not be taken", next.Node), err)
		}
		return h.extendedTo(stored), nil
	case !ok:
		return holding{}, nil
	}
	if !h.first {
		return h, nil
	}
	// Two processes of different layouts may both have found nothing that binds them. Then at least
	// one of them sees the other's record now.
	if _, err := k.list(ctx); err != nil {
		return holding{}, errors.Join(err, k.undo(ctx, h))
	}
	return h, nil
}

// undo gives a number back that was taken a moment ago, so nothing was stamped with it.
func (k *Keeper) undo(ctx context.Context, h holding) error {
	layout := k.fingerprint
	if h.first {
		layout = UnboundLayout
	}
	_, err := k.giveBack(ctx, h.record, h.from, layout)
	return err
}

// windowLength is how far a window ends after the present.
func (k *Keeper) windowLength() time.Duration { return k.span + time.Duration(k.maxAhead.Load()) }

// list returns the records, all of which must be those of keepers of this layout.
func (k *Keeper) list(ctx context.Context) ([]Record, error) {
	records, err := k.store.List(ctx)
	if err != nil {
		return nil, failed("its records could not be read", err)
	}
	seen := make(map[int64]bool, len(records))
	for i := range records {
		r := &records[i]
		r.Until = r.Until.Round(0).UTC()
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("%w: correct the record or remove it when no process uses the number", err)
		}
		if seen[r.Node] {
			return nil, fmt.Errorf("%w: node %d has two records: remove the one of the lesser version",
				ErrInvalidRecord, r.Node)
		}
		seen[r.Node] = true
	}
	if err := layoutError(records, k.fingerprint); err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.Node > k.layout.MaxNode() && !bindsNothing(r) {
			return nil, fmt.Errorf("%w: node %d, where %d is the greatest of this layout: remove the record",
				ErrInvalidRecord, r.Node, k.layout.MaxNode())
		}
	}
	return records, nil
}

// find returns the record of a node.
func (k *Keeper) find(ctx context.Context, node int64) (Record, bool, error) {
	records, err := k.list(ctx)
	if err != nil {
		return Record{}, false, err
	}
	for _, r := range records {
		if r.Node == node {
			return r, true, nil
		}
	}
	return Record{}, false, nil
}

// allHeld is the error when no number is free.
func (k *Keeper) allHeld(held []Record, now time.Time) error {
	if k.lo == k.hi {
		return &NodeHeldError{Record: held[0], Now: now}
	}
	return &NoFreeNodeError{Lo: k.lo, Hi: k.hi, Holders: held, Now: now, Free: held[0].Until}
}

// warnOfDistant says once which records end so far ahead that something must be wrong.
func (k *Keeper) warnOfDistant(held []Record, now time.Time) {
	for _, r := range held {
		if distant(r, now) && !Reserved(r, now) && !k.warned[r.Node] {
			k.warned[r.Node] = true
			k.log.Warn("lease: a node is taken for longer than any keeper grants; a clock was wrong or the "+
				"record was altered; see \"snowflake help nodes release\"", "node", r.Node, "until", r.Until,
				"owner", r.Owner)
		}
	}
}
