package snowflakeplugin

import (
	"fmt"
	"sync"
	"time"
)

const (
	// contestedFor is how long a witness counts: Health tells of it, and a second one of another key has a
	// leased number given up.
	contestedFor = 10 * time.Minute
	// contestSaid is how often the log says it.
	contestSaid = time.Minute
)

// contest remembers the rows by which somebody else was seen to make IDs with the node number of the plugin.
// The zero contest has none.
type contest struct {
	mu   sync.Mutex
	last witness
	said time.Time
}

// witness is a row that somebody else has made, with a key that was made here.
type witness struct {
	table    string
	id, node int64
	seen     time.Time
}

func (w witness) String() string {
	return fmt.Sprintf("%s has a row of somebody else with the key %d, of node %d", w.table, w.id, w.node)
}

// add remembers a witness. again reports whether there was one of the same node with another key before, and
// say whether it is time to say so.
func (c *contest) add(w witness) (again, say bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.last.node == w.node && w.seen.Sub(c.last.seen) < contestedFor && !c.last.seen.IsZero()
	again = known && c.last.id != w.id
	say = !known || w.seen.Sub(c.said) >= contestSaid
	if say {
		c.said = w.seen
	}
	c.last = w
	return again, say
}

// lastOf returns the last witness of a node, if it still counts.
func (c *contest) lastOf(node int64) (witness, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.last
	return w, w.node == node && !w.seen.IsZero() && time.Since(w.seen) < contestedFor
}
