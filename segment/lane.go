package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// patience is how long a claim may take that nobody waits for, or that probes go along with.
	patience = 10 * time.Second
	// While calls wait, the fourth claim without an answer, the eighth, the sixteenth and so on get more time,
	// because the store may have become slow. They are rare and do not get all the patience: until such a claim
	// ends, nobody finds out that a store that was silent answers again, unless it is a [Prober].
	firstLong    = 4
	longPatience = time.Second
	// lastPause is what the pauses after failures grow to.
	lastPause = 5 * time.Second

	// refillShare of a block is used when the next one is claimed.
	refillShare = 10
)

// New returns a source of the numbers of a counter. It does not ask the store: the first call that needs a
// number does. It returns an error wrapping [ErrInvalidOption].
func New(s Store, name string, opts ...Option) (*Source, error) {
	c, err := configure(s, name, defaultLeast, defaultMost, opts)
	if err != nil {
		return nil, err
	}
	source := &Source{text: c.text}
	source.current.Store(&block{})
	source.supply = newLane(s, name, kindSegment, c, &source.current)
	return source, nil
}

// A lane supplies the numbers of one counter: the current block, and one that was claimed ahead. At most
// one claim is under way at a time.
type lane struct {
	store   Store
	name    string
	config  config
	kind    string
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

	attempts *attempt.Attempts // used by the goroutine that claims blocks

	fetch fetch
	// What Stats tells of the past. Retired are the numbers of blocks that were used up.
	retired, claims, failures int64
}

// A waiter is a call that waits. The lane's mu guards it.
type waiter struct {
	rest []int64 // what it has not got yet
}

// fetch is the state of the goroutine that claims blocks. The lane's mu guards it.
type fetch struct {
	running bool
	done    chan struct{} // closed when the goroutine has ended
	attempt time.Time     // when the claim that is under way began; zero if none is

	vetted bool // used by the goroutine alone
	// probe asks for one more claim although nobody waits for it.
	probe bool

	failure      error     // of the last claim, whatever it was
	failed       time.Time // when the last claim failed
	failingSince time.Time
	warned       bool

	size       int64     // of the next block
	last       time.Time // when the last block was claimed, by the source's clock
	lastIssued int64     // how many numbers were given out by then
	rate       float64   // numbers a second between the last two blocks
	highest    int64     // the greatest number that was claimed

	doubted int64 // the greatest number that was claimed when numbers were last given up
	stale   bool  // numbers were given up while the claim was under way
}

func newLane(s Store, name, kind string, c config, current *atomic.Pointer[block]) *lane {
	l := &lane{
		store: s, name: name, kind: kind, config: c, last: maxNumber, current: current,
		changed: make(chan struct{}),
	}
	l.lifetime, l.end = context.WithCancel(context.Background())
	l.fetch.size = c.least
	limits := attempt.Limits{Patience: patience, LastPause: lastPause, Longer: longer}
	// Simulated time is the same each time, so a simulation repeats itself.
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	l.attempts = attempt.New(s, limits, l.awaited, random.Int64N)
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
	rest := ids[l.take(ids):]
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
			l.begin()
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
		l.attempts.Hurry()
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
	l.retired += l.current.Load().count
	l.current.Store(b)
}

