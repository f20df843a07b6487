package servers

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay passes bytes between clients and a server, until it is told to be a network that fails.
type Relay struct {
	target   string
	listener net.Listener

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed when the state changes
	conns   map[net.Conn]bool
}

// A state is how the network is.
type state int

const (
	whole  state = iota
	silent       // requests arrive, answers do not
	split        // nothing arrives, in neither direction
)

// NewRelay listens on a port of 127.0.0.1 and passes everything on to target, until the test ends.
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

// Addr is where clients find the relay, as host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// LoseAnswers keeps what the server sends from now on to itself. Requests arrive as before.
func (r *Relay) LoseAnswers() { r.set(silent) }

// Split keeps everything that is sent from now on. Connections stay, and new ones can be made.
func (r *Relay) Split() { r.set(split) }

// Mend lets through what is sent from now on, and what was kept by Split and LoseAnswers.
func (r *Relay) Mend() { r.set(whole) }

// Cut closes all connections, and what they kept is lost. New ones can be made.
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
	r.conns[client], r.conns[server] = true, true
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

// pass copies one direction while the state is below limit, and ends both with itself.
func (r *Relay) pass(to, from net.Conn, limit state) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && r.wait(to, limit) {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// wait waits until the state is below limit. It returns false if the connection was cut meanwhile.
func (r *Relay) wait(conn net.Conn, limit state) bool {
	for {
		r.mu.Lock()
		open, state, changed := r.open(conn), r.state, r.changed
		r.mu.Unlock()
		if !open || state < limit {
			return open
		}
		<-changed
	}
}

// open tells whether a connection was not cut; r.mu is locked.
func (r *Relay) open(conn net.Conn) bool {
	// A deadline can be set as long as the connection is open.
	return conn.SetDeadline(time.Time{}) == nil
}
