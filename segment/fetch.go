package segment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// patience is how long a claim may take while nobody waits for it.
	patience = 10 * time.Second
	// leastPatience and patienceFactor limit a claim that calls wait for: the store may have dropped the
	// connection, and another one is answered at once.
	leastPatience  = 250 * time.Millisecond
	patienceFactor = 4
	// The fourth claim without an answer, the eighth, the sixteenth and so on get more patience and are not
	// cut, because the store may have become slow. They are rare and do not get all the patience: until such
	// a claim ends, nobody finds out that a store that was silent answers again, unless it is a [Prober].
	firstPatient = 4
	morePatience = time.Second

	// Pauses after a failed claim grow from the first to the last, or stay at the hasty one while calls
	// wait.
	firstPause = 50 * time.Millisecond
	hastyPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second

	// refillShare of a block is used when the next one is claimed.
	refillShare = 10
)

// fetch is the state of the goroutine that claims blocks. The lane's mu guards it.
type fetch struct {
	running bool
	done    chan struct{} // closed when the goroutine has ended
	hasty   chan struct{} // has an element if a call has begun to wait
	cut     *time.Timer   // ends the claim that is under way
	attempt time.Time     // when it began; zero if none is under way
	limit   time.Time     // when it will be cut
	uncut   bool          // calls that begin to wait do not cut it earlier
	tries   int           // claims since the last one that was answered

	overtaken int  // claims in a row that were given up because the store has answered a probe
	unprobed  bool // the store has said that it cannot be probed

	vetted bool // used by the goroutine alone
	// probe asks for one more claim although nobody waits for it.
	probe bool

	verdict      error     // what the last claim ended with, if trying again does not help
	failure      error     // of the last claim, whatever it was
	failed       time.Time // when the last claim failed
	failingSince time.Time
	warned       bool
	slowest      time.Duration // of the claims that were answered

	size       int64     // of the next block
	last       time.Time // when the last block was claimed, by the source's clock
	lastIssued int64     // how many numbers were given out by then
	rate       float64   // numbers a second between the last two blocks
	highest    int64     // the greatest number that was claimed
}

// begin starts the goroutine that claims blocks, if it does not run. The caller holds mu.
func (l *lane) begin() {
	f := &l.fetch
	if f.running || l.closed {
		return
	}
	l.adapt()
	f.running, f.verdict = true, nil
	f.done, f.hasty = make(chan struct{}), make(chan struct{}, 1)
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
	l.hurry()
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
	return l.count.retired + l.current.Load().used() - int64(len(l.spare))
}

// hurry makes the goroutine end a pause, and a claim that has been under way for long, because a call has
// begun to wait. The caller holds mu.
func (l *lane) hurry() {
	f := &l.fetch
	if !f.running {
		return
	}
	select {
	case f.hasty <- struct{}{}:
	default:
	}
	if f.cut == nil || f.uncut || f.slowest == 0 {
		return
	}
	if sooner := time.Now().Add(l.hastyPatience()); sooner.Before(f.limit) {
		f.limit = sooner
		f.cut.Reset(time.Until(sooner))
	}
}

// hastyPatience is how long a claim may take that calls wait for. The caller holds mu.
func (l *lane) hastyPatience() time.Duration {
	return min(max(leastPatience, patienceFactor*l.fetch.slowest), patience)
}

// limitOfNext begins to count the next claim and returns how long it may take. The caller holds mu.
func (l *lane) limitOfNext() time.Duration {
	f := &l.fetch
	f.tries++
	f.uncut = false
	if f.slowest == 0 || l.waiting == 0 && !f.probe {
		return patience
	}
	limit := l.hastyPatience()
	switch {
	case f.overtaken > 0: // probes go with it, and it has to last longer than they do
		limit, f.uncut = patience, true
	case f.tries >= firstPatient && f.tries&(f.tries-1) == 0:
		limit, f.uncut = max(limit, morePatience), true
	}
	return limit
}

// run claims a block, and tries until it has one.
func (l *lane) run() {
	f := &l.fetch
	defer close(f.done)
	pause := firstPause
	for {
		l.mu.Lock()
		if !l.needed() {
			f.running = false
			l.mu.Unlock()
			return
		}
		ctx, giveUp := context.WithCancelCause(l.lifetime)
		size, limit := max(f.size, l.waiting), l.limitOfNext()
		began := time.Now()
		f.attempt, f.limit, f.cut = began, began.Add(limit), time.AfterFunc(limit, func() { giveUp(nil) })
		l.accompany(ctx, giveUp)
		l.mu.Unlock()

		b, err := l.claim(ctx, size)
		if err == nil && l.vet != nil && !f.vetted {
			err = l.vet(ctx)
			f.vetted = err == nil
		}
		l.mu.Lock()
		f.cut.Stop()
		overtaken := err != nil && errors.Is(context.Cause(ctx), errOvertaken)
		giveUp(nil)
		f.overtaken = next(f.overtaken, overtaken)
		finished := l.settle(b, began, err)
		hasty := l.waiting > 0
		l.wake()
		l.mu.Unlock()
		if finished {
			return
		}
		if overtaken {
			continue // the store is there
		}
		l.rest(pause, hasty)
		pause = min(2*pause, lastPause)
	}
}

