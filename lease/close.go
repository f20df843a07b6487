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
// the number. From its beginning on, whatever needs an ID fails with generator.ErrSealed. If no
// generator has claimed the keeper, but somebody has asked for its window, then Close does not know
// what was stamped: it leaves the end of the record where it is.
//
// It waits at most 5 s for the store, less if ctx ends before. It returns an error wrapping [ErrStore]
// if the number could not be given back; then it falls free by itself at the end of its window, which
// the log says once, and Close may be called again. After it has succeeded once it does nothing.
// Concurrent calls wait for each other.
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
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	window := *k.window.Load()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return k.notGivenBack(window.Until, context.Cause(ctx))
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		return k.notGivenBack(window.Until, context.Cause(ctx))
	}
	if k.freed {
		return nil
	}
	h := k.holding
	k.publish(generator.Window{Node: h.record.Node})
	if h.record.Version != 0 {
		until, layout := h.record.Until, k.fingerprint
		if seal != nil || !k.looked.Load() {
			until = later(h.from, last)
			if h.first && last.IsZero() {
				layout = UnboundLayout
			}
		}
		until, err := k.giveBack(ctx, h.record, until, layout)
		if err != nil {
			return k.notGivenBack(k.lastUntil(), err)
		}
		k.log.Info("lease: node given back", "node", h.record.Node, "until", until, "owner", k.owner)
	}
	k.freed = true
	return nil
}

// closeTimeout bounds Close. A program that ends must not wait for a store that does not answer, such
// as a pool whose only connection is in a transaction that nobody will end.
const closeTimeout = 5 * time.Second

// notGivenBack is the error of a Close that failed. It logs once when the number falls free.
func (k *Keeper) notGivenBack(until time.Time, err error) error {
	node := k.window.Load().Node
	k.mu.Lock()
	said := k.said || until.IsZero() // without a window there is nothing to fall free
	k.said = k.said || !said
	k.mu.Unlock()
	if !said {
		k.log.Warn("lease: the node was not given back; it falls free when its window ends", "node", node,
			"until", until, "error", err)
	}
	return failed(fmt.Sprintf("node %d was not given back, and falls free at the end of its window", node), err)
}

// lastUntil is the latest end that the record of the number may have.
func (k *Keeper) lastUntil() time.Time {
	until := k.record.Until
	for _, sent := range k.sent {
		if sent.Node == k.record.Node {
			until = later(until, sent.Until)
		}
	}
	return until
}

// giveBack frees a number. Nothing of it was stamped at or after until, unless that is the end of the
// record: then the end stays where it is, even if a later one is found. The layout is what the record
// binds later holders to. It returns the end that the record has then.
func (k *Keeper) giveBack(
	ctx context.Context, prev Record, until time.Time, layout string,
) (time.Time, error) {
	lowers := until.Before(prev.Until)
	var cause error
	for range releases {
		next := prev
		next.Owner, next.Layout = "", layout
		next.Version++
		if lowers {
			next.Until = until
		}
		next.UpdatedAt = k.now()
		ok, err := k.store.Swap(ctx, prev, next)
		if ok && err == nil {
			return next.Until, nil
		}
		cause = errors.Join(cause, err)
		// A swap that was not answered may have come first.
		stored, found, err := k.find(ctx, prev.Node)
		if err != nil {
			return next.Until, errors.Join(cause, err)
		}
		if !found || !k.wrote(stored) && !same(stored, prev) {
			return next.Until, nil // it is given back, or somebody else's
		}
		prev = stored
	}
	return until, errors.Join(cause, errors.New("the record kept changing"))
}

// releases is how often a release is tried: once more than there can be swaps under way.
const releases = 3
