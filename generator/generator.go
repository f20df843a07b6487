package generator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Generator makes IDs of one layout under one tenure. Everything that it returns is strictly
// increasing: an ID asked for after another was returned is greater, on whichever goroutine,
// across steps of the clock and changes of the node. Make one with [New] and share it; it must
// not be copied. Its methods are safe for concurrent use.
type Generator struct {
	// Immutable.
	layout      Layout
	tenure      Tenure
	clock       *clock
	tickNanos   int64
	maxAhead    int64 // nanoseconds
	maxWait     time.Duration
	maxTick     int64
	maxSequence int64
	shards      int64
	timeShift   int

	_ [64]byte // keeps the word that every ID writes off the cache line of those it reads

	// last is the last ID reserved: the whole virtual clock in one word, so that Next can count
	// on inside a tick by one compare-and-swap. It only grows. While Next has to look twice,
	// before the first ID and after one of NextLike, it holds the complement, which is negative.
	last atomic.Int64

	_ [64]byte

	mu sync.Mutex
	// All below is guarded by mu, and last changes tick only under mu.

	// floor is the tick after which the first ID may lie.
	floor   int64
	started bool
	sealed  bool // no ID any more
	deck    *deck
	// resume is the residue at which plain IDs go on after NextLike went elsewhere, so that
	// their evenness does not depend on anybody's keys; takeCard when none was drawn yet.
	resume int64

	grant   grant
	issued  uint64 // IDs reserved, without those that Next took since counted
	counted int64  // the last ID that is in issued
	waits   uint64
	waited  time.Duration
	extends uint64
}

// New returns a generator for the layout under the tenure. It does no I/O and does not wait; the
// first ID of a hand-given node may wait for one tick, see the package documentation.
//
// It returns an error wrapping [ErrInvalidLayout], [ErrInvalidOption] (all faults at once),
// [ErrNodeRange] when the tenure's node does not fit the layout, [ErrBeforeEpoch] or
// [ErrTimeExhausted] when the clock is outside the life of the layout, or [ErrTenureTaken] when
// the tenure is a [Lease] that serves another generator.
func New(l Layout, t Tenure, opts ...Option) (*Generator, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("%w: the tenure is nil: pass generator.Node(n)", ErrInvalidOption)
	}
	c, err := configure(l, opts)
	if err != nil {
		return nil, err
	}
	g := &Generator{
		layout:      l.clone(),
		tenure:      t,
		clock:       newClock(l.Epoch, c.now),
		tickNanos:   int64(l.Tick),
		maxAhead:    int64(c.maxAhead),
		maxWait:     c.maxWait,
		maxTick:     l.maxTick(),
		maxSequence: l.MaxSequence(),
		shards:      int64(c.shards),
		timeShift:   l.timeShift(),
		deck:        newDeck(c.shards),
	}
	if g.grant, err = g.layout.grantOf(t.Window()); err != nil {
		return nil, err
	}
	now := g.clock.exact()
	if now < 0 {
		return nil, g.beforeEpoch(now)
	}
	if now/g.tickNanos > g.maxTick {
		return nil, l.exhausted(g.instant(now))
	}
	if now > math.MaxInt64-2*int64(longestAhead) {
		return nil, fmt.Errorf("%w: the clock is 292 years or more after the epoch %s of layout %s, "+
			"further than a generator counts", ErrTimeExhausted, stamp(l.Epoch), l.label())
	}
	g.floor, g.resume = -1, takeCard
	if _, byHand := t.(fixedNode); byHand {
		g.floor = (now + g.maxAhead) / g.tickNanos // the restart fence
	}
	g.last.Store(lookTwice(0))
	if err := g.claim(); err != nil {
		return nil, err
	}
	return g, nil
}

// Layout returns the layout of the generator's IDs.
func (g *Generator) Layout() Layout { return g.layout.clone() }

