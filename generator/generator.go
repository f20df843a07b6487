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

// claim binds the generator to its tenure if the tenure is a lease.
func (g *Generator) claim() error {
	lease, ok := g.tenure.(Lease)
	if !ok {
		return nil
	}
	return lease.Claim(Claim{
		Layout:   g.layout.clone(),
		MaxAhead: time.Duration(g.maxAhead),
		Seal:     g.seal,
	})
}

// Layout returns the layout of the IDs.
func (g *Generator) Layout() Layout { return g.layout.clone() }

// Shards returns the number of shards over which the IDs are spread evenly. See [WithShards].
func (g *Generator) Shards() int { return int(g.shards) }

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
	id, _, err := g.take(ctx, g.clock.now(), 1, class{int64(shard), int64(shards)})
	return id, err
}

// take reserves up to want IDs of the class in one tick. It waits outside the lock while the
// virtual clock must not move.
func (g *Generator) take(ctx context.Context, now, want int64, shard class) (first, count int64, err error) {
	if ctx.Err() != nil {
		return 0, 0, canceled(ctx)
	}
	for waited := time.Duration(0); ; {
		g.mu.Lock()
		r := g.reserve(now, want, shard)
		if r.verdict == ahead || r.verdict == outside {
			// Read the wall clock itself before anyone waits or fails. The reading may be out of
			// date because this goroutine waited for the lock.
			now = g.clock.exact()
			r = g.reserve(now, want, shard)
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
	if r.window.Until.IsZero() {
		return fmt.Errorf("%w %d: it has none: %w", ErrOutsideWindow, r.window.Node, err)
	}
	tick, _ := g.layout.timeOf(uint64(r.tick))
	return fmt.Errorf("%w %d: the tick of %s is not in [%s, %s): %w", ErrOutsideWindow,
		r.window.Node, stamp(tick), stamp(r.window.From), stamp(r.window.Until), err)
}

func (g *Generator) recordWait(why verdict, spent time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why == outside {
		g.extends++
		return
	}
	g.waits++
	g.waited += spent
}

// instant returns a clock reading as a time for messages.
func (g *Generator) instant(now int64) time.Time {
	return g.clock.epoch.Add(time.Duration(now)).UTC()
}

func (g *Generator) beforeEpoch(now int64) error {
	return fmt.Errorf("%w: the clock shows %s, the epoch of layout %s is %s: correct the clock",
		ErrBeforeEpoch, stamp(g.instant(now)), g.layout.label(), stamp(g.layout.Epoch))
}

// takeCard takes the place of a residue if the next plain ID takes the top card of the deck.
const takeCard = -1

// class selects the shard of an ID: the sequence numbers with one residue modulo the number of
// shards. The zero class selects plain IDs, which take the next free numbers.
type class struct{ residue, shards int64 }

// isPlain reports whether the ID may be on any shard.
func (c class) isPlain() bool { return c.shards == 0 }

// verdict says whether IDs can be reserved and, if not, what the caller must wait for.
type verdict uint8

const (
	granted verdict = iota
	ahead           // the virtual clock is too far ahead of the wall clock
	outside         // the tick is not in the window of the tenure
	failed          // waiting does not help
)

// reservation is a run of IDs of one tick, or the reason why there is none.
type reservation struct {
	verdict verdict

	// These fields are set if the verdict is granted: the run, whether its start is the top card,
	// and the residue at which plain IDs continue after it.
	first, count int64
	dealt        bool
	resume       int64

	// These fields are set otherwise: the tick of the refused run, how far that tick begins ahead
	// of the wall clock, the window that does not contain it, and the error if the verdict is
	// failed.
	tick   int64
	lead   time.Duration
	start  start
	window Window
	err    error
}

// lookTwice returns the word for an ID after which Next must not simply count on.
func lookTwice(id int64) int64 { return ^id }

// idOf returns the last ID that a word represents.
func idOf(word int64) int64 {
	if word < 0 {
		return ^word
	}
	return word
}

// reserve moves the virtual clock to now, if that is later, and takes up to want sequence numbers
// of one tick, starting with the first number of the class. It takes numbers only if the verdict is
// granted. The caller holds g.mu.
func (g *Generator) reserve(now, want int64, shard class) reservation {
	for {
		word := g.last.Load()
		r := g.propose(word, now, want, shard)
		if r.verdict != granted {
			return r
		}
		next := r.first + r.count - 1
		if !shard.isPlain() {
			next = lookTwice(next)
		}
		if r.first>>g.timeShift != idOf(word)>>g.timeShift {
			g.budget.begin(r.first)
		}
		// If Next has counted on in the meantime, everything must be checked again.
		if !g.last.CompareAndSwap(word, next) {
			continue
		}
		g.countIssued(word)
		g.issued += uint64(r.count)
		g.counted, g.started, g.resume = idOf(next), true, r.resume
		if r.dealt {
			g.deck.deal()
		}
		return r
	}
}

// propose returns the IDs that come after word without taking them. Its only side effect is an
// update of the stored window of the tenure. The caller holds g.mu.
func (g *Generator) propose(word, now, want int64, shard class) reservation {
	if g.sealed {
		return reservation{verdict: failed, err: ErrSealed}
	}
	if now < 0 {
		return reservation{verdict: failed, err: g.beforeEpoch(now)}
	}
	current, last, resume := g.position(word)
	tick := current

	// The wall clock has moved on. The first plain ID of the new tick takes a card.
	if wall := now / g.tickNanos; wall > tick {
		tick, last, resume = wall, -1, takeCard
	}
	start := g.startAfter(last, resume, shard)
	// The tick is used up. The next tick is borrowed, and plain IDs continue there with the round.
	if start > g.maxSequence {
		tick, last = tick+1, -1
		start = g.startAfter(last, resume, shard)
	}
	prefix := idOf(word) &^ g.maxSequence
	if tick != current {
		if err := g.refreshGrant(); err != nil {
			return reservation{verdict: failed, err: err}
		}
		if tick < g.grant.first {
			tick, last, resume = g.grant.first, -1, takeCard
			start = g.startAfter(last, resume, shard)
		}
		if tick > g.maxTick {
			end, _ := g.layout.end()
			return reservation{verdict: failed, err: g.layout.exhausted(end)}
		}
		prefix = tick<<g.timeShift | g.grant.window.Node<<g.layout.SequenceBits
	}

	if lead := g.leadOf(tick, now); lead > g.maxAhead {
		return reservation{verdict: ahead, tick: tick, lead: time.Duration(lead), start: g.startOf(tick)}
	}
	// A tick that was granted once needs no second check of the window.
	if tick != current && tick >= g.grant.until {
		return reservation{verdict: outside, tick: tick, window: g.grant.window}
	}
	r := reservation{first: prefix | start, count: 1, resume: resume}
	if shard.isPlain() {
		r.count = min(want, g.maxSequence-start+1)
		r.dealt = resume == takeCard
	}
	return r
}

// position splits the word into the virtual clock and the residue at which plain IDs continue.
func (g *Generator) position(word int64) (tick, sequence, resume int64) {
	if !g.started {
		// The floor counts as used up, so the first ID is the first ID of a new tick.
		return g.floor, g.maxSequence, takeCard
	}
	id := idOf(word)
	tick, sequence = id>>g.timeShift, id&g.maxSequence
	if word < 0 {
		return tick, sequence, g.resume
	}
	return tick, sequence, (sequence + 1) % g.shards
}

// startOf returns the boundary that begins at a tick.
func (g *Generator) startOf(tick int64) start {
	switch {
	case tick > 0 && tick == g.grant.first:
		return startWindow
	case !g.started && tick == g.floor+1:
		return startFence
	}
	return startNone
}

// startAfter returns the first sequence number after last that is in the class. For plain IDs it
// returns the first number with the residue at which they continue. The result may be after the end
// of the tick.
func (g *Generator) startAfter(last, resume int64, shard class) int64 {
	if shard.isPlain() {
		shard = class{resume, g.shards}
		if resume == takeCard {
			shard.residue = g.deck.top()
		}
	}
	next := last + 1
	skip := (shard.residue - next) % shard.shards
	if skip < 0 {
		skip += shard.shards
	}
	return next + skip
}

// refreshGrant reads the current window of the tenure.
func (g *Generator) refreshGrant() error {
	window := g.tenure.Window()
	if window == g.grant.window {
		return nil
	}
	grant, err := g.layout.grantOf(window)
	if err == nil {
		g.grant = grant
	}
	return err
}

// leadOf returns how far, in nanoseconds, tick begins ahead of now. The result is negative after
// the tick has begun, and the largest int64 if the tick is too far away for the arithmetic.
func (g *Generator) leadOf(tick, now int64) int64 {
	if tick > (math.MaxInt64-g.tickNanos)/g.tickNanos {
		return math.MaxInt64
	}
	return tick*g.tickNanos - now
}

// countIssued counts the IDs up to word that Next took since the last reservation. The caller holds
// g.mu.
func (g *Generator) countIssued(word int64) {
	if g.started {
		g.issued += uint64(idOf(word) - g.counted)
		g.counted = idOf(word)
	}
}

// Stats describes what a generator has done so far and its current state. The zero Stats belongs to
// no generator. In JSON, durations are numbers of nanoseconds, and times that are zero are left out.
type Stats struct {
	// Node is the node number in use.
	Node int64 `json:"node"`
	// Issued is the number of IDs issued so far.
	Issued uint64 `json:"issued"`
	// Last is the time of the last ID, in UTC. It is zero before the first ID.
	Last time.Time `json:"last,omitzero"`
	// Lead is how far the last ID is ahead of the wall clock. It is 0 if the ID is not ahead.
	Lead time.Duration `json:"lead_ns"`
	// Waits is the number of completed waits for the clock, and Waited is the total time that they
	// took. A call may wait more than once.
	Waits  uint64        `json:"waits"`
	Waited time.Duration `json:"waited_ns"`
	// ClockSteps is how often the wall clock was seen to step back by a millisecond or more.
	ClockSteps uint64 `json:"clock_steps"`
	// WindowEnd is the end of the tenure's window, in UTC. It is zero for a fixed node.
	WindowEnd time.Time `json:"window_end,omitzero"`
	// Extensions is how often the window of a [Lease] has grown or moved. For any other tenure it
	// is how often a call had to ask the tenure for more.
	Extensions uint64 `json:"extensions"`
	// End is when the time bits of the layout run out. YearsLeft is the number of years of 365.25
	// days until then by the wall clock.
	End       time.Time `json:"end,omitzero"`
	YearsLeft float64   `json:"years_left"`
}

// Stats returns a snapshot of the statistics.
func (g *Generator) Stats() Stats {
	now := g.clock.exact()
	steps, _ := g.clock.stepped(now)
	s := Stats{ClockSteps: steps, End: g.layout.End()}
	s.YearsLeft = float64(s.End.Unix()-g.instant(now).Unix()) / (hoursPerYear * 3600)

	g.mu.Lock()
	defer g.mu.Unlock()
	word := g.last.Load()
	g.countIssued(word)
	s.Node = g.grant.window.Node
	s.Issued = g.issued
	s.Waits, s.Waited, s.Extensions = g.waits, g.waited, g.extends
	if s.Issued > 0 {
		tick := idOf(word) >> g.timeShift
		s.Last, _ = g.layout.timeOf(uint64(tick))
		s.Lead = time.Duration(max(g.leadOf(tick, now), 0))
	}
	if _, byHand := g.tenure.(fixedNode); !byHand {
		s.WindowEnd = g.tenure.Window().Until.UTC()
	}
	if lease, ok := g.tenure.(Lease); ok {
		s.Extensions = lease.Extensions()
	}
	return s
}

// seal prevents the generator from issuing any more IDs.
func (g *Generator) seal() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	// Next counts on without the lock as long as the word is an ID. After the swap it must take the
	// lock and then finds the seal.
	word := g.last.Load()
	for word >= 0 && !g.last.CompareAndSwap(word, lookTwice(word)) {
		word = g.last.Load()
	}
	if !g.started {
		return time.Time{}
	}
	end, _ := g.layout.timeOf(uint64(idOf(word)>>g.timeShift) + 1)
	return end
}

func (g *Generator) isSealed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sealed
}
