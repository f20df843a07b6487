package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
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
	stop        context.CancelFunc
	done        chan struct{} // closed when the goroutine has ended
	closing     chan struct{} // held by the Close that is at work

	window   atomic.Pointer[generator.Window]
	grants   atomic.Uint64
	maxAhead atomic.Int64
	waiting  atomic.Int64 // calls of Extend that are under way
	asked    atomic.Bool  // somebody has asked for the window, and may have stamped in it

	// contested is what Contest has said last, until the goroutine has seen it.
	contested atomic.Pointer[contest]

	// Owned by whoever is at work: Acquire, then the goroutine, then Close.
	holding
	offset time.Duration // the store's clock minus the local one
	owner  string
	sent   []Record       // swaps of the record that were not answered and may yet land
	doubt  bool           // the last swap was one of them
	freed  bool           // the number was given back
	stuck  time.Time      // since when the record could be read, and not written; zero if that is not so
	warned map[int64]bool // nodes whose record was complained of
	outage outage
	// attempts extend the window, or take another number if the keeper's was lost.
	attempts *attempt.Attempts
	yielded  time.Time // when another number was last asked for in place of one that nobody had taken
	// notifier is nil if nobody is told of events. The goroutine sends and closes.
	notifier *notifier
	born     time.Time // immutable

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
	k := newKeeper(s, l, c)
	h, err := k.takeWhenFree(ctx)
	if err != nil {
		return nil, err
	}
	k.hold(h)
	k.log.Info("lease: node taken", "node", h.record.Node, "until", h.record.Until, "owner", k.owner)
	k.start() //nolint:contextcheck // the keeper outlives the call
	return k, nil
}

