package generator

import "time"

// Lease is a [Tenure] that is granted for a limited time, recorded in a store and given back, such
// as the Keeper of package lease. [New] tells the lease which generator it serves.
type Lease interface {
	Tenure
	// Claim is called once by New, when nothing else can fail. A lease that already serves another
	// generator returns an error that wraps [ErrTenureTaken], and then New fails.
	Claim(c Claim) error
	// Extensions returns how often the window has grown or moved.
	Extensions() uint64
}

// Claim describes a generator to its [Lease].
type Claim struct {
	// Layout is the layout of the generator's IDs.
	Layout Layout
	// MaxAhead is how far the time of an ID may be ahead of the generator's clock. A window must
	// reach this much further than the time until it can be extended.
	MaxAhead time.Duration
	// Seal ends the generator permanently. It returns the end of the last tick that the generator
	// used, in UTC, or the zero time if it used none. After Seal has returned, every request for a
	// new ID fails with [ErrSealed]. Seal may be called more than once and concurrently.
	Seal func() (last time.Time)
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
