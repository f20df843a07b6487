package generator

import "time"

// Lease is a [Tenure] that somebody grants for a time, keeps books of and takes back, such as
// the Keeper of package lease. [New] tells it which generator it serves.
type Lease interface {
	Tenure
	// Claim is called once by New, when nothing else can go wrong any more. A lease that serves
	// another generator already returns an error wrapping [ErrTenureTaken], and New fails.
	Claim(c Claim) error
	// Extensions counts how often the window has grown or moved.
	Extensions() uint64
}

// Claim is what a generator tells its [Lease].
type Claim struct {
	// Layout is that of the generator's IDs.
	Layout Layout
	// MaxAhead is how far the generator may stamp ahead of its clock, so how much longer a window
	// has to be than the time until it can be extended.
	MaxAhead time.Duration
	// Seal ends the generator, for good, and returns the end of the last tick that it stamped, in
	// UTC; zero if it stamped none. When Seal has returned, whatever needs a new ID fails with
	// [ErrSealed]. It may be called more than once, and concurrently.
	Seal func() (last time.Time)
}

// claim binds the generator to its tenure, if that is a lease.
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

// seal keeps the generator from ever making another ID.
func (g *Generator) seal() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	// Next counts on without the lock as long as the word is an ID. From the swap on it has to
	// come here, and finds the seal.
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
