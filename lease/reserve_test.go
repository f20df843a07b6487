package lease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

func TestAReservedNodeIsNeverLeased(t *testing.T) {
	t.Parallel()
	store, layout := leasetest.NewMemory(nil), generator.Default()
	for range 2 { // an import may be repeated
		if err := lease.Reserve(t.Context(), store, layout, 1, "the import of 2019"); err != nil {
			t.Fatal(err)
		}
	}
	keeper, err := lease.Acquire(t.Context(), store, layout, lease.WithNodes(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keeper.Close(context.Background()) })
	if node := keeper.Window().Node; node != 0 {
		t.Errorf("node %d was leased", node)
	}
	if _, err := lease.Acquire(t.Context(), store, layout, lease.WithNodes(0, 1)); !errors.Is(err, lease.ErrNoFreeNode) {
		t.Errorf("a third tenure of two numbers: %v", err)
	}
	if _, err := lease.Acquire(t.Context(), store, layout, lease.WithNodes(1, 1)); !errors.Is(err, lease.ErrNodeHeld) {
		t.Errorf("the reserved number: %v", err)
	}
	for what, err := range map[string]error{
		"a number in use": lease.Reserve(t.Context(), store, layout, 0, "the import of 2019"),
		"another purpose": lease.Reserve(t.Context(), store, layout, 1, "the import of 2020"),
	} {
		if !errors.Is(err, lease.ErrNodeHeld) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := lease.Reserve(t.Context(), store, generator.Game(), 7, "x"); !errors.Is(err, lease.ErrLayoutMismatch) {
		t.Errorf("another layout: %v", err)
	}
	if err := lease.Reserve(t.Context(), store, layout, 5000, "x"); !errors.Is(err, generator.ErrNodeRange) {
		t.Errorf("a node that is too large: %v", err)
	}
	if err := lease.Reserve(t.Context(), store, layout, 5, ""); !errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("no purpose: %v", err)
	}
}

func TestAReservationWithoutAnAnswerIsLookedFor(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	for done, want := range map[bool]error{true: nil, false: lost} {
		store := &answerless{Memory: leasetest.NewMemory(nil), done: done, err: lost}
		err := lease.Reserve(t.Context(), store, generator.Default(), 1, "an import")
		if !errors.Is(err, want) || want != nil && !errors.Is(err, lease.ErrStore) {
			t.Errorf("a swap that was done (%t) and had no answer: %v", done, err)
		}
	}
}

// answerless is a store whose swaps have no answer.
type answerless struct {
	*leasetest.Memory
	done bool
	err  error
}

func (u *answerless) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if u.done {
		if _, err := u.Memory.Swap(ctx, prev, next); err != nil {
			return false, err
		}
	}
	return false, u.err
}
