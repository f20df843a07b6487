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
	sessions atomic.Int64 // all so far

	settle atomic.Int64 // how long an idle connection may stay, once the service is ending; before that 0

	mu      sync.Mutex
	conns   map[*session]bool
	serving sync.WaitGroup
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

// Shutdown ends the service. Close the listener first. A connection is answered what has come on it, and then
// its client sees the end of it, as also one that stays idle for so long as settle says. If ctx ends first,
// Shutdown closes all connections, and returns the error of ctx if commands were cut off.
func (s *Server) Shutdown(ctx context.Context, settle time.Duration) error {
	s.mu.Lock()
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
	if stopping, _ := s.stops(); stopping {
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