// Next returns a new ID.
//
// It returns an error wrapping [ErrCanceled] when ctx ended first, [*ClockError] when the wall
// clock is too far behind the last ID, [ErrTimeExhausted] when the layout has come to its end,
// [ErrBeforeEpoch] when the clock was set back to before it began, [ErrOutsideWindow] when the
// tenure could not extend its window, or [ErrSealed] when it has ended.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, canceled(ctx)
	}
	var now int64
	for try := 0; ; try++ {
		last := g.last.Load()
		now = g.clock.now()
		if last < 0 || last&g.maxSequence == g.maxSequence {
			break // a new tick is needed, or the deck
		}
		// A reading that grew old on the way, being inside the tick or behind it by no more than
		// allowed, does no harm: the tick was granted.
		begin := last >> g.timeShift * g.tickNanos
		if now >= begin+g.tickNanos || now < max(begin-g.maxAhead, 0) {
			break // the clock has moved on, or back
		}
		if g.last.CompareAndSwap(last, last+1) {
			return last + 1, nil
		}
		stepAside(try)
	}
	id, _, err := g.take(ctx, now, 1, class{})
	return id, err
}

// stepAside lets others go first after a lost compare-and-swap. Two cores that take turns at one
// word pay for moving its cache line with every ID, which costs more than the ID; a core that
// keeps out of the way for some microseconds lets the other make a run of them.
func stepAside(try int) {
	began := time.Now()
	pause := aside << min(try, mostDoublings)
	// The count bounds the loop where time stands still while goroutines run, as in a bubble of
	// testing/synctest.
	for i := 0; i < mostYields && time.Since(began) < pause; i++ {
		runtime.Gosched()
	}
}

// The pause of stepAside and how often it doubles: from 8 to 32 microseconds. Measured on two
// cores: 39.9 ns an ID with it, 64 ns without, and 39.5 ns from one goroutine.
const (
	aside         = 8 * time.Microsecond
	mostDoublings = 2
	mostYields    = 1000
)

// Fill sets every element of ids to a new ID, in strictly increasing order. It makes one
// reservation for the IDs of a tick and allocates nothing. A batch larger than MaxAhead has IDs
// for waits for the clock in between, each time for MaxWait at the most. It returns the errors
// of [Generator.Next]; then all of ids is zero. An empty ids is filled by doing nothing.
func (g *Generator) Fill(ctx context.Context, ids []int64) error {
	if len(ids) > 0 && ctx.Err() != nil {
		clear(ids)
		return canceled(ctx)
	}
	for rest := ids; len(rest) > 0; {
		first, count, err := g.take(ctx, g.clock.now(), int64(len(rest)), class{})
		if err != nil {
			clear(ids)
			return err
		}
		for i := range rest[:count] {
			rest[i] = first + int64(i)
		}
		rest = rest[count:]
	}
	return nil
}

// Shards returns over how many shards the IDs are spread evenly; see [WithShards].
func (g *Generator) Shards() int { return int(g.shards) }

// NextLike returns a new ID that lands on the shard of key: (id & MaxSequence) mod n is the same
// for both, for the declared number of shards n and every divisor of it. So the items of an
// order live beside the order. The key is any ID of a layout with as many sequence bits, and must
// not be negative.
//
// It skips the sequence numbers in between, which are lost: a tick has about 2^SequenceBits / n
// IDs for one key, and up to twice as many when keys are random. It never overwrites the low bits
// of a finished ID, as a popular recipe has it, because that makes duplicates. It returns an error
// wrapping [ErrInvalidID] for a negative key, and the errors of [Generator.Next].
func (g *Generator) NextLike(ctx context.Context, key int64) (int64, error) {
	if key < 0 {
		return 0, fmt.Errorf("%w: the key %d of NextLike is negative", ErrInvalidID, key)
	}
	if ctx.Err() != nil {
		return 0, canceled(ctx)
	}
	id, _, err := g.take(ctx, g.clock.now(), 1, class{key & g.maxSequence % g.shards, g.shards})
	return id, err
}

