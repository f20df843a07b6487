// Package netbatch joins small writes on a connection into few large ones, and small reads too. A server of
// HTTP/2 writes each frame by itself, and an answer of gRPC has three: headers, message and trailers. Each
// write costs a call of the kernel and wakes the client. Here a write only fills a buffer. A goroutine lets
// those run first that are about to write more, and then writes all of it at once.
//
//	listener := netbatch.Listen(inner, 10*time.Second)
//	...
//	netbatch.Of(conn).Begin() // joins from now on
//	...
//	listener.Wait() // after all connections are closed
//
// grpc-go also yields once before it writes; the idea is from there.
package netbatch

import (
	"bufio"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/unwrap"
)

const (
	// most is how many bytes may wait before Write waits too.
	most = 64 << 10
	// kept is the size of the largest buffer that is kept for the next writes.
	kept = 4 << 10
	// readAhead is how many bytes are read at once, if they are there.
	readAhead = 2 << 10
	// farewell bounds how long a closed connection still writes.
	farewell = time.Second
)

// Listener gives connections of type *[Conn]. Make one with [Listen]. Its methods are safe for concurrent
// use.
type Listener struct {
	net.Listener

	slow     time.Duration
	flushing sync.WaitGroup
}

// Listen wraps a listener. Slow is how long one write of a connection may take after [Conn.Begin]; then the
// connection is closed.
func Listen(inner net.Listener, slow time.Duration) *Listener {
	return &Listener{Listener: inner, slow: slow}
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: inner, listener: l}
	c.room.L = &c.mu
	return c, nil
}

// Wait waits until the connections, all of which must be closed, have written what was handed over to
// them. That takes a second at most.
func (l *Listener) Wait() { l.flushing.Wait() }

// Conn is a connection that can join writes. It has the methods of a net.Conn, which are safe for
// concurrent use.
type Conn struct {
	net.Conn

	listener *Listener
	joins    atomic.Bool

	reading sync.Mutex
	ahead   *bufio.Reader // guarded by reading; nil before the first read that is joined

	mu      sync.Mutex // guards what follows
	room    sync.Cond  // is told when bytes were written, and when nothing will be written any more
	waiting []byte     // to be written
	spare   []byte     // an empty buffer
	writing bool       // by flush
	closed  bool
	err     error // of a write; nothing is written after it
}

// Of returns the connection of this package inside of conn, or nil.
func Of(conn net.Conn) *Conn { return unwrap.To[*Conn](conn) }

// NetConn returns the connection inside.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Begin joins reads and writes from now on. It may be called any number of times, while others read and
// write.
func (c *Conn) Begin() {
	if !c.joins.Load() { // reading is cheaper than writing
		c.joins.Store(true)
	}
}

// Read reads what has come. After [Conn.Begin] it reads ahead, because a server of HTTP/2 asks for the head
// of a frame and for its body one after the other.
func (c *Conn) Read(p []byte) (int, error) {
	if !c.joins.Load() {
		return c.Conn.Read(p)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.ahead == nil {
		c.ahead = bufio.NewReaderSize(c.Conn, readAhead)
	}
	return c.ahead.Read(p)
}

// Write hands p over to be written soon. It returns the error of an earlier write if there was one, and
// waits while too many bytes are waiting. Before [Conn.Begin] it writes at once.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.joins.Load() {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > most && c.err == nil && !c.closed {
		c.room.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.err != nil:
		return 0, c.err
	}
	c.waiting = append(c.waiting, p...)
	if !c.writing {
		c.writing = true
		c.listener.flushing.Add(1)
		go c.flush()
	}
	return len(p), nil
}

// flush writes until nothing is waiting.
func (c *Conn) flush() {
	defer c.listener.flushing.Done()
	for {
		runtime.Gosched() // whoever is about to write more does so first
		batch, closed := c.take()
		if batch == nil {
			if closed {
				_ = c.Conn.Close() // Close has left it to this goroutine
			}
			return
		}
		_, err := c.Conn.Write(batch)
		if err != nil {
			_ = c.Conn.Close() // so that the reader notices
		}
		c.wrote(batch, err)
	}
}

// take returns what is waiting. If that is nothing, flush ends, and take says whether the connection is
// closed.
func (c *Conn) take() (batch []byte, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || c.err != nil {
		c.writing = false
		return nil, c.closed
	}
	batch, c.waiting, c.spare = c.waiting, c.spare, nil
	if !c.closed { // Close has set an earlier deadline
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.listener.slow)) // if that fails, writing fails as well
	}
	return batch, false
}

func (c *Conn) wrote(batch []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	if cap(batch) <= kept {
		c.spare = batch[:0]
	}
	c.room.Broadcast()
}

// SetWriteDeadline does nothing after [Conn.Begin], because each write then has the limit of [Listen]. The
// deadline of a call of Write could end before its bytes are written.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if c.joins.Load() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetReadDeadline and [Conn.SetWriteDeadline].
func (c *Conn) SetDeadline(t time.Time) error {
	if c.joins.Load() {
		return c.SetReadDeadline(t)
	}
	return c.Conn.SetDeadline(t)
}

// Close closes the connection. As with a socket, what was handed over before is still written, for a second
// at most; see [Listener.Wait].
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	writing := c.writing
	if writing {
		now := time.Now()
		_ = c.SetReadDeadline(now) // who reads is told now
		_ = c.Conn.SetWriteDeadline(now.Add(farewell))
	}
	c.room.Broadcast()
	c.mu.Unlock()
	if writing {
		return nil
	}
	return c.Conn.Close()
}