// needed tells whether there is still a reason to claim a block. The caller holds mu.
func (l *lane) needed() bool {
	return !l.closed && (l.prefetches() || l.waiting > 0 || l.fetch.probe)
}

// settle notes how a claim ended, and tells whether the goroutine is done. The caller holds mu.
func (l *lane) settle(b *block, began time.Time, err error) (finished bool) {
	f := &l.fetch
	took := time.Since(began)
	known := lasting(f.failure)
	f.cut, f.attempt, f.failure, f.probe = nil, time.Time{}, err, false
	if err == nil {
		l.count.claims++
		f.tries = 0
		f.slowest = max(took, f.slowest-f.slowest/8) // a slow answer is forgotten after some others
		if f.warned {
			l.config.log.Info("segment: the store answers again", "counter", l.name,
				"failing_since", f.failingSince)
		}
		f.failingSince, f.warned = time.Time{}, false
		f.running = false
		if l.closed {
			return true
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
	l.count.failures++
	f.failed = time.Now()
	if f.failingSince.IsZero() {
		f.failingSince = began
	}
	if l.closed || lasting(err) {
		f.running, f.verdict = false, err
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

// rest waits before the next claim.
func (l *lane) rest(pause time.Duration, hasty bool) {
	if hasty {
		pause = min(pause, hastyPause)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	began := time.Now()
	for {
		select {
		case <-timer.C:
			return
		case <-l.lifetime.Done():
			return
		case <-l.fetch.hasty:
			timer.Reset(max(min(pause, hastyPause)-time.Since(began), 0))
		}
	}
}

// claim asks the store for a block of so many numbers.
func (l *lane) claim(ctx context.Context, size int64) (*block, error) {
	b, err := l.claimBlock(ctx, size)
	if err == nil || lasting(err) || errors.Is(err, ErrFrozen) {
		return b, err
	}
	return nil, fmt.Errorf("%w: counter %q: %w", ErrStore, l.name, err)
}

func (l *lane) claimBlock(ctx context.Context, size int64) (*block, error) {
	c := &l.config
	width := min(size, maxBlock) * c.modulus
	if ts, ok := l.store.(TermsStore); ok {
		terms := Terms{
			Start: c.start, Last: l.last, Above: l.fetch.highest, Remainder: c.remainder, Modulus: c.modulus,
		}
		first, err := l.claimUpTo(ctx, ts, width, terms)
		if err != nil {
			return nil, err
		}
		return l.blockOf(first.number, first.width)
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

// A run is what a claim returned.
type run struct{ number, width int64 }

// claimUpTo claims a run. Near the end of the counter it is shorter, if fewer numbers are left than a
// block has, but not than the calls that wait need.
func (l *lane) claimUpTo(ctx context.Context, s TermsStore, width int64, t Terms) (run, error) {
	for {
		first, err := s.ClaimOn(ctx, l.name, width, t)
		if err == nil {
			return run{first, width}, nil
		}
		if !errors.Is(err, ErrFull) || width == t.Modulus {
			return run{}, err
		}
		l.mu.Lock()
		least := max(l.waiting, 1) * t.Modulus
		l.mu.Unlock()
		if width <= least {
			return run{}, err
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
	from := max(first, c.start)
	from += ((c.remainder-from)%c.modulus + c.modulus) % c.modulus
	if from > end {
		return nil, fullError(l.name, l.last)
	}
	b := &block{first: from, step: c.modulus, count: (end-from)/c.modulus + 1}
	if l.prefetches() {
		b.refill = max(b.count/refillShare, 1)
	}
	l.mu.Lock()
	l.fetch.highest = b.last()
	l.mu.Unlock()
	return b, nil
}

// lasting tells whether trying a claim again does not help until somebody acts.
func lasting(err error) bool {
	for _, sentinel := range []error{
		ErrResidue, ErrFull, ErrDayFull, ErrWentBack, ErrInvalidOption, ErrInvalidCounter, ErrClosed,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
