package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Reserve keeps a node number out of the leases for good, for IDs that are made in another way, such as those
// of generator.Backfill. The record of the number gets an owner that names the purpose, and an end that is
// the end of the layout, so no keeper takes the number. Reserving a number again for the same purpose does
// nothing, so an import can be repeated.
//
// Reserve looks at the records again when it has written its own, and takes that back if a process of another
// layout has taken a number meanwhile.
//
// It returns an error wrapping [*NodeHeldError] if a process holds the number, or if it is reserved for
// another purpose; [ErrLayoutMismatch] if the store is for another layout; [generator.ErrNodeRange] or
// [generator.ErrInvalidLayout]; [ErrInvalidOption] for a purpose that is not from 1 to 160 bytes of printable
// text; and [ErrStore]. A number that was leased before can be reserved when its window has ended, but it has
// IDs in the tables already: choose one that was never used.
func Reserve(ctx context.Context, s Store, l generator.Layout, node int64, purpose string) error {
	if _, err := l.Compose(generator.Parts{Time: l.Epoch, Node: node}); err != nil {
		return err
	}
	var c config
	if err := WithOwner(purpose)(&c); err != nil {
		return fmt.Errorf("the purpose of a reserved node: %w", err)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	records, err := s.List(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	if err := layoutError(records, Fingerprint(l)); err != nil {
		return err
	}
	prev := Record{Node: node}
	for _, r := range records {
		if r.Node == node {
			prev = r
		}
	}
	if prev.Owner == reservedOwner+purpose && !prev.Until.Before(l.End()) {
		return nil
	}
	if prev.Until.After(now) {
		return &NodeHeldError{Record: prev, Now: now}
	}
	next := Record{
		Node: node, Owner: reservedOwner + purpose, Until: l.End().UTC(), Version: prev.Version + 1,
		Layout: Fingerprint(l), UpdatedAt: time.Now().UTC().Round(0),
	}
	ok, unanswered := s.Swap(ctx, prev, next)
	if unanswered == nil && !ok {
		return fmt.Errorf("%w: node %d was taken meanwhile: reserve another one", ErrNodeHeld, node)
	}
	// A swap without an answer may have been done. And a process of another layout may have found a store
	// that binds nobody, too: then at least one of them sees the other's record now.
	records, err = s.List(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, errors.Join(unanswered, err))
	}
	if !slices.ContainsFunc(records, func(r Record) bool { return same(r, next) }) && unanswered != nil {
		return fmt.Errorf("%w: %w", ErrStore, unanswered)
	}
	if err := layoutError(records, Fingerprint(l)); err != nil {
		return errors.Join(err, unreserve(ctx, s, prev, next, now))
	}
	return nil
}

// unreserve takes a reservation back that was made a moment ago. now is the store's time.
func unreserve(ctx context.Context, s Store, before, reserved Record, now time.Time) error {
	if !bindsNothing(before) {
		return nil // the record was of that layout before
	}
	next := reserved
	next.Owner, next.Layout, next.Until = "", UnboundLayout, later(before.Until, now)
	next.Version++
	if _, err := s.Swap(ctx, reserved, next); err != nil {
		return fmt.Errorf("%w: node %d keeps a record of the layout that was refused: remove it: %w", ErrStore,
			reserved.Node, err)
	}
	return nil
}
