package segment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A lane supplies the numbers of one counter: the current block, and one that was claimed ahead. At most
// one claim is under way at a time.
type lane struct {
	store   Store
	name    string
	config  config
	last    int64 // the greatest number of the counter
	current *atomic.Pointer[block]
	// vet is asked after the first claim, before a number is given out. It may be nil.
	vet func(ctx context.Context) error

	lifetime context.Context // ends with close
	end      context.CancelFunc

	mu     sync.Mutex
	closed bool
	ahead  *block // nil if no other block was claimed
	// spare numbers were taken for a call that failed, on a lane that loses none.
	spare []int64
	// queue has the calls that wait, in the order in which they came, and waiting is how many numbers they
	// still need.
	queue   []*waiter
	waiting int64
	// changed is closed, and replaced, when a claim has ended, well or not.
	changed chan struct{}

	fetch fetch
	count counts
}

// A waiter is a call that waits. The lane's mu guards it.
type waiter struct {
	rest []int64 // what it has not got yet
}

// counts are what Stats tells of the past.
type counts struct {
	retired  int64 // numbers of blocks that were used up
	claims   int64
	failures int64
}

func newLane(s Store, name string, c config, current *atomic.Pointer[block]) *lane {
	l := &lane{store: s, name: name, config: c, last: maxNumber, current: current, changed: make(chan struct{})}
	l.lifetime, l.end = context.WithCancel(context.Background())
	l.fetch.size = c.least
	return l
}

// prefetches tells whether blocks are claimed before they are needed.
func (l *lane) prefetches() bool { return l.config.most > 1 }

// refill claims the next block in the background, if nobody does yet.
func (l *lane) refill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ahead == nil {
		l.begin()
	}
}

// fill sets all of ids to new numbers. While there are none it waits in the queue for the claim that is under
// way.
func (l *lane) fill(ctx context.Context, ids []int64) error {
	l.mu.Lock()
	rest := ids[l.take(ids):] //nolint:contextcheck // a claim outlives the call that it begins for
	if len(rest) == 0 {
		l.mu.Unlock()
		return nil
	}
	w := &waiter{rest}
	l.queue, l.waiting = append(l.queue, w), l.waiting+int64(len(rest))
	began := time.Now()
	limit := time.NewTimer(l.config.maxWait)
	defer limit.Stop()
	waited, expired := false, l.config.maxWait == 0
	for len(w.rest) > 0 {
		err := l.verdict(ctx, waited)
		if err == nil {
			l.begin() //nolint:contextcheck // likewise
			if expired {
				err = l.exhausted(time.Since(began))
			}
		}
		if err != nil {
			l.leave(w)
			l.giveBack(ids[:len(ids)-len(w.rest)])
			l.mu.Unlock()
			return err
		}
		l.hurry()
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-limit.C:
			expired = true // a block may have come in the same moment, so the next round looks once more
		}
		l.mu.Lock()
		waited = true
	}
	l.mu.Unlock()
	return nil
}

// serve gives numbers of a block that no call knows yet to those who wait. Otherwise calls that come at this
// moment would take them, and some would wait for ever. It tells whether the next block should be claimed.
// The caller holds mu.
func (l *lane) serve(b *block) (refill bool) {
	for len(l.queue) > 0 && b.left() > 0 {
		n, now := b.fill(l.queue[0].rest)
		refill = refill || now
		l.served(n)
	}
	return refill
}

// served notes that the first in the queue got n numbers. The caller holds mu.
func (l *lane) served(n int) {
	w := l.queue[0]
	w.rest, l.waiting = w.rest[n:], l.waiting-int64(n)
	if len(w.rest) == 0 {
		l.queue[0] = nil // so that it does not stay in memory
		l.queue = l.queue[1:]
	}
}

// leave takes a call out of the queue. The caller holds mu.
func (l *lane) leave(w *waiter) {
	l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
	l.waiting -= int64(len(w.rest))
}

// take sets the first elements of ids to numbers that are there. The caller holds mu.
func (l *lane) take(ids []int64) (got int) {
	if n := copy(ids, l.spare); n > 0 {
		l.spare = l.spare[n:]
		got = n
	}
	for got < len(ids) {
		b := l.current.Load()
		if b.left() > 0 {
			n, refill := b.fill(ids[got:])
			got += n
			if refill && l.ahead == nil {
				l.begin()
			}
			continue
		}
		if l.ahead == nil {
			break
		}
		l.replace(l.ahead)
		l.ahead = nil
	}
	return got
}

// replace makes b the current block, when the current one is used up. The caller holds mu.
func (l *lane) replace(b *block) {
	l.count.retired += l.current.Load().count
	l.current.Store(b)
}

// giveBack gives numbers to those in the queue, or keeps them for the next call, on a lane that claims
// nothing ahead because its numbers should have no gaps. Elsewhere the numbers that were given out meanwhile
// are greater, so these are lost. The caller holds mu.
func (l *lane) giveBack(ids []int64) {
	if l.prefetches() || l.closed || len(ids) == 0 {
		return
	}
	l.spare = append(l.spare, ids...)
	for len(l.queue) > 0 && len(l.spare) > 0 {
		n := copy(l.queue[0].rest, l.spare)
		l.spare = l.spare[n:]
		l.served(n)
	}
	l.wake()
}

// verdict returns the error of a call that must not wait, or not any longer. The caller holds mu.
func (l *lane) verdict(ctx context.Context, waited bool) error {
	switch {
	case l.closed:
		return fmt.Errorf("%w: the source of counter %q", ErrClosed, l.name)
	case ctx.Err() != nil:
		return canceled(ctx)
	case waited && !l.fetch.running && l.fetch.verdict != nil:
		return l.fetch.verdict
	}
	return nil
}

// exhausted is the error of a call that has waited long enough. The caller holds mu.
func (l *lane) exhausted(waited time.Duration) error {
	err := &ExhaustedError{Name: l.name, Since: l.fetch.failingSince, Waited: waited, Err: l.fetch.failure}
	if err.Since.IsZero() {
		err.Since = l.fetch.attempt // which has not been answered
	}
	return err
}

func (l *lane) close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.end()
		l.count.retired += l.current.Load().used()
		l.current.Store(&block{})
		l.wake()
	}
	running, done := l.fetch.running, l.fetch.done
	l.mu.Unlock()
	if running {
		timer := time.NewTimer(max(l.config.maxWait, defaultMaxWait))
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C: // the store does not look at the context
		}
	}
	return nil
}

// wake tells all who wait to look again. The caller holds mu.
func (l *lane) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}