// NextOn returns a new ID on one of so many shards: (id & MaxSequence) mod shards is shard. The
// fewer shards there are, the fewer sequence numbers it skips; otherwise it is as
// [Generator.NextLike]. It returns an error wrapping [ErrInvalidOption] for a number of shards that
// is not from 1 to the size of the sequence, or a shard that is not from 0 to one less.
func (g *Generator) NextOn(ctx context.Context, shard, shards int) (int64, error) {
	if shards < 1 || int64(shards) > g.maxSequence+1 || shard < 0 || shard >= shards {
		return 0, fmt.Errorf("%w: NextOn shard %d of %d, where the sequence has %d numbers", ErrInvalidOption,
			shard, shards, g.maxSequence+1)
	}
	if ctx.Err() != nil {
		return 0, canceled(ctx)
	}
	id, _, err := g.take(ctx, g.clock.now(), 1, class{int64(shard), int64(shards)})
	return id, err
}

// take reserves up to want IDs in one tick, all of the class. It waits, outside the lock, as long as
// the virtual clock may not move.
func (g *Generator) take(ctx context.Context, now, want int64, of class) (first, count int64, err error) {
	for waited := time.Duration(0); ; {
		g.mu.Lock()
		r := g.reserve(now, want, of)
		if r.verdict == ahead || r.verdict == outside {
			// Before anyone waits or fails, look at the wall clock itself: the reading may have
			// grown old while this goroutine waited for the lock.
			now = g.clock.exact()
			r = g.reserve(now, want, of)
		}
		g.mu.Unlock()

		began := time.Now()
		switch r.verdict {
		case granted:
			return r.first, r.count, nil
		case failed:
			return 0, 0, r.err
		case ahead:
			err = g.waitForClock(ctx, now, r, waited)
		case outside:
			err = g.waitForWindow(ctx, r, waited)
		}
		if err != nil {
			return 0, 0, err
		}
		spent := time.Since(began)
		waited += spent
		g.recordWait(r.verdict, spent)
		now = g.clock.exact()
	}
}

// waitForClock waits until the wall clock has come near enough.
func (g *Generator) waitForClock(
	ctx context.Context, now int64, r reservation, waited time.Duration,
) error {
	wait := r.lead - time.Duration(g.maxAhead)
	if wait > g.maxWait-waited {
		_, since := g.clock.stepped(now)
		next, _ := g.layout.timeOf(uint64(r.tick))
		return &ClockError{
			Next: next, Ahead: r.lead, MaxAhead: time.Duration(g.maxAhead),
			Waited: waited, Wait: wait, MaxWait: g.maxWait, Since: since, start: r.start,
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}

// errNoGrowth is what an Extend that returned nil for nothing counts as.
var errNoGrowth = errors.New("the tenure reported a new window but its window is the same")

// waitForWindow asks the tenure for more.
func (g *Generator) waitForWindow(
	ctx context.Context, r reservation, waited time.Duration,
) error {
	if g.tenure.Window() != r.window {
		return nil // it has changed meanwhile
	}
	err := context.DeadlineExceeded
	if left := g.maxWait - waited; left > 0 {
		limited, cancel := context.WithTimeout(ctx, left)
		err = g.tenure.Extend(limited)
		cancel()
	}
	if err == nil && g.tenure.Window() == r.window {
		err = errNoGrowth
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return canceled(ctx)
	case g.isSealed():
		return ErrSealed
	}
	tick, _ := g.layout.timeOf(uint64(r.tick))
	return fmt.Errorf("%w %d: the tick of %s is not in [%s, %s): %w", ErrOutsideWindow,
		r.window.Node, stamp(tick), stamp(r.window.From), stamp(r.window.Until), err)
}

// instant is a clock reading as a time, for messages.
func (g *Generator) instant(now int64) time.Time {
	return g.clock.epoch.Add(time.Duration(now)).UTC()
}

func (g *Generator) beforeEpoch(now int64) error {
	return fmt.Errorf("%w: the clock shows %s, the epoch of layout %s is %s: correct the clock",
		ErrBeforeEpoch, stamp(g.instant(now)), g.layout.label(), stamp(g.layout.Epoch))
}
