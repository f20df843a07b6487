package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Acquire takes a free node number from the store, for the layout, and keeps it: until
// [Keeper.Close] a goroutine extends its window. It waits only for the store, and, where exactly
// one number is wanted, for the end of a window that still runs: at most a span.
//
// It returns an error wrapping [ErrInvalidOption] or generator.ErrInvalidLayout, [ErrStore] when
// the store fails or ctx ends, [ErrClockSkew], [ErrLayoutMismatch], [ErrInvalidRecord],
// [*NoFreeNodeError] when all numbers are held, [*NodeHeldError] when the one that is wanted is,
// and generator.ErrBeforeEpoch or generator.ErrTimeExhausted when the clocks are before the layout
// began or after it ended.
func Acquire(ctx context.Context, s Store, l generator.Layout, opts ...Option) (*Keeper, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	l.Node = slices.Clone(l.Node) // the keeper outlives what the caller does with it
	c, err := configure(s, l, opts)
	if err != nil {
		return nil, err
	}
	k, err := newKeeper(s, l, c)
	if err != nil {
		return nil, err
	}
	h, err := k.takeWhenFree(ctx)
	if err != nil {
		return nil, err
	}
	k.hold(h)
	k.log.Info("lease: node taken", "node", h.record.Node, "until", h.record.Until, "owner", k.owner)
	k.start() //nolint:contextcheck // the keeper outlives the call
	return k, nil
}

// takeWhenFree is take, but waits for a number that is about to fall free: for the last window of
// a single one, and for one that was given back a moment ago.
func (k *Keeper) takeWhenFree(ctx context.Context) (holding, error) {
	var first *NodeHeldError
	for {
		limited, cancel := context.WithTimeout(ctx, acquireTimeout)
		began := time.Now()
		h, err := k.take(limited)
		cancel()
		k.slowest = time.Since(began)
		var held *NodeHeldError
		var none *NoFreeNodeError
		var left time.Duration
		switch {
		case errors.As(err, &held):
			left, err = k.lastWindow(first, held)
			first = held
		case errors.As(err, &none):
			left = none.Free.Sub(none.Now)
			if none.Holders[0].Owner == "" && left <= ticks(k.layout, usualAhead) {
				err = nil
			}
		default:
			return h, err
		}
		if err != nil {
			return holding{}, err
		}
		if err := sleep(ctx, min(left, lookAgain)); err != nil {
			return holding{}, failed("no number fell free in time", err)
		}
	}
}

// lastWindow returns how long the last window of the one number that is wanted still runs, or
// the error that it is not the last one. What was seen of it first may be nil.
func (k *Keeper) lastWindow(first, held *NodeHeldError) (time.Duration, error) {
	left := held.Record.Until.Sub(held.Now)
	switch {
	case first == nil && left > k.span+ticks(k.layout, usualAhead)+MaxSkew:
		return 0, held
	case first == nil:
		k.log.Info("lease: waiting for the last window of the node to end",
			"node", held.Record.Node, "until", held.Record.Until, "owner", held.Record.Owner)
	case held.Record.Until.After(first.Record.Until):
		return 0, held // somebody extends it, or was faster
	}
	return left, nil
}

const (
	// acquireTimeout bounds one try to take a number, so that a store which does not answer is
	// an error, not a program that does not start.
	acquireTimeout = 30 * time.Second
	// usualAhead is how many ticks ahead of its clock a generator may stamp by default, so by how
	// much longer than a span its window may be.
	usualAhead = 10
	// lookAgain is how often a number that is waited for is looked at.
	lookAgain = time.Second
)

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
