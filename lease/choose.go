package lease

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/limits"
)

const (
	// rested is how long a number has to have been free to be as good as one that was never used.
	// Reusing such numbers keeps the store as small as a day's starts.
	rested = 24 * time.Hour
	// peers is how many numbers of about the same age are tried in random order, so that processes
	// that start together rarely want the same one.
	peers = 16
	// fresh is how many numbers that were never used are tried before the store is asked anew.
	fresh = 32
)

// choose returns the numbers from lo to hi that are free now, as the records that a swap has to
// replace, in the order in which to try them: those that have rested, those that were never used,
// then the longest free first, each group at random. Every number that is not free is in held,
// those that end first in front.
func (c config) choose(records []Record, now time.Time) (free, held []Record) {
	known := make(map[int64]bool, len(records))
	var recent []Record
	for _, r := range records {
		if r.Node < c.lo || r.Node > c.hi {
			continue
		}
		known[r.Node] = true
		switch {
		case r.Until.After(now):
			held = append(held, r)
		case now.Sub(r.Until) >= rested:
			free = append(free, r)
		default:
			recent = append(recent, r)
		}
	}
	byEnd := func(a, b Record) int { return a.Until.Compare(b.Until) }
	slices.SortFunc(held, byEnd)
	slices.SortFunc(recent, byEnd)
	c.shuffle(free)
	free = append(free, c.unused(known)...)
	for group := range slices.Chunk(recent, peers) {
		c.shuffle(group)
	}
	return append(free, recent...), held
}

// unused returns some of the numbers that have no record, at random. From then on they are known as well.
func (c config) unused(known map[int64]bool) []Record {
	size := c.hi - c.lo + 1
	want := min(size-int64(len(known)), fresh)
	var found []Record
	add := func(node int64) {
		if !known[node] {
			known[node] = true
			found = append(found, Record{Node: node})
		}
	}
	// Where most are unused a few throws of dice find them; where few are, a search does.
	for try := 0; try < 4*fresh && int64(len(found)) < want; try++ {
		add(c.lo + c.random(size))
	}
	start := c.random(size)
	for i := int64(0); i < size && int64(len(found)) < want; i++ {
		add(c.lo + (start+i)%size)
	}
	return found
}

func (c config) shuffle(records []Record) {
	for i := len(records) - 1; i > 0; i-- {
		j := c.random(int64(i) + 1)
		records[i], records[j] = records[j], records[i]
	}
}

// reservedOwner begins the owner of a number that is kept out of the leases.
const reservedOwner = "reserved for "

// Reserved reports whether a record keeps its number out of the leases, as [Reserve] does. now is the store's
// time. A process may have such a name too, but no window that ends that far ahead.
func Reserved(r Record, now time.Time) bool {
	return strings.HasPrefix(r.Owner, reservedOwner) && distant(r, now)
}

// distant tells whether a record ends further ahead than any keeper grants: a span, the lead of
// its generator, and the skew of its clock.
func distant(r Record, now time.Time) bool {
	return r.Until.After(now.Add(limits.Far))
}

// NoFreeNodeError says that every number that may be taken is held, by whom, and when the first
// of them falls free. It wraps [ErrNoFreeNode].
type NoFreeNodeError struct {
	// Lo and Hi are the least and the greatest number that may be taken.
	Lo, Hi int64
	// Holders has the record of each, the one that ends first in front.
	Holders []Record
	// Now is the store's time, Free when the first number falls free if it is not extended.
	Now, Free time.Time

	ended []int64 // the numbers whose holders seem to have ended
}

// Error says what to do, too. It names the holders that were processes of this machine and seem to have
// ended without Close.
func (e *NoFreeNodeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: all of %d to %d are held; the first falls free at %s, in %v, unless it is extended: ",
		ErrNoFreeNode, e.Lo, e.Hi, stamp(e.Free), e.Free.Sub(e.Now).Round(time.Millisecond))
	for i, r := range e.Holders {
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Holders)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d until %s by %s", r.Node, stamp(r.Until), holder(r))
		if distant(r, e.Now) && !Reserved(r, e.Now) {
			b.WriteString(" (no keeper grants that far ahead: a clock was wrong, or the record was altered)")
		}
		if slices.Contains(e.ended, r.Node) {
			b.WriteString(" (seems to have ended)")
		}
	}
	if len(e.ended) > 0 {
		fmt.Fprintf(&b, "; %d of the processes were on this machine and seem to have ended without Close, so "+
			"their numbers fall free by themselves", len(e.ended))
	}
	b.WriteString("; wait, stop a process that does not need its number, allow more numbers, or use a layout " +
		"with more node bits; \"snowflake nodes list\" shows all holders, and \"snowflake nodes release NODE " +
		"--force --until now\" frees the number of one that is dead for certain")
	return b.String()
}

// Unwrap returns [ErrNoFreeNode].
func (e *NoFreeNodeError) Unwrap() error { return ErrNoFreeNode }

// NodeHeldError says that the one number that is wanted is held by another tenure. It wraps
// [ErrNodeHeld].
type NodeHeldError struct {
	// Record is what the store says of the number.
	Record Record
	// Now is the store's time.
	Now time.Time
}

// Error says who holds it and what to do.
func (e *NodeHeldError) Error() string {
	remedy := "two processes want the same number: stop one of them, or give it another number"
	switch {
	case Reserved(e.Record, e.Now):
		remedy = "the number is kept out of the leases for good: use another number"
	case distant(e.Record, e.Now):
		remedy = "no keeper grants that far ahead, so a clock was wrong or the record was altered: " +
			"use another number, or see \"snowflake help nodes release\""
	}
	return fmt.Sprintf("%v: node %d until %s, in %v, by %s: %s", ErrNodeHeld, e.Record.Node,
		stamp(e.Record.Until), e.Record.Until.Sub(e.Now).Round(time.Millisecond), holder(e.Record), remedy)
}

// Unwrap returns [ErrNodeHeld].
func (e *NodeHeldError) Unwrap() error { return ErrNodeHeld }

func holder(r Record) string {
	if r.Owner == "" {
		return "nobody (it was given back)"
	}
	return fmt.Sprintf("%q", r.Owner)
}
