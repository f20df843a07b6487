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

// Generator issues IDs of one layout under one tenure. Its IDs are strictly increasing: an ID that
// is requested after another ID was returned is greater. This holds across goroutines, clock steps
// and changes of the node. Create a generator with [New] and share it. It must not be copied. Its
// methods are safe for concurrent use.
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
	budget      *budget // what it points to changes seldom

	_ [64]byte // separates the word that every ID writes from the fields that it reads

	// last is the last reserved ID. This one word is the whole virtual clock, so Next can count on
	// inside a tick with one compare-and-swap. It only grows. Before the first ID and after an ID
	// of NextLike, Next must not simply count on. The word then holds the complement of the ID,
	// which is negative.
	last atomic.Int64

	_ [64]byte

	mu sync.Mutex
	// All fields below are guarded by mu, and last moves to another tick only under mu.

	// floor is the tick that the first ID must follow.
	floor   int64
	started bool
	sealed  bool // no more IDs are issued
	deck    *deck
	// resume is the residue at which plain IDs continue after NextLike used another residue. The
	// evenness of plain IDs therefore does not depend on the keys of callers. It is takeCard if no
	// card was drawn.
	resume int64

	grant   grant
	issued  uint64 // IDs reserved, without those that Next took after counted
	counted int64  // the last ID that issued includes
	waits   uint64
	waited  time.Duration
	extends uint64
}

// New returns a generator for the layout and the tenure. It does no I/O and does not wait. With a
// fixed node, the first ID may wait for one tick, as the package documentation explains.
//
// New returns an error that wraps [ErrInvalidLayout], [ErrInvalidOption] (with all faults at once),
// [ErrNodeRange] if the tenure's node does not fit the layout, [ErrBeforeEpoch] or
// [ErrTimeExhausted] if the clock is outside the life of the layout, or [ErrTenureTaken] if the
// tenure is a [Lease] that already serves another generator.
func New(l Layout, t Tenure, opts ...Option) (*Generator, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("%w: the tenure is nil: pass generator.FixedNode(n)", ErrInvalidOption)
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
	g.budget = newBudget(g.clock)
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
	if now > math.MaxInt64-2*int64(aheadLimit) {
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

// Layout returns the layout of the IDs.
func (g *Generator) Layout() Layout { return g.layout.clone() }

// Next returns a new ID.
//
// It returns an error that wraps [ErrCanceled] if ctx ended first, [*ClockError] if the wall clock
// is too far behind the last ID, [ErrTimeExhausted] if the layout has run out, [ErrBeforeEpoch] if
// the clock was set back to before the epoch, [ErrOutsideWindow] if the tenure could not extend its
// window, or [ErrSealed] if the lease was closed.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, canceled(ctx)
	}
	var now int64
	for try := 0; ; try++ {
		last := g.last.Load()
		if last >= 0 && last < g.budget.limit.Load() {
			if g.last.CompareAndSwap(last, last+1) {
				return last + 1, nil
			}
			stepAside(try)
			continue
		}
		now = g.clock.now()
		if last < 0 || last&g.maxSequence == g.maxSequence {
			break // a new tick or a card of the deck is needed
		}
		// The reading may be out of date by now. This does no harm if it is inside the tick or
		// behind it by no more than MaxAhead, because the tick was granted.
		begin := last >> g.timeShift * g.tickNanos
		if now >= begin+g.tickNanos || now < max(begin-g.maxAhead, 0) {
			break // the clock has left the tick in either direction
		}
		if g.last.CompareAndSwap(last, last+1) {
			g.budget.grow(last+1, last|g.maxSequence, time.Duration(now-begin), time.Duration(g.tickNanos))
			return last + 1, nil
		}
		stepAside(try)
	}
	id, _, err := g.take(ctx, now, 1, class{})
	return id, err
}

// stepAside lets other goroutines go first after a lost compare-and-swap. If two cores alternate on
// one word, its cache line moves between them for every ID, which costs more than the ID itself. A
// core that steps aside for some microseconds lets the other core issue a run of IDs.
func stepAside(try int) {
	began := time.Now()
	pause := aside << min(try, maxDoublings)
	// The count limits the loop where time stands still while goroutines run, for example in a
	// bubble of testing/synctest.
	for i := 0; i < maxYields && time.Since(began) < pause; i++ {
		runtime.Gosched()
	}
}

// These constants set the pause of stepAside, which doubles from 8 to 32 microseconds. Measured on two
// busy cores, the median of an ID was 8.1 ns with the pause and 9.4 ns without it, and the slowest of four
// runs 9.6 ns with it and 35 ns without it. From one goroutine the median was 8.1 ns.
const (
	aside        = 8 * time.Microsecond
	maxDoublings = 2
	maxYields    = 1000
)

// Fill sets every element of ids to a new ID, in strictly increasing order. It makes one
// reservation for the IDs of a tick and does not allocate. If a batch has more IDs than the ticks
// within MaxAhead, Fill waits for the clock between ticks, each time for at most MaxWait. It
// returns the errors of [Generator.Next], and then all of ids is zero. For an empty ids it does
// nothing.
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

// Shards returns the number of shards over which the IDs are spread evenly. See [WithShards].
func (g *Generator) Shards() int { return int(g.shards) }

// NextLike returns a new ID on the shard of key: (id & MaxSequence) mod n is the same for both,
// where n is the declared number of shards or any divisor of it. The items of an order can be
// colocated with the order in this way. The key is any ID of a layout with the same number of
// sequence bits. It must not be negative.
//
// NextLike skips the sequence numbers in between, and these are lost. A tick has about
// 2^SequenceBits / n IDs for one key, and up to twice as many if keys are random. NextLike never
// overwrites the low bits of an existing ID, because that would create duplicates. It returns an
// error that wraps [ErrInvalidID] for a negative key, and the errors of [Generator.Next].
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

// NextOn returns a new ID on a given shard: (id & MaxSequence) mod shards equals shard. It skips
// fewer sequence numbers if there are fewer shards. In all other respects it works like
// [Generator.NextLike]. It returns an error that wraps [ErrInvalidOption] if shards is not between
// 1 and the size of the sequence, or if shard is not between 0 and shards-1. It also returns the
// errors of [Generator.Next].
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

// take reserves up to want IDs of the class in one tick. It waits outside the lock while the
// virtual clock must not move.
func (g *Generator) take(ctx context.Context, now, want int64, of class) (first, count int64, err error) {
	for waited := time.Duration(0); ; {
		g.mu.Lock()
		r := g.reserve(now, want, of)
		if r.verdict == ahead || r.verdict == outside {
			// Read the wall clock itself before anyone waits or fails. The reading may be out of
			// date because this goroutine waited for the lock.
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

// waitForClock waits until the wall clock is close enough to the tick.
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

// errNoGrowth is the reason if Extend returned nil without a new window.
var errNoGrowth = errors.New("the tenure reported a new window but its window is the same")

// waitForWindow asks the tenure for a larger window.
func (g *Generator) waitForWindow(
	ctx context.Context, r reservation, waited time.Duration,
) error {
	if g.tenure.Window() != r.window {
		return nil // it has changed in the meantime
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

// instant returns a clock reading as a time for messages.
func (g *Generator) instant(now int64) time.Time {
	return g.clock.epoch.Add(time.Duration(now)).UTC()
}

func (g *Generator) beforeEpoch(now int64) error {
	return fmt.Errorf("%w: the clock shows %s, the epoch of layout %s is %s: correct the clock",
		ErrBeforeEpoch, stamp(g.instant(now)), g.layout.label(), stamp(g.layout.Epoch))
}
