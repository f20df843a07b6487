package generator

import (
	"math"
	"time"
)

const (
	// takeCard in place of a residue: the next plain ID takes the top card of the deck.
	takeCard = -1
)

// class says on which shard an ID has to lie: that of the sequence numbers with one residue modulo
// the number of shards. The zero class asks for plain IDs, which take the next free numbers.
type class struct{ residue, shards int64 }

// isPlain reports whether any shard will do.
func (c class) isPlain() bool { return c.shards == 0 }

// verdict says whether IDs can be reserved, and if not, what that has to wait for.
type verdict uint8

const (
	granted verdict = iota
	ahead           // the virtual clock is too far ahead of the wall clock
	outside         // the tick is not in the window of the tenure
	failed          // waiting does not help
)

// reservation is a run of IDs of one tick, or why there is none.
type reservation struct {
	verdict verdict

	// When granted: the run, whether its start is the top card, and the residue at which plain
	// IDs go on after it.
	first, count int64
	dealt        bool
	resume       int64

	// When not: the tick that the run would lie in, how far that begins ahead of the wall
	// clock, the window that it is not in, and the error when failed.
	tick   int64
	lead   time.Duration
	start  start
	window Window
	err    error
}

// start says whether a tick lies ahead because something begins there, not because of load.
type start uint8

const (
	startNone   start = iota
	startFence        // of a node given by hand
	startWindow       // of a tenure
)

// lookTwice is the word for an ID after which Next must not simply count on.
func lookTwice(id int64) int64 { return ^id }

// idOf is the last ID that a word stands for.
func idOf(word int64) int64 {
	if word < 0 {
		return ^word
	}
	return word
}

// reserve moves the virtual clock to the later of now and itself and takes up to want sequence
// numbers of one tick, from the first that is of the class. Nothing is taken unless it
// is granted. The caller holds g.mu.
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
		// Next may have counted on meanwhile. Then all has to be looked at again.
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

// propose says which IDs come after word, without taking them; it only brings the copy of the
// tenure's window up to date. The caller holds g.mu.
func (g *Generator) propose(word, now, want int64, of class) reservation {
	if g.sealed {
		return reservation{verdict: failed, err: ErrSealed}
	}
	if now < 0 {
		return reservation{verdict: failed, err: g.beforeEpoch(now)}
	}
	current, last, resume := g.position(word)
	tick := current

	// The wall clock has moved on: a fresh tick, whose first plain ID takes a card.
	if wall := now / g.tickNanos; wall > tick {
		tick, last, resume = wall, -1, takeCard
	}
	start := g.startAfter(last, resume, of)
	// The tick is used up: borrow the next one, where plain IDs go on with the round.
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
	// A tick once granted needs no second look at the window.
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

// position takes the word apart: the virtual clock, and the residue at which plain IDs go on.
func (g *Generator) position(word int64) (tick, sequence, resume int64) {
	if !g.started {
		// As if that tick were used up, so that the first ID is the first of a fresh one.
		return g.floor, g.maxSequence, takeCard
	}
	id := idOf(word)
	tick, sequence = id>>g.timeShift, id&g.maxSequence
	if word < 0 {
		return tick, sequence, g.resume
	}
	return tick, sequence, (sequence + 1) % g.shards
}

// startOf says what begins at a tick.
func (g *Generator) startOf(tick int64) start {
	switch {
	case tick > 0 && tick == g.grant.from:
		return startWindow
	case !g.started && tick == g.floor+1:
		return startFence
	}
	return startNone
}

// startAfter returns the first sequence number after last that is of the class, or, for plain IDs,
// on the residue where they go on. It may lie past the end of the tick.
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

// refreshGrant reads the window of the tenure.
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

// leadOf is how far, in nanoseconds, tick begins ahead of now; negative once it has begun. A
// tick too far away for the arithmetic is as far as can be.
func (g *Generator) leadOf(tick, now int64) int64 {
	if tick > (math.MaxInt64-g.tickNanos)/g.tickNanos {
		return math.MaxInt64
	}
	return tick*g.tickNanos - now
}

// settle counts the IDs that Next took since the last reservation, up to word. The caller holds
// g.mu.
func (g *Generator) settle(word int64) {
	if g.started {
		g.issued += uint64(idOf(word) - g.counted)
		g.counted = idOf(word)
	}
}