// verdict returns the error of a call that must not wait, or not any longer. The caller holds mu.
func (l *lane) verdict(ctx context.Context, waited bool) error {
	switch {
	case l.closed:
		return fmt.Errorf("%w: the source of counter %q", ErrClosed, l.name)
	case ctx.Err() != nil:
		return canceled(ctx)
	case waited && !l.fetch.running && lasting(l.fetch.failure):
		return l.fetch.failure
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

// leave takes a call out of the queue. The caller holds mu.
func (l *lane) leave(w *waiter) {
	l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
	l.waiting -= int64(len(w.rest))
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

// begin starts the goroutine that claims blocks, if it does not run. The caller holds mu.
func (l *lane) begin() {
	f := &l.fetch
	if f.running || l.closed {
		return
	}
	l.adapt()
	f.running = true
	f.done = make(chan struct{})
	go l.run()
}

// remind makes the lane claim numbers for a later call, because one has passed it over. A lane that claims
// nothing ahead tries again if its store has failed, and otherwise leaves it to the call that asks it in its
// turn. If only somebody's act can help, it looks from time to time whether that has happened. The caller
// holds mu.
func (l *lane) remind() {
	f := &l.fetch
	if !l.prefetches() && f.failure == nil || lasting(f.failure) && time.Since(f.failed) < lastPause {
		return
	}
	f.probe = true
	l.begin()
	l.attempts.Hurry()
}

// adapt chooses the size of the next block by how long the last one lasted. The caller holds mu.
func (l *lane) adapt() {
	f := &l.fetch
	now, issued := l.config.now(), l.issued()
	if !f.last.IsZero() {
		lasted := now.Sub(f.last)
		switch {
		case lasted < l.config.horizon:
			f.size = min(2*f.size, l.config.most)
		case lasted > 2*l.config.horizon:
			f.size = max(f.size/2, l.config.least)
		}
		if lasted > 0 {
			f.rate = float64(issued-f.lastIssued) / lasted.Seconds()
		}
	}
	f.last, f.lastIssued = now, issued
}

// issued is how many numbers were given out. The caller holds mu.
func (l *lane) issued() int64 {
	return l.retired + l.current.Load().used() - int64(len(l.spare))
}

// run claims a block, and tries until it has one.
func (l *lane) run() {
	f := &l.fetch
	defer close(f.done)
	for {
		l.mu.Lock()
		if !l.needed() {
			f.running = false
			l.mu.Unlock()
			return
		}
		size, began := max(f.size, l.waiting), time.Now()
		f.attempt, f.stale = began, false
		l.mu.Unlock()

		var b *block
		err := l.attempts.Do(l.lifetime, func(ctx context.Context) (err error) {
			b, err = l.claim(ctx, size)
			if err == nil && l.vet != nil && !f.vetted {
				err = l.vet(ctx)
				f.vetted = err == nil
			}
			return err
		})
		l.mu.Lock()
		finished := l.endClaim(b, began, err)
		l.wake()
		l.mu.Unlock()
		if finished {
			return
		}
		long, short := l.attempts.Pauses()
		_ = l.attempts.Rest(l.lifetime, long, short) // that it was closed is found out above
	}
}

// longer is how long the n-th claim since the last answer may take that calls wait for.
func longer(n int, hurried time.Duration) time.Duration {
	if n >= firstLong && n&(n-1) == 0 {
		return max(hurried, longPatience)
	}
	return hurried
}

// needed tells whether there is still a reason to claim a block. The caller holds mu.
func (l *lane) needed() bool {
	return !l.closed && (l.prefetches() || l.waiting > 0 || l.fetch.probe)
}

// awaited tells whether somebody waits for the claim that is under way.
func (l *lane) awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0 || l.fetch.probe
}

// endClaim notes how a claim ended, and tells whether the goroutine is done. The caller holds mu.
func (l *lane) endClaim(b *block, began time.Time, err error) (finished bool) {
	f := &l.fetch
	known := lasting(f.failure)
	f.attempt, f.failure, f.probe = time.Time{}, err, false
	if err == nil {
		l.claims++
		if f.warned {
			l.config.log.Info("segment: the store answers again", "counter", l.name,
				"failing_since", f.failingSince)
		}
		f.failingSince, f.warned = time.Time{}, false
		f.running = false
		if l.closed {
			return true
		}
		if f.stale {
			b = &block{} // those who wait claim once more
		}
		refill := l.serve(b)
		if l.current.Load().left() == 0 {
			l.replace(b)
		} else {
			l.ahead = b
		}
		if refill && l.ahead == nil {
			l.begin()
		}
		return true
	}
	l.failures++
	f.failed = time.Now()
	if f.failingSince.IsZero() {
		f.failingSince = began
	}
	if l.closed || lasting(err) {
		f.running = false
		if !l.closed && !known {
			l.config.log.Error("segment: no numbers can be claimed until somebody acts", "counter", l.name,
				"error", err)
		}
		return true
	}
	if !f.warned {
		f.warned = true
		l.config.log.Warn("segment: the store does not answer; numbers go on until both blocks are used up",
			"counter", l.name, "error", err)
	}
	return false
}

// claim asks the store for a block of so many numbers.
func (l *lane) claim(ctx context.Context, size int64) (*block, error) {
	t := Terms{
		Start: l.config.start, Last: l.last, Above: l.fetch.highest, Remainder: l.config.remainder,
		Modulus: l.config.modulus, Kind: l.kind,
	}
	b, err := l.claimBlock(ctx, size, t)
	if errors.Is(err, ErrWentBack) {
		err = l.halt(ctx, t, err)
	}
	if err == nil || lasting(err) || errs.IsAny(err, ErrFrozen, ErrStore) {
		return b, err
	}
	return nil, fmt.Errorf("%w: counter %q: %w", ErrStore, l.name, err)
}

func (l *lane) claimBlock(ctx context.Context, size int64, t Terms) (*block, error) {
	c := &l.config
	width := min(size, maxBlock) * c.modulus
	if ts, ok := l.store.(TermsStore); ok {
		first, width, err := l.claimUpTo(ctx, ts, width, t)
		if err != nil {
			return nil, err
		}
		return l.blockOf(first, width)
	}
	// The store knows no terms, so numbers below the first one are claimed and thrown away.
	for {
		first, err := l.store.Claim(ctx, l.name, width)
		if err != nil {
			return nil, err
		}
		if end := first + width; end <= c.start {
			if _, err := l.store.Claim(ctx, l.name, max(c.start-end, 1)); err != nil {
				return nil, err
			}
			continue
		}
		return l.blockOf(first, width)
	}
}

// claimUpTo claims a run of numbers, and returns the first one and how many there are. Near the end of the
// counter the run is shorter, if fewer numbers are left than a block has, but not than calls wait for.
func (l *lane) claimUpTo(ctx context.Context, s TermsStore, width int64, t Terms) (int64, int64, error) {
	for {
		first, err := s.ClaimOn(ctx, l.name, width, t)
		if !errors.Is(err, ErrFull) {
			return first, width, err
		}
		l.mu.Lock()
		least := max(l.waiting, 1) * t.Modulus
		l.mu.Unlock()
		if width <= least {
			return 0, 0, err
		}
		width = max(width/2/t.Modulus*t.Modulus, least)
	}
}

// blockOf returns the block of the numbers in a claim that the source may use.
func (l *lane) blockOf(first, width int64) (*block, error) {
	c := &l.config
	if first > maxNumber-width {
		return nil, fullError(l.name, l.last)
	}
	if first <= l.fetch.highest {
		return nil, backError(l.name, first, l.fetch.highest) // of a store that checks no terms
	}
	end := min(first+width-1, l.last)
	lowest := max(first, c.start)
	lowest += ((c.remainder-lowest)%c.modulus + c.modulus) % c.modulus
	if lowest > end {
		return nil, fullError(l.name, l.last)
	}
	b := &block{first: lowest, step: c.modulus, count: (end-lowest)/c.modulus + 1}
	if l.prefetches() {
		b.refill = max(b.count/refillShare, 1)
	}
	l.mu.Lock()
	l.fetch.highest = b.last()
	l.mu.Unlock()
	return b, nil
}

// refused gives up all numbers of the counter, because somebody else has one of them: its store may have lost
// claims, and the next claim finds that out. Many calls may have numbers that were given up. When they are
// told that theirs are refused as well, that says nothing about those that were claimed since.
func (l *lane) refused(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.fetch
	if l.closed || number <= f.doubted || number > f.highest {
		return
	}
	f.doubted, f.stale = f.highest, true
	f.last = time.Time{} // that this block did not last says nothing about the size of the next one
	l.ahead, l.spare = nil, nil
	l.retired += l.current.Load().used()
	l.current.Store(&block{})
	l.config.log.Warn("segment: a number that was just given out is in use already; the numbers that are "+
		"left are given up, and the next ones are claimed anew", "counter", l.name, "number", number)
}

func (l *lane) counters() []Origin { return originOf(l.store, l.name, l.kind, l.config) }

// lasting tells whether trying a claim again does not help until somebody acts.
func lasting(err error) bool {
	return errs.IsAny(err, ErrResidue, ErrKind, ErrFull, ErrDayFull, ErrWentBack, ErrInvalidOption,
		ErrInvalidCounter, ErrClosed)
}

func (l *lane) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.fetch
	s := Stats{
		Name: l.name, Issued: l.issued(), Left: l.current.Load().left() + int64(len(l.spare)), Block: f.size,
		Claims: l.claims, Failures: l.failures,
		LastClaim: f.last, FailingSince: f.failingSince, LastError: f.failure, Closed: l.closed,
	}
	if l.ahead != nil {
		s.Left += l.ahead.count
	}
	if l.closed {
		s.Left = 0
	}
	s.Lasts = lasts(s.Left, f.rate)
	return s
}

func (l *lane) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.end()
		l.retired += l.current.Load().used()
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
}

// wake tells all who wait to look again. The caller holds mu.
func (l *lane) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// halt freezes the counter, which went back, as the refusal of a claim on those terms says. Processes that
// begin later know no number of it, and would get numbers that are in use. If it cannot be frozen, the next
// claim is refused as this one was.
func (l *lane) halt(ctx context.Context, t Terms, refusal error) error {
	var known *haltedError
	ledger, ok := l.store.(Ledger)
	if !ok || errors.As(refusal, &known) && known.highest >= l.fetch.highest {
		return refusal
	}
	var after Counter
	err := change(ctx, ledger, l.name, func(c Counter) (Counter, error) {
		after = c.halted(t, l.fetch.highest)
		return after, nil
	})
	switch {
	case errors.Is(err, ErrWentBack):
		return refusal // the store was emptied, and grants nothing to those who knew it
	case err != nil:
		return fmt.Errorf("%w; the counter could not be frozen for the others: %w", refusal, err)
	}
	return Refusal(after, 1, t)
}
