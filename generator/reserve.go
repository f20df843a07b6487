package generator

import (
	"math"
	"time"
)

const (
	// takeCard takes the place of a residue if the next plain ID takes the top card of the deck.
	takeCard = -1
)

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

// start says which boundary, if any, makes a tick begin ahead of the clock, instead of the load.
type start uint8

const (
	startNone   start = iota
	startFence        // the restart fence of a fixed node
	startWindow       // the window of a tenure
)

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
func (g *Generator) reserve(now, want int64, of class) reservation {
	for {
		word := g.last.Load()
		r := g.propose(word, now, want, of)
		if r.verdict != granted {
			return r
		}
		next := r.first + r.count - 1
		if !of.isPlain() {
			next = lookTwice(next)
		}
		if r.first>>g.timeShift != idOf(word)>>g.timeShift {
			g.budget.begin(r.first)
		}
		// If Next has counted on in the meantime, everything must be checked again.
		if !g.last.CompareAndSwap(word, next) {
			continue
		}
		g.settle(word)
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
func (g *Generator) propose(word, now, want int64, of class) reservation {
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
	start := g.startAfter(last, resume, of)
	// The tick is used up. The next tick is borrowed, and plain IDs continue there with the round.
	if start > g.maxSequence {
		tick, last = tick+1, -1
		start = g.startAfter(last, resume, of)
	}
	prefix := idOf(word) &^ g.maxSequence
	if tick != current {
		if err := g.refreshGrant(); err != nil {
			return reservation{verdict: failed, err: err}
		}
		if tick < g.grant.from {
			tick, last, resume = g.grant.from, -1, takeCard
			start = g.startAfter(last, resume, of)
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
	if of.isPlain() {
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
	case tick > 0 && tick == g.grant.from:
		return startWindow
	case !g.started && tick == g.floor+1:
		return startFence
	}
	return startNone
}

// startAfter returns the first sequence number after last that is in the class. For plain IDs it
// returns the first number with the residue at which they continue. The result may be after the end
// of the tick.
func (g *Generator) startAfter(last, resume int64, of class) int64 {
	if of.isPlain() {
		of = class{resume, g.shards}
		if resume == takeCard {
			of.residue = g.deck.top()
		}
	}
	next := last + 1
	skip := (of.residue - next) % of.shards
	if skip < 0 {
		skip += of.shards
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

// settle counts the IDs up to word that Next took since the last reservation. The caller holds
// g.mu.
func (g *Generator) settle(word int64) {
	if g.started {
		g.issued += uint64(idOf(word) - g.counted)
		g.counted = idOf(word)
	}
}
