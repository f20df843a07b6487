package generator

import "time"

// What the clock's tests need to know of its habits.
const (
	AnchorEvery = anchorEvery
	StepBack    = stepBack
)

// Deck gives the tests access to the shuffled deck.
type Deck struct{ inner *deck }

func NewDeck(n int) Deck { return Deck{newDeck(n)} }

func (d Deck) Top() int64 { return d.inner.top() }

// Draw deals the top card.
func (d Deck) Draw() int64 {
	card := d.inner.top()
	d.inner.deal()
	return card
}

// Clock gives the tests access to the clock of a generator.
type Clock struct{ inner *clock }

func NewClock(epoch time.Time, read func() time.Time) Clock { return Clock{newClock(epoch, read)} }

func ClockOf(g *Generator) Clock { return Clock{g.clock} }

// Now is the anchored reading and Exact the one that looks at the wall clock, both as instants.
func (c Clock) Now() time.Time   { return c.inner.epoch.Add(time.Duration(c.inner.now())) }
func (c Clock) Exact() time.Time { return c.inner.epoch.Add(time.Duration(c.inner.exact())) }

// Stepped is the count of steps back seen, and since when the clock is behind if it shows now.
func (c Clock) Stepped(now time.Time) (steps uint64, since time.Time) {
	return c.inner.stepped(int64(now.Sub(c.inner.epoch)))
}

// Slip simulates a step of the wall clock by d since the last anchor, because a test cannot set the
// system's clock. The monotonic clock of a suspended machine stands still, which moves the wall
// clock forward relative to it.
func (c Clock) Slip(d time.Duration) { c.inner.offset.Add(-int64(d)) }

// Budget returns the ID up to which Next may count without reading the clock, or 0.
func Budget(g *Generator) int64 { return g.budget.limit.Load() }
