package generator

import "time"

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

// recordWait counts a completed wait.
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
