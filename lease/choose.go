package lease

import (
	"slices"
	"time"
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

// unused returns some of the numbers that have no record, at random.
func (c config) unused(known map[int64]bool) []Record {
	left := c.hi - c.lo + 1 - int64(len(known))
	want := min(left, fresh)
	var found []Record
	taken := make(map[int64]bool)
	add := func(node int64) {
		if !known[node] && !taken[node] {
			taken[node] = true
			found = append(found, Record{Node: node})
		}
	}
	// Where most are unused a few throws of dice find them; where few are, a search does.
	for try := 0; try < 4*fresh && int64(len(found)) < want; try++ {
		add(c.lo + c.random(c.hi-c.lo+1))
	}
	size := c.hi - c.lo + 1
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
