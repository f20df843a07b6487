// Package resp speaks the protocol of Redis, because every language has a client for it:
//
//	INCR source                    one ID, as an integer
//	SNOWFLAKE.NEXT count [source]  an array of IDs, as integers
//	SNOWFLAKE.TEXT count [source]  an array of IDs, as texts: exact in JavaScript too
//	PING, ECHO, AUTH, HELLO, INFO, QUIT
//
// The protocol is read with fixed limits, so the memory of a connection is bounded by construction, and
// not by a check of what has been read already.
package resp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/access"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
)

// Options says what a server needs.
type Options struct {
	Desk    *issue.Desk
	Tokens  *access.Tokens
	Metrics *metrics.Set
	// Info returns the lines of INFO, each of the form name:value.
	Info func() []string
	// Idle is how long a connection may wait for its next command; Greeting how long it may take to show
	// a token, where one is required; Slow how long a command may take from its first byte to its last,
	// and an answer to be taken.
	Idle, Greeting, Slow time.Duration
}

// Server serves connections. Make one with [New].
type Server struct {
	options Options
	context context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	stopping bool
	conns    map[*session]bool
	serving  sync.WaitGroup
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{options: o, conns: make(map[*session]bool)}
	s.context, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve serves the connections of a listener until it is closed, which Shutdown does not do.
func (s *Server) Serve(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		c := newSession(s, conn)
		if !s.add(c) {
			_ = conn.Close()
			continue
		}
		go func() {
			defer s.remove(c)
			c.serve()
		}()
	}
}

// Shutdown lets every connection finish the commands that it has sent, and closes it. Close the listener
// first. When ctx ends it closes what is left, and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.conn.Close()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}

func (s *Server) add(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.conns[c] = true
	s.serving.Add(1)
	return true
}

func (s *Server) remove(c *session) {
	_ = c.conn.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.serving.Done()
}

func (s *Server) stops() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	idle   *netlimit.Conn // may be nil
	in     *reader
	out    *writer

	known    bool // a token was shown, or none is required
	failures int  // of AUTH

	mu      sync.Mutex
	waiting bool // for the first byte of a command
	woken   bool // no deadline may be set any more
}

func newSession(s *Server, conn net.Conn) *session {
	c := &session{server: s, conn: conn, idle: netlimit.Of(conn), known: !s.options.Tokens.Required()}
	c.in = newReader(conn)
	c.out = &writer{Writer: bufio.NewWriterSize(slowWriter{conn, s.options.Slow}, readBuffer)}
	return c
}

// slowWriter gives every write a deadline of its own.
type slowWriter struct {
	conn  net.Conn
	limit time.Duration
}

func (w slowWriter) Write(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
		return 0, err
	}
	return w.conn.Write(p)
}

// wake ends the wait for the next command.
func (c *session) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	if c.waiting {
		_ = c.conn.SetReadDeadline(time.Now())
	}
}

// await waits for the first byte of a command, and then gives the rest of it its time.
func (c *session) await() error {
	if c.in.buf.Buffered() > 0 {
		return c.conn.SetReadDeadline(time.Now().Add(c.server.options.Slow))
	}
	limit := c.server.options.Idle
	if !c.known {
		limit = c.server.options.Greeting
	}
	c.mu.Lock()
	c.waiting = true
	deadline := time.Now().Add(limit)
	if c.woken {
		deadline = time.Now()
	}
	err := c.conn.SetReadDeadline(deadline)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if c.idle != nil {
		c.idle.SetIdle(true)
	}
	_, err = c.in.buf.Peek(1)
	if c.idle != nil {
		c.idle.SetIdle(false)
	}
	c.mu.Lock()
	c.waiting = false
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.conn.SetReadDeadline(time.Now().Add(c.server.options.Slow))
}

// serve answers commands until the connection ends. Answers to commands that came together leave
// together.
func (c *session) serve() {
	for {
		if err := c.await(); err != nil {
			return
		}
		args, err := c.in.command()
		if err != nil {
			var wrong *protocolError
			if errors.As(err, &wrong) {
				c.out.fail("ERR", wrong.Error())
				_ = c.out.Flush()
			}
			return
		}
		more := true
		if len(args) > 0 {
			more = c.answer(args)
		}
		if !more || c.in.buf.Buffered() == 0 {
			if c.out.Flush() != nil {
				return
			}
			if !more || c.server.stops() {
				return
			}
		}
	}
}