func newKeeper(s Store, l generator.Layout, c config) *Keeper {
	k := &Keeper{
		config:      c,
		store:       s,
		owner:       ownerOf(c.name, c.now()),
		layout:      l,
		fingerprint: Fingerprint(l),
		bounds:      boundaries{layout: l, end: l.End()},
		done:        make(chan struct{}),
		closing:     make(chan struct{}, 1),
		born:        time.Now(),
		warned:      make(map[int64]bool),
		changed:     make(chan struct{}),
	}
	k.window.Store(&generator.Window{})
	limits := attempt.Limits{Patience: k.patience(), LastPause: c.span / 3, Longer: k.longer}
	k.attempts = attempt.New(s, limits, func() bool { return k.waiting.Load() > 0 }, c.random)
	return k
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

// takeWhenFree is take, but waits for a number that is about to fall free: for the last window of
// a single one, and for one that was given back a moment ago.
func (k *Keeper) takeWhenFree(ctx context.Context) (holding, error) {
	var first *NodeHeldError
	for {
		limited, cancel := context.WithTimeout(ctx, acquireTimeout)
		began := time.Now()
		h, err := k.take(limited)
		cancel()
		k.attempts.Answered(time.Since(began))
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
		if err := attempt.Sleep(ctx, min(left, lookAgain)); err != nil {
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

// holding is a number that a keeper has, or may have.
type holding struct {
	record Record    // as the store has it, as far as is known; Version 0: none
	begin  time.Time // no tick before it is ours
	first  bool      // no ID was made with the number before it was taken
}

// extendedTo is the holding after its record was written anew.
func (h holding) extendedTo(r Record) holding {
	h.record = r
	return h
}

const (
	// lostRaces is how many swaps may be lost to others before the store is asked anew what is free.
	lostRaces = 8
	// firstRacePause is the first pause before that. It doubles up to a third of a span, because a store may
	// refuse every swap: it has lost its records, say.
	firstRacePause = 50 * time.Millisecond
)

// take takes a free number. It changes nothing in the keeper but its doubt.
func (k *Keeper) take(ctx context.Context) (holding, error) {
	for pause := firstRacePause; ; pause = min(2*pause, k.span/3) {
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
		if err := attempt.Sleep(ctx, pause); err != nil {
			return holding{}, failed("every free number was taken by somebody else", err)
		}
	}
}

// tryTake swaps one record. It returns no holding if somebody else was faster.
func (k *Keeper) tryTake(ctx context.Context, prev Record, c clocks) (holding, error) {
	begin, err := k.bounds.ceil(later(prev.Until, c.early))
	if err != nil {
		return holding{}, err
	}
	until, err := k.bounds.floor(c.late.Add(k.windowLength()))
	if err != nil {
		return holding{}, err
	}
	if !until.After(begin) {
		return holding{}, fmt.Errorf("%w: node %d: no tick of layout %s is left after %s: a new layout is needed",
			generator.ErrTimeExhausted, prev.Node, k.layout.Name, stamp(begin))
	}
	next := Record{
		Node: prev.Node, Owner: k.owner, Until: until, Version: prev.Version + 1,
		Layout: k.fingerprint, UpdatedAt: k.now(),
	}
	h := holding{record: next, begin: begin, first: bindsNothing(prev)}
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
	_, err := k.giveBack(ctx, h.record, h.begin, layout)
	return err
}

// spanNow is the span of a window that is granted now. Where the store asks for longer windows than the
// default it grows with the age of the keeper. A process that has just begun may end at once, and then
// another one has to wait for the end of its window; one that has lived for long needs a window that
// outlasts the transactions which keep it from being extended.
func (k *Keeper) spanNow() time.Duration { return max(k.span, min(time.Since(k.born), k.grown)) }

// windowLength is how far a window ends after the present.
func (k *Keeper) windowLength() time.Duration { return k.spanNow() + time.Duration(k.maxAhead.Load()) }

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
	offset := store.Sub(after)
	if after.Before(before) {
		before, after = after, before // the local clock was set back meanwhile
	}
	if store.Before(before.Add(-MaxSkew)) || store.After(after.Add(MaxSkew)) {
		return clocks{}, skewed(after, store)
	}
	k.offset = offset // not that of a wrong clock: a window would end by it, once the clock is right
	return clocks{store: store, early: earlier(store, before), late: later(store, after)}, nil
}

// now reads the local clock, without the monotonic reading, which would hide a step of the clock.
func (k *Keeper) now() time.Time { return k.config.now().Round(0).UTC() }

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

func (k *Keeper) find(ctx context.Context, node int64) (Record, bool, error) {
	records, err := k.list(ctx)
	i := slices.IndexFunc(records, func(r Record) bool { return r.Node == node })
	if err != nil || i < 0 {
		return Record{}, false, err
	}
	return records[i], true, nil
}

// allHeld is the error when no number is free.
func (k *Keeper) allHeld(held []Record, now time.Time) error {
	if k.lo == k.hi {
		return &NodeHeldError{Record: held[0], Now: now}
	}
	err := &NoFreeNodeError{Lo: k.lo, Hi: k.hi, Holders: held, Now: now, Free: held[0].Until}
	for _, r := range held {
		if seemsEnded(r.Owner) {
			err.ended = append(err.ended, r.Node)
		}
	}
	return err
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

// hold makes a holding the keeper's own and its window the generator's.
func (k *Keeper) hold(h holding) {
	k.holding, k.doubt = h, false
	k.sent = slices.DeleteFunc(k.sent, func(sent Record) bool {
		return sent.Node != h.record.Node || sent.Version <= h.record.Version // can land no more
	})
	k.publish(generator.Window{Node: h.record.Node, From: h.begin, Until: h.record.Until})
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

// Window returns the present window. It is empty, with a zero Until, after Close, and after the
// number was lost until the keeper has taken another one.
func (k *Keeper) Window() generator.Window {
	if !k.asked.Load() {
		k.asked.Store(true)
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
		k.attempts.Hurry()
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

// Contest says that somebody else makes IDs with a node number, because a database has refused one that was
// made with it, and why that is certain. The keeper then takes another number, if it still has this one, if
// more than one may be taken and one is free, and if it has not done so for a span. It goes on with its
// number until it has another, so there is no time without IDs. The number that it leaves falls free at the
// end of its window. Contest returns at once.
func (k *Keeper) Contest(node int64, cause error) {
	k.contested.Store(&contest{node, cause})
	k.attempts.Hurry()
}

// contest is a number that somebody else has as well.
type contest struct {
	node  int64
	cause error
}

// Status is a snapshot of a keeper. See [Keeper.Status].
type Status struct {
	// Window is the present window with its node. Its Until is zero if the keeper has none, because
	// the node was lost or the keeper is closed.
	Window generator.Window
	// Owner is the name under which the store knows the keeper.
	Owner string
	// Overdue says that the window has ended by the local clock, so no ID can be made.
	Overdue bool
	// Closed says that Close was called.
	Closed bool
	// Failure is the error of the last attempt to extend the window, nil if that succeeded.
	Failure error
	// FailingSince is when the first of the failures in a row began, zero if the last attempt
	// succeeded.
	FailingSince time.Time
}

// Status returns how the keeper is. It does not ask the store.
func (k *Keeper) Status() Status {
	s := Status{Window: *k.window.Load()}
	s.Overdue = !s.Window.Until.IsZero() && !k.now().Before(s.Window.Until)
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Owner, s.Closed, s.Failure = k.owner, k.closed, k.failure
	if s.Failure != nil {
		s.FailingSince = k.since
	}
	return s
}

const (
	// Attempts that are asked for by Extend lie at least quietPause apart, or quietShare of the span if that is
	// shorter.
	quietPause = 100 * time.Millisecond
	quietShare = 60
	// minPatience and maxPatience bound how long one attempt may take, otherwise a third of a span.
	minPatience = time.Second
	maxPatience = 10 * time.Second
	// While callers wait, one in longShare attempts after a failure may take several times as long as the
	// others, and one in patientShare has all the patience. They are chosen at random, because many processes
	// must not wait for a store at the same time that was silent and is back.
	longShare    = 16
	patientShare = 64
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
	long, short := k.interval(), time.Duration(0)
	for k.attempts.Rest(ctx, long, short) == nil {
		began := k.now()
		err := k.attempts.Do(ctx, k.renew)
		if ctx.Err() != nil {
			return
		}
		err = k.young(err)
		k.observe(began, err)
		k.report(began, err)
		long, short = k.interval(), min(k.span/quietShare, quietPause)
		if err != nil {
			long, short = k.attempts.Pauses()
			if !errors.Is(err, ErrStore) || permanent(err) {
				// Somebody has to act, or another holder to end, so there is less of a hurry.
				short = min(long, k.attempts.Spread(lookAgain))
			}
		}
	}
}

// young adds what to do to the error of a store that a transaction may keep from being written to, while
// the windows are shorter than the store asks for.
func (k *Keeper) young(err error) error {
	if !errors.Is(err, ErrStore) || permanent(err) || k.spanNow() >= k.grown {
		return err
	}
	return fmt.Errorf("%w: here the windows of a process last from %v at first up to %v, as it grows older; "+
		"if it begins with a transaction that writes for longer, set their span (lease.WithSpan)",
		err, k.span, k.grown)
}

// interval is the time between two extensions: a third of a span, or up to a fifth less, so that
// processes that started together do not stay together.
func (k *Keeper) interval() time.Duration {
	third := k.spanNow() / 3
	return third - k.attempts.Spread(third/5)
}

// patience is how long an attempt may take.
func (k *Keeper) patience() time.Duration { return min(max(k.span/3, minPatience), maxPatience) }

// longer is how long an attempt after a failure may take that callers wait for and that is not probed.
func (k *Keeper) longer(_ int, hurried time.Duration) time.Duration {
	switch {
	case k.random(patientShare) == 0:
		return k.patience()
	case k.random(longShare) == 0:
		return attempt.Factor * hurried
	}
	return hurried
}

// outage is what was said of failures in a row, each thing once.
type outage struct {
	since  time.Time
	warned bool // that extensions fail
	ended  bool // that the window has ended
}

// observe logs how attempts go. A failure that the next attempt makes up for is not worth a line.
func (k *Keeper) observe(began time.Time, err error) {
	o := &k.outage
	if err == nil {
		k.stuck = time.Time{}
		if o.warned || o.ended {
			k.log.Info("lease: the window is extended again", "node", k.record.Node,
				"until", k.record.Until, "failing_since", o.since)
		}
		if o.ended {
			k.tell(NodeBack, k.record.Node, nil)
		}
		*o = outage{}
		return
	}
	if o.since.IsZero() {
		o.since = began
	}
	window := k.window.Load()
	left := window.Until.Sub(k.now())
	switch {
	case left <= 0 && !o.ended:
		o.warned, o.ended = true, true
		until := slog.Time("until", window.Until)
		if window.Until.IsZero() { // The node was lost. Stores of logs refuse a line whose time is another thing.
			until = slog.Attr{}
		}
		k.log.Error("lease: no IDs until the store grants a window; a restart does not help", "node", window.Node,
			until, "failing_since", o.since, "error", err)
		k.notifier.send(Event{
			Kind: NodeOverdue, Node: window.Node, Previous: window.Node, Until: window.Until,
			Err: err, Time: k.now(),
		})
	case !o.warned && (left < k.spanNow()/2 || permanent(err)):
		o.warned = true
		k.log.Warn("lease: the window cannot be extended; IDs go on until it ends", "node", window.Node,
			"until", window.Until, "failing_since", o.since, "error", err)
	}
}

// permanent tells whether somebody has to do something about err.
func permanent(err error) bool {
	return errs.IsAny(err, ErrClockSkew, ErrLayoutMismatch, ErrInvalidRecord, errs.ErrAuthority)
}

// tell sends an event about the number that the keeper has, or has lost.
func (k *Keeper) tell(kind EventKind, previous int64, err error) {
	k.notifier.send(Event{
		Kind: kind, Node: k.record.Node, Previous: previous, Until: k.record.Until, Err: err, Time: k.now(),
	})
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

// renew extends the window, or takes another number if the keeper's was lost. The attempt before may have
// failed.
func (k *Keeper) renew(ctx context.Context) error {
	if k.doubt {
		before := k.record
		if err := k.reread(ctx); err != nil {
			k.stuck = time.Time{}
			return err
		}
		if same(k.record, before) && k.leave(ctx) {
			return nil
		}
	}
	if k.record.Version != 0 {
		if k.yield(ctx) {
			return nil
		}
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

// yield takes another number in place of one that is contested, and reports whether it has.
func (k *Keeper) yield(ctx context.Context) bool {
	c := k.contested.Swap(nil)
	if c == nil || c.node != k.record.Node || k.lo == k.hi || k.hasYielded() {
		return false
	}
	h, err := k.take(ctx)
	if err != nil {
		k.log.Error("lease: the node is contested, and goes on, because no other can be taken", "node", c.node,
			"owner", k.owner, "reason", c.cause, "error", err)
		return false
	}
	k.yielded = time.Now()
	k.hold(h)
	k.log.Error("lease: the node is contested; another taken, a restart is not needed", "contested", c.node,
		"reason", c.cause, "node", h.record.Node, "until", h.record.Until, "owner", k.owner)
	k.tell(NodeChanged, c.node, nil)
	return true
}

// hasYielded reports whether the keeper has asked for another number within the last span, though nobody had
// taken its own.
func (k *Keeper) hasYielded() bool {
	return !k.yielded.IsZero() && time.Since(k.yielded) < k.spanNow()
}

// leave takes another number in place of one whose record could be read and not written for a span, and for
// 10 s, as when a transaction of somebody else has locked it, and reports whether it has. A store that was
// away is slow to write for a while as well, and then the keeper keeps its number. It tries this once in a
// span: such a store may grant each of these numbers when the keeper has given up waiting for it.
func (k *Keeper) leave(ctx context.Context) bool {
	if k.stuck.IsZero() {
		k.stuck = time.Now()
	}
	brief := time.Since(k.stuck) < max(k.span, maxPatience)
	if brief || k.lo == k.hi || k.now().Before(k.window.Load().Until) || k.hasYielded() {
		return false
	}
	k.yielded = time.Now()
	h, err := k.take(ctx)
	if err != nil {
		return false
	}
	previous := k.record.Node
	k.hold(h)
	k.log.Warn("lease: the record of the node cannot be written; another taken, a restart is not needed",
		"locked", previous, "node", h.record.Node, "until", h.record.Until, "owner", k.owner)
	k.tell(NodeChanged, previous, nil)
	return true
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

// maxSent is how many swaps without an answer a keeper remembers. One that is forgotten and lands
// after all costs the keeper its number, nothing else.
const maxSent = 64

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

// progress finds out what the keeper has after a swap that failed for some cause. It returns nil if
// that is more than before, or nothing.
func (k *Keeper) progress(ctx context.Context, cause error) error {
	node, before := k.record.Node, k.record.Version
	err := k.reread(ctx)
	if err == nil && k.record.Version != before {
		return nil
	}
	return failed(fmt.Sprintf("the window of node %d could not be extended", node), errors.Join(cause, err))
}

// reread asks the store what the keeper has, and drops the number if that is nothing.
func (k *Keeper) reread(ctx context.Context) error {
	stored, found, err := k.find(ctx, k.record.Node)
	if err != nil {
		return err
	}
	if found && k.wrote(stored) {
		k.hold(k.extendedTo(stored))
		return nil
	}
	k.lose(stored, found)
	return nil
}

// wrote tells whether a record is the last one that the keeper wrote, or one that it sent without
// getting an answer. Then whatever end it has was granted to the keeper.
//
// The owner alone does not tell: a virtual machine that was cloned while it ran is two processes
// with one owner, and the record that the one writes is not the other's.
func (k *Keeper) wrote(stored Record) bool {
	return same(stored, k.record) || slices.ContainsFunc(k.sent, func(sent Record) bool {
		return same(stored, sent)
	})
}

// lose drops the number, whose record is gone or was written by somebody else.
func (k *Keeper) lose(stored Record, found bool) {
	var reason string
	switch {
	case !found:
		reason = "its record is gone"
	case stored.Version < k.record.Version:
		reason = "its record is an older one: was a backup restored, or a standby promoted that lagged?"
	case stored.Owner == k.owner:
		reason = "its record was changed by a copy of this process: was the machine cloned while it ran?"
	default:
		reason = "its record belongs to somebody else"
	}
	k.log.Error("lease: the node was lost; taking another, a restart is not needed", "reason", reason,
		"node", k.record.Node, "owner", k.owner, "holder", stored.Owner)
	k.tell(NodeLost, k.record.Node, fmt.Errorf("lease: the node was lost: %s", reason))
	k.drop()
	// A copy must not go on under the same name.
	owner := ownerOf(k.name, k.now())
	k.mu.Lock() // Status reads it
	k.owner = owner
	k.mu.Unlock()
}

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
	case k.closing <- struct{}{}:
		defer func() { <-k.closing }()
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
		if seal != nil || !k.asked.Load() {
			until = later(h.begin, last)
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
		say := k.log.Warn
		if errors.Is(err, ErrClosed) { // whoever has closed the store knows
			say = k.log.Info
		}
		say("lease: the node was not given back; it falls free when its window ends", "node", node,
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

// releases is how often a release is tried: once more than there can be swaps under way.
const releases = 3

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
