// Package netlimit bounds how many connections a service has. When the limit is reached, the connection that
// has been idle for longest gives way to a new one, so idle connections cannot keep clients out. If no
// connection is idle, the new one is closed. It can also bound the connections of each client address, and
// the IDs that it takes.
//
//	limiter := netlimit.New(netlimit.Limits{Connections: 4096})
//	listener = limiter.Listen(listener)
package netlimit

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/unwrap"
)

// Limiter counts the connections of any number of listeners. Make one with [New]. Its methods are safe
// for concurrent use.
type Limiter struct {
	limits Limits
	slowed atomic.Uint64

	mu        sync.Mutex
	addresses map[netip.Addr]*address
	resting   *list.List // of *address, the one that has rested for longest in front
	crowded   uint64
	open      int
	idle      *list.List // of *Conn, the one that has been idle for longest in front
	evicted   uint64
	refused   uint64
}

// Limits says what a limiter allows.
type Limits struct {
	// Connections is how many there may be, at least 1.
	Connections int
	// PerAddress is how many of them one address may have, and Rate how many IDs it may take in a second, and
	// at once. A request that gets no ID counts as one. An address of IPv6 stands for its network of 64 bits.
	// 0 means no limit.
	PerAddress, Rate int
}

// Counts is a snapshot of a limiter.
type Counts struct {
	Open, Idle       int
	Evicted, Refused uint64
	Addresses        int    // that are remembered; 0 without a limit for each
	Crowded          uint64 // connections that were refused because their address had too many
	Slowed           uint64 // requests that were refused because their address took too many IDs
}

// New returns a limiter.
func New(limits Limits) *Limiter {
	limits.Connections = max(limits.Connections, 1)
	return &Limiter{
		limits: limits, idle: list.New(), addresses: make(map[netip.Addr]*address), resting: list.New(),
	}
}

// Counts returns how many connections there are and were.
func (l *Limiter) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Counts{
		Open: l.open, Idle: l.idle.Len(), Evicted: l.evicted, Refused: l.refused,
		Addresses: len(l.addresses), Crowded: l.crowded, Slowed: l.slowed.Load(),
	}
}

// Listen wraps a listener. Its connections are of type *[Conn] and idle at first.
func (l *Limiter) Listen(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener

	limiter *Limiter
}

// Accept returns the next connection for which there is room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := l.limiter.admit(inner); conn != nil {
			return conn, nil
		}
		_ = inner.Close()
	}
}

// admit makes room for a connection, or returns nil.
func (l *Limiter) admit(inner net.Conn) *Conn {
	var victim *Conn
	defer func() {
		if victim != nil {
			_ = victim.Conn.Close() // its reader notices, and calls Close
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.enter(inner)
	if from != nil && l.limits.PerAddress > 0 && from.open >= l.limits.PerAddress {
		l.crowded++
		return nil
	}
	if from != nil {
		from.open++ // before another connection of the address gives way, which could be its last
	}
	if l.open >= l.limits.Connections {
		front := l.idle.Front()
		if front == nil {
			l.refused++
			if from != nil {
				from.open--
				l.leave(from)
			}
			return nil
		}
		victim = front.Value.(*Conn)
		l.remove(victim)
		l.evicted++
	}
	conn := &Conn{Conn: inner, limiter: l, address: from}
	conn.element = l.idle.PushBack(conn)
	l.open++
	return conn
}

// remove forgets a connection, once.
func (l *Limiter) remove(c *Conn) {
	if c.gone {
		return
	}
	c.gone = true
	l.open--
	if c.element != nil {
		l.idle.Remove(c.element)
		c.element = nil
	}
	if c.address != nil {
		c.address.open--
		l.leave(c.address)
	}
}

// Conn is a counted connection.
type Conn struct {
	net.Conn

	limiter *Limiter
	address *address      // nil if addresses are not limited
	element *list.Element // guarded by the limiter's mu; nil if the connection works
	gone    bool          // guarded by the limiter's mu
}

// SetIdle says whether the connection waits for a request.
func (c *Conn) SetIdle(idle bool) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	switch {
	case c.gone:
	case !idle && c.element != nil:
		c.limiter.idle.Remove(c.element)
		c.element = nil
	case idle && c.element == nil:
		c.element = c.limiter.idle.PushBack(c)
	}
}

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// Of returns the counted connection inside of conn, or nil.
func Of(conn net.Conn) *Conn { return unwrap.To[*Conn](conn) }
