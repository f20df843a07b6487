package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
)

// lookEvery is how often Settle looks whether the connections are idle.
const lookEvery = 10 * time.Millisecond

// conns knows since when each connection is idle. Its methods are safe for concurrent use. The zero value is
// ready to use.
type conns struct {
	mu  sync.Mutex
	all map[net.Conn]time.Time // when it became idle; zero if it has a request
}

// note is called when a connection changes.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[net.Conn]time.Time)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.all[conn] = time.Now()
	case http.StateActive:
		c.all[conn] = time.Time{}
	case http.StateHijacked, http.StateClosed:
		delete(c.all, conn)
	}
}

// settled says whether every connection was idle all the time since then, which is not before the beginning,
// or there is none.
func (c *conns) settled(since, began time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.all {
		if since.Before(began) || idle.IsZero() || idle.After(since) {
			return false
		}
	}
	return true
}

// Settle waits until all connections that are left have been idle for a time, while the service tells clients
// with every answer that they should leave. A client that sends its next request just now gets its answer,
// where Shutdown would close the connection under it. Settle ends with ctx at the latest. The time counts
// from the beginning of the end, when answers began to say so.
func (s *Server) Settle(ctx context.Context, began time.Time, idle time.Duration) {
	for !s.conns.settled(time.Now().Add(-idle), began) {
		if attempt.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}
