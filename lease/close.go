package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Close ends the generator, then gives the number back: it writes the end of the last tick that
// was stamped as the end of the record, so that the next holder can begin right there, and frees
// the number. From its beginning on, whatever needs an ID fails with generator.ErrSealed.
//
// It returns an error wrapping [ErrStore] if the number could not be given back; then it falls
// free by itself at the end of its window, and Close may be called again. After it has succeeded
// once it does nothing. Concurrent calls wait for each other.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	seal := k.seal
	if !k.closed {
		k.closed = true
		close(k.changed)
		k.changed = make(chan struct{})
	}
	k.mu.Unlock()

	// First of all, and whether or not the rest works: no further ID.
	var last time.Time
	if seal != nil {
		last = seal()
	}
	k.stop()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return k.notGivenBack(context.Cause(ctx))
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		return k.notGivenBack(context.Cause(ctx))
	}
	if k.freed {
		return nil
	}
	h := k.holding
	k.publish(generator.Window{Node: h.record.Node})
	if h.record.Version != 0 {
		h.from = later(h.from, last)
		if err := k.giveBack(ctx, h); err != nil {
			return k.notGivenBack(err)
		}
		k.log.Info("lease: node given back", "node", h.record.Node, "until", h.from, "owner", k.owner)
	}
	k.freed = true
	return nil
}

func (k *Keeper) notGivenBack(err error) error {
	return failed(fmt.Sprintf("node %d was not given back, and falls free at the end of its window",
		k.Window().Node), err)
}

// giveBack frees a number. Nothing of it was stamped at or after h.from.
func (k *Keeper) giveBack(ctx context.Context, h holding) error {
	prev := h.record
	var cause error
	for range releases {
		next := prev
		next.Owner = ""
		next.Version++
		next.Until = h.from
		next.UpdatedAt = k.now()
		ok, err := k.store.Swap(ctx, prev, next)
		if ok && err == nil {
			return nil
		}
		cause = errors.Join(cause, err)
		// A swap that was not answered may have come first.
		stored, found, err := k.find(ctx, prev.Node)
		if err != nil {
			return errors.Join(cause, err)
		}
		if !found || !k.wrote(stored) && !same(stored, prev) {
			return nil // it is given back, or somebody else's
		}
		prev = stored
	}
	return errors.Join(cause, errors.New("the record kept changing"))
}

// releases is how often a release is tried: once more than there can be swaps under way.
const releases = 3
