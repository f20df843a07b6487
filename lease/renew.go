package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// firstPause is the pause after the first failure in a row; it doubles with every other, up to
	// a third of a span.
	firstPause = 100 * time.Millisecond
	// hurry divides the span: attempts that are asked for by Extend lie so far apart at least.
	hurry = 60
)

// start begins to extend the window in the background.
func (k *Keeper) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	k.notifier = newNotifier(k.notify, k.log)
	go func() {
		defer close(k.done)
		defer k.notifier.close()
		k.run(ctx)
	}()
}

// run extends the window until ctx ends.
func (k *Keeper) run(ctx context.Context) {
	timer := time.NewTimer(k.interval())
	defer timer.Stop()
	pause, failed := firstPause, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			select {
			case <-k.wake: // it is served with the rest
			default:
			}
		case <-k.wake:
		}
		began := k.now()
		err := k.attempt(ctx, failed)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			select {
			case <-k.wake: // what was asked for meanwhile is there
			default:
			}
		}
		k.observe(began, err)
		k.report(began, err)

		next := k.interval()
		quiet := min(k.span/hurry, firstPause)
		if err != nil {
			next = k.jitter(pause)
			quiet = min(next, k.jitter(k.hurriedAfter(err)))
			pause = min(2*pause, max(k.span/3, firstPause))
		} else {
			pause = firstPause
		}
		failed = err != nil
		// Those who wait for an extension may ask for it at once, but not all the time.
		if sleep(ctx, quiet) != nil {
			return
		}
		timer.Reset(max(next-quiet, 0))
	}
}

// interval is the time between two extensions: a third of a span, or up to a fifth less, so that
// processes that started together do not stay together.
func (k *Keeper) interval() time.Duration {
	third := k.span / 3
	return third - k.jitter(third/5)
}

// jitter is a random time from half of d to d.
func (k *Keeper) jitter(d time.Duration) time.Duration {
	half := max(int64(d/2), 1)
	return time.Duration(half + k.random(half))
}

// renew is attempt without a limit of its own.
func (k *Keeper) renew(ctx context.Context) error {
	if k.doubt {
		if err := k.settle(ctx); err != nil {
			return err
		}
	}
	if k.record.Version != 0 {
		err := k.extend(ctx)
		if err != nil || k.record.Version != 0 {
			return err
		}
	}
	previous := k.window.Load().Node
	h, err := k.take(ctx)
	if err != nil {
		return err
	}
	k.hold(h)
	k.log.Warn("lease: another node taken", "node", h.record.Node, "until", h.record.Until, "owner", k.owner)
	k.tell(NodeChanged, previous, nil)
	return nil
}

// extend swaps the record for one that ends later. If the number was lost it returns nil and the
// keeper holds none.
func (k *Keeper) extend(ctx context.Context) error {
	if within, ok := k.store.(WithinSwapper); ok {
		done, err := k.extendWithin(ctx, within)
		if done || err != nil {
			return err
		}
	}
	c, err := k.compare(ctx)
	if err != nil {
		return err
	}
	next, grows, err := k.extended(c.late)
	if err != nil || !grows {
		return err
	}
	ok, err := k.store.Swap(ctx, k.record, next)
	if err != nil {
		return k.unanswered(ctx, next, err)
	}
	if !ok {
		return k.progress(ctx, errors.New("it refused the swap, but the record is as it was"))
	}
	k.hold(k.extendedTo(next))
	return nil
}

// extendWithin is extend in one request, for stores that can. It returns false if the clocks or the
// record may be to blame that nothing was extended, which takes a closer look.
func (k *Keeper) extendWithin(ctx context.Context, store WithinSwapper) (done bool, err error) {
	local := k.now()
	next, grows, err := k.extended(later(local, local.Add(k.offset)))
	if err != nil || !grows {
		return false, err
	}
	ok, err := store.SwapWithin(ctx, k.record, next, local.Add(-MaxSkew), local.Add(MaxSkew))
	if err != nil {
		return true, k.unanswered(ctx, next, err)
	}
	if ok {
		k.hold(k.extendedTo(next))
	}
	return ok, nil
}

// extended is the keeper's record with an end a span beyond now. It never ends earlier than
// before; if it does not end later either, because the clock was set back, there is nothing to do.
func (k *Keeper) extended(now time.Time) (next Record, grows bool, err error) {
	until, err := k.bounds.floor(now.Add(k.windowLength()))
	if err != nil {
		return Record{}, false, err
	}
	next = k.record
	next.Version++
	next.Until = later(until, k.record.Until)
	next.UpdatedAt = k.now()
	return next, next.Until.After(k.record.Until), nil
}

// unanswered is for a swap that ended with an error. It counts as not granted until the store
// says otherwise.
func (k *Keeper) unanswered(ctx context.Context, next Record, cause error) error {
	k.doubt = true
	k.sent = append(k.sent, next)
	if len(k.sent) > maxSent {
		k.sent = k.sent[1:]
	}
	return k.progress(ctx, cause)
}

// progress settles what the keeper has after a swap that failed for some cause. It returns nil if
// that is more than before, or nothing.
func (k *Keeper) progress(ctx context.Context, cause error) error {
	node, before := k.record.Node, k.record.Version
	err := k.settle(ctx)
	if err == nil && k.record.Version != before {
		return nil
	}
	return failed(fmt.Sprintf("the window of node %d could not be extended", node), errors.Join(cause, err))
}
