// Package resp speaks the protocol of Redis, because every language has a client for it:
//
//	INCR source                       one ID
//	INCRBY source 1                   the same, as clients in Python send it
//	SNOWFLAKE.NEXT count [source]     an array of IDs
//	SNOWFLAKE.TEXT count [source]     the same
//	SNOWFLAKE.INTEGER count [source]  an array of IDs, as integers
//	PING, ECHO, AUTH, HELLO, SELECT, CLIENT, COMMAND, INFO, QUIT
//
// IDs are bulk strings, not integers, because clients in JavaScript round integers above 2^53, and two IDs
// become one. Clients that know the type of INCR turn the text into an integer.
//
// The protocol is read with fixed limits, so the memory of a connection is bounded by construction, and
// not by a check of what has been read already.
package resp

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
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
	Log     *slog.Logger
	// Info returns the lines of INFO, each of the form name:value.
	Info func() []string
	// Idle is how long a connection may wait for its next command; Greeting how long it may take to show
	// a token, where one is required; Slow how long a command may take from its first byte to its last,
	// and an answer to be taken.
	Idle, Greeting, Slow time.Duration
}

// Server serves connections. Make one with [New].
type Server struct {
	options  Options
	commands map[string]command
	log      *issue.QuietLog
	context  context.Context
	cancel   context.CancelFunc
	strayed  atomic.Uint64 // connections that spoke HTTP
	sessions atomic.Int64  // all so far

	settle atomic.Int64 // how long an idle connection may stay, once the service is ending; before that 0

	mu       sync.Mutex
	stopping bool
	conns    map[*session]bool
	serving  sync.WaitGroup
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		options: o, commands: commands(), conns: make(map[*session]bool), log: issue.NewQuietLog(o.Log),
	}
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

// Strayed is how many connections were ended because they spoke HTTP.
func (s *Server) Strayed() uint64 { return s.strayed.Load() }

// Shutdown ends the service without losing a command. Close the listener first. Every command that comes from
// now on is answered with an error that tells the client to ask another replica. A connection ends when its
// client leaves, when it stays idle for so long as settle says and nothing was refused on it, or when ctx
// ends. Shutdown returns the error of ctx if commands were cut off then.
func (s *Server) Shutdown(ctx context.Context, settle time.Duration) error {
	s.mu.Lock()
	s.stopping = true
	s.settle.Store(int64(max(settle, 1)))
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
	var cut error
	s.mu.Lock()
	for c := range s.conns {
		if !c.waits() {
			cut = ctx.Err()
		}
		_ = c.conn.Close()
	}
	s.mu.Unlock()
	<-done
	return cut
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

// stops says whether the service is ending, and how long an idle connection may still stay.
func (s *Server) stops() (stopping bool, settle time.Duration) {
	settle = time.Duration(s.settle.Load())
	return settle > 0, settle
}

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	idle   *netlimit.Conn // may be nil
	client issue.Client
	in     *reader
	out    *writer

	id       int64 // of CLIENT ID
	name     string
	known    bool // a token was shown, or none is required
	failures int  // of AUTH
	refused  bool // a command, because the service is ending

	mu      sync.Mutex
	waiting bool // for the first byte of a command
}

func newSession(s *Server, conn net.Conn) *session {
	c := &session{
		server: s, conn: conn, idle: netlimit.Of(conn), client: issue.Nobody{}, id: s.sessions.Add(1),
		known: !s.options.Tokens.Required(),
	}
	if c.idle != nil {
		c.client = c.idle
	}
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

// wake shortens the wait for the next command, because the service is ending.
func (c *session) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, settle := c.server.stops(); c.waiting {
		_ = c.conn.SetReadDeadline(time.Now().Add(settle))
	}
}

// waits says whether nothing of a command has come that is not answered.
func (c *session) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// patience is how long the next command may take to begin. A client that was told to leave may take all the
// time that the end of the service has: Shutdown closes the connection then.
func (c *session) patience() time.Duration {
	limit := c.server.options.Idle
	if !c.known {
		limit = c.server.options.Greeting
	}
	if stopping, settle := c.server.stops(); stopping && !c.refused {
		limit = min(limit, settle)
	}
	return limit
}

// await waits for the first byte of a command, and then gives the rest of it its time.
func (c *session) await() error {
	if c.in.buf.Buffered() > 0 {
		return c.conn.SetReadDeadline(time.Now().Add(c.server.options.Slow))
	}
	c.mu.Lock()
	c.waiting = true // so wake finds it if the service begins to end after this
	deadline := time.Now().Add(c.patience())
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
		if c.out.broken() {
			return // the client has gone, and gets none of what it has asked for
		}
		if !more || c.in.buf.Buffered() == 0 {
			if c.out.Flush() != nil || !more {
				return
			}
		}
	}
}
