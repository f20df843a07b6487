package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Keeper holds a node number for one generator: it implements [generator.Lease]. [Acquire] makes
// one. It must not be copied; its methods are safe for concurrent use.
type Keeper struct {
	config

	// Immutable.
	store       Store
	layout      generator.Layout
	fingerprint string
	bounds      boundaries
	wake        chan struct{} // asks the goroutine for an extension now
	stop        context.CancelFunc
	done        chan struct{} // closed when the goroutine has ended
	turn        chan struct{} // held by the Close that is at work

	window   atomic.Pointer[generator.Window]
	grants   atomic.Uint64
	maxAhead atomic.Int64
	waiting  atomic.Int64 // calls of Extend that are under way
	unprobed atomic.Bool  // the store has said that it cannot be probed
	looked   atomic.Bool  // somebody has asked for the window, and may have stamped in it

	// Owned by whoever is at work: Acquire, then the goroutine, then Close.
	holding
	offset time.Duration // the store's clock minus the local one
	owner  string
	sent   []Record       // swaps of the record that were not answered and may yet land
	doubt  bool           // the last swap was one of them
	freed  bool           // the number was given back
	warned map[int64]bool // nodes whose record was complained of
	outage outage
	// slowest is how long the latest attempts that have succeeded took: an upper bound, which falls.
	slowest   time.Duration
	overtaken int   // how many attempts in a row were given up because the store had answered a probe
	ended     error // why the last attempt had to end, if it had to
	// notifier is nil if nobody is told of events. The goroutine sends and closes.
	notifier *notifier

	mu sync.Mutex
	// All below is guarded by mu.
	changed chan struct{} // closed when an attempt is over
	failure error         // of the last attempt; nil if it succeeded
	since   time.Time     // of the first failure in a row
	seal    func() time.Time
	closed  bool
	said    bool // that the number was not given back
}

var _ generator.Lease = (*Keeper)(nil)

func newKeeper(s Store, l generator.Layout, c config) (*Keeper, error) {
	owner, err := ownerOf(c.name, c.now())
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		config:      c,
		store:       s,
		owner:       owner,
		layout:      l,
		fingerprint: Fingerprint(l),
		bounds:      boundariesOf(l),
		wake:        make(chan struct{}, 1),
		done:        make(chan struct{}),
		turn:        make(chan struct{}, 1),
		warned:      make(map[int64]bool),
		changed:     make(chan struct{}),
	}
	k.window.Store(&generator.Window{})
	return k, nil
}

// Window returns the present window. It is empty, with a zero Until, after Close, and after the
// number was lost until the keeper has taken another one.
func (k *Keeper) Window() generator.Window {
	if !k.looked.Load() {
		k.looked.Store(true)
	}
	return *k.window.Load()
}

// Extensions counts how often the window has grown or moved since Acquire.
func (k *Keeper) Extensions() uint64 { return k.grants.Load() - 1 }

// Claim binds the keeper to its generator; generator.New calls it. A Tenure that wraps a keeper must
// pass Claim on, or embed the keeper: otherwise nothing keeps two generators from stamping in one
// window, and Close can neither end them nor free their number before its window ends.
//
// It returns an error wrapping [ErrTenureTaken] if the keeper serves another generator,
// [ErrLayoutMismatch] if the generator's layout is not that of [Acquire], or [ErrClosed].
func (k *Keeper) Claim(c generator.Claim) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch other := Fingerprint(c.Layout); {
	case k.closed:
		return fmt.Errorf("%w: the lease of a node cannot serve a generator any more", ErrClosed)
	case k.seal != nil:
		return fmt.Errorf("%w: node %d: acquire a lease for each generator, or share the generator",
			ErrTenureTaken, k.window.Load().Node)
	case other != k.fingerprint:
		return fmt.Errorf("%w: the node was leased for %q, the generator has %q", ErrLayoutMismatch,
			k.fingerprint, other)
	}
	k.seal = c.Seal
	k.maxAhead.Store(int64(c.MaxAhead))
	return nil
}

// Extend asks for an extension at once and waits until the window has grown or moved. It returns
// an error wrapping [ErrClosed] after Close, and when ctx ends one that says why there was none:
// the last failure, and since when.
func (k *Keeper) Extend(ctx context.Context) error {
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	before := *k.window.Load()
	for {
		k.mu.Lock()
		changed, closed := k.changed, k.closed
		k.mu.Unlock()
		switch {
		case closed:
			return fmt.Errorf("%w: the node was given back", ErrClosed)
		case *k.window.Load() != before:
			return nil
		}
		select {
		case k.wake <- struct{}{}:
		default: // it has been asked already
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return k.overdue(ctx)
		}
	}
}

// overdue says why there is no extension.
func (k *Keeper) overdue(ctx context.Context) error {
	k.mu.Lock()
	failure, since := k.failure, k.since
	k.mu.Unlock()
	if failure == nil {
		return failed("it has not answered yet", ctx.Err())
	}
	return fmt.Errorf("no extension since %s, for %v: %w", stamp(since),
		k.now().Sub(since).Round(time.Millisecond), failure)
}

// hold makes a holding the keeper's own and its window the generator's.
func (k *Keeper) hold(h holding) {
	k.holding, k.doubt = h, false
	k.sent = slices.DeleteFunc(k.sent, func(sent Record) bool {
		return sent.Node != h.record.Node || sent.Version <= h.record.Version // can land no more
	})
	k.publish(generator.Window{Node: h.record.Node, From: h.from, Until: h.record.Until})
}

// drop gives up a number that is not the keeper's any more. The window was granted, and nobody
// else should have any of its ticks; but a record that vanished or changed hands before its time
// says that somebody interfered, and the less is stamped from then on the better.
func (k *Keeper) drop() {
	k.publish(generator.Window{Node: k.record.Node})
	k.holding, k.doubt, k.sent = holding{}, false, nil
}

func (k *Keeper) publish(w generator.Window) {
	if old := k.window.Swap(&w); *old != w && !w.Until.IsZero() {
		k.grants.Add(1)
	}
}

// report ends an attempt and wakes those who wait for it.
func (k *Keeper) report(began time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.failure == nil {
		k.since = began
	}
	k.failure = err
	close(k.changed)
	k.changed = make(chan struct{})
}
