// Package netlimit bounds how many connections a service has. When the limit is reached, the connection that
// has been idle for longest gives way to a new one, so idle connections cannot keep clients out. If no
// connection is idle, the new one is closed.
//
//	limiter := netlimit.New(4096)
//	listener = limiter.Listen(listener)
package netlimit

import (
	"container/list"
	"net"
	"sync"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/unwrap"
)

// Limiter counts the connections of any number of listeners. Make one with [New]. Its methods are safe
// for concurrent use.
type Limiter struct {
	most int

	mu      sync.Mutex
	open    int
	idle    *list.List // of *Conn, the one that has been idle for longest in front
	evicted uint64
	refused uint64
}

// Counts is a snapshot of a limiter.
type Counts struct {
	Open, Idle       int
	Evicted, Refused uint64
}

// New returns a limiter that allows so many connections, and at least one.
func New(most int) *Limiter { return &Limiter{most: max(most, 1), idle: list.New()} }

// Counts returns how many connections there are and were.
func (l *Limiter) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Counts{Open: l.open, Idle: l.idle.Len(), Evicted: l.evicted, Refused: l.refused}
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
	if l.open >= l.most {
		front := l.idle.Front()
		if front == nil {
			l.refused++
			return nil
		}
		victim = front.Value.(*Conn)
		l.remove(victim)
		l.evicted++
	}
	conn := &Conn{Conn: inner, limiter: l}
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
}

// Conn is a counted connection.
type Conn struct {
	net.Conn

	limiter *Limiter
	element *list.Element // guarded by the limiter's mu; nil if the connection works
	gone    bool          // guarded by the limiter's mu
}

// SetIdle says whether the connection waits for a request. A nil connection is none that is counted.
func (c *Conn) SetIdle(idle bool) {
	if c == nil {
		return
	}
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

// NetConn returns the connection inside.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// Of returns the counted connection inside of conn, or nil.
func Of(conn net.Conn) *Conn { return unwrap.To[*Conn](conn) }
