package servers

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay passes bytes between clients and a server. It can simulate a network that fails.
type Relay struct {
	target   string
	listener net.Listener

	mu      sync.Mutex
	state   state
	fatal   string            // a request that has it is followed by silence; usually empty
	changed chan struct{}     // closed when the state changes
	conns   map[net.Conn]bool // true for one that stays silent
	dialed  int               // connections that clients have made
}

// A state is the condition of the network.
type state int

const (
	whole  state = iota
	silent       // requests arrive, but answers do not
	split        // nothing arrives in either direction
)

// NewRelay listens on a port of 127.0.0.1 and relays every connection to target until the test
// ends.
func NewRelay(tb testing.TB, target string) *Relay {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{
		target: target, listener: listener,
		changed: make(chan struct{}), conns: make(map[net.Conn]bool),
	}
	var serving sync.WaitGroup
	serving.Go(r.serve)
	tb.Cleanup(func() {
		_ = listener.Close()
		r.Mend()
		r.Cut()
		serving.Wait()
	})
	return r
}

// Addr returns the address of the relay as host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// LoseAnswers holds back everything that the server sends from now on. Requests still arrive.
func (r *Relay) LoseAnswers() { r.set(silent) }

// LoseAnswersTo is LoseAnswers, but begins with the next request in which this text is.
func (r *Relay) LoseAnswersTo(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fatal = request
}

// Split holds back everything in both directions. Connections stay open, and new ones can be made.
func (r *Relay) Split() { r.set(split) }

// Mend ends Split and LoseAnswers, and also delivers what they held back.
func (r *Relay) Mend() { r.set(whole) }

// Forget ends Split and LoseAnswers for new connections only. Those that are there stay silent and open, as
// behind a firewall that has forgotten them. What was held back is lost.
func (r *Relay) Forget() {
	r.mu.Lock()
	for conn := range r.conns {
		r.conns[conn] = true
	}
	r.mu.Unlock()
	r.set(whole)
}

// Dialed is how many connections clients have made so far.
func (r *Relay) Dialed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dialed
}

// Refuse makes no connection from now on. Those that are there stay.
func (r *Relay) Refuse() { _ = r.listener.Close() }

// Cut closes all connections. What was held back is lost. New connections can be made.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) set(s state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = s
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) serve() {
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		connections.Go(func() { r.connect(client) })
	}
}

func (r *Relay) connect(client net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	r.dialed++
	r.conns[client], r.conns[server] = false, false
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.pass(server, client, split) })
	both.Go(func() { r.pass(client, server, silent) })
	both.Wait()
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, server)
	r.mu.Unlock()
}

// pass copies one direction while the state is below limit. When it returns, it closes both
// connections.
func (r *Relay) pass(to, from net.Conn, limit state) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if limit == split {
			r.asked(buffer[:n])
		}
		if n > 0 && r.wait(to, limit) {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// asked looks for the request that silence follows.
func (r *Relay) asked(request []byte) {
	r.mu.Lock()
	fatal := r.fatal != "" && bytes.Contains(request, []byte(r.fatal))
	if fatal {
		r.fatal = ""
	}
	r.mu.Unlock()
	if fatal {
		r.LoseAnswers()
	}
}

// wait waits until the state is below limit. It returns false if the connection was cut in the
// meantime.
func (r *Relay) wait(conn net.Conn, limit state) bool {
	for {
		r.mu.Lock()
		open, state, changed := r.open(conn), r.state, r.changed
		if r.conns[conn] {
			state = split
		}
		r.mu.Unlock()
		if !open || state < limit {
			return open
		}
		<-changed
	}
}

// open reports whether a connection was not cut. The caller holds r.mu.
func (r *Relay) open(conn net.Conn) bool {
	// A deadline can be set only while the connection is open.
	return conn.SetDeadline(time.Time{}) == nil
}
