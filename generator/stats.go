package generator

import "time"

// Stats is what a generator has done so far and where it stands. The zero Stats is that of no
// generator.
type Stats struct {
	// Node is the node number in use.
	Node int64
	// Issued counts the IDs made.
	Issued uint64
	// Last is the time of the last ID, in UTC; zero before the first.
	Last time.Time
	// Lead is how far the last ID lies ahead of the wall clock; 0 when it does not.
	Lead time.Duration
	// Waits counts the waits for the clock that were not broken off, Waited is the time that they
	// took in all. A call may wait more than once.
	Waits  uint64
	Waited time.Duration
	// ClockSteps counts how often the wall clock was seen to step back by a millisecond or more.
	ClockSteps uint64
	// WindowEnd is the end of the tenure's window, in UTC; zero for a node given by hand.
	WindowEnd time.Time
	// Extensions counts how often the tenure's window has grown or moved, if it is a [Lease];
	// otherwise how often a call had to ask the tenure for more.
	Extensions uint64
	// End is when the time bits of the layout are used up, YearsLeft how many years of 365.25
	// days that is away by the wall clock.
	End       time.Time
	YearsLeft float64
}

// Stats returns a snapshot.
func (g *Generator) Stats() Stats {
	now := g.clock.exact()
	steps, _ := g.clock.stepped(now)
	s := Stats{ClockSteps: steps, End: g.layout.End()}
	s.YearsLeft = float64(s.End.Unix()-g.instant(now).Unix()) / (hoursPerYear * 3600)

	g.mu.Lock()
	defer g.mu.Unlock()
	word := g.last.Load()
	g.settle(word)
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

// recordWait counts a wait that is over.
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
