//go:build unix

package faults_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A fate is what becomes of a swap of the lease on its way through a proxy.
type fate int

const (
	fatePass     fate = iota
	fateUnheard       // it is applied, and its answer is lost
	fateLost          // it does not arrive
	fateLate          // the connection is cut, and it arrives after that
	fateVeryLate      // the same, when the next attempts are over
)

func (f fate) String() string {
	return [...]string{"pass", "answer lost", "request lost", "late", "very late"}[f]
}

// A proxy is the way to a server, which can be closed and on which requests and answers get lost.
type proxy struct {
	t         *testing.T
	address   string
	upstreams []string      // connections go to them in turn
	late      time.Duration // how late a late one is

	mu sync.Mutex
	// All below is guarded by mu.
	listener net.Listener // nil while it refuses
	links    map[*link]bool
	turn     int
	fate     fate         // of swaps
	victims  []byte       // those of the owners whose names begin so
	met      map[fate]int // how many swaps have met it

	work sync.WaitGroup
}

// A link is one connection through the proxy.
type link struct {
	client, server net.Conn
	answered       chan struct{} // closed when no answers are taken to the client any more
}

func (l *link) cut() { _, _ = l.client.Close(), l.server.Close() }

// newProxy starts a proxy to an address, or to several in turn.
func newProxy(t *testing.T, late time.Duration, upstreams ...string) *proxy {
	t.Helper()
	p := &proxy{
		t: t, upstreams: upstreams, late: late,
		address: "127.0.0.1:0", links: make(map[*link]bool), met: make(map[fate]int),
	}
	p.accept()
	t.Cleanup(func() {
		p.refuse()
		p.work.Wait()
	})
	return p
}

func (p *proxy) port() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listener.Addr().(*net.TCPAddr).Port
}

// accept opens the way.
func (p *proxy) accept() {
	p.t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(p.t.Context(), "tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.address = l, l.Addr().String()
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			p.work.Go(func() { p.connect(client) })
		}
	})
}

// refuse closes the way, for those who are on it too.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.cut()
	}
}

// decree says what becomes of swaps from now on: those of the owners whose names begin so.
func (p *proxy) decree(f fate, owners string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate, p.victims = f, []byte(owners)
}

// count returns how many swaps have met a fate.
func (p *proxy) count(f fate) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met[f]
}

func (p *proxy) connect(client net.Conn) {
	var dialer net.Dialer
	p.mu.Lock()
	upstream := p.upstreams[p.turn%len(p.upstreams)]
	p.turn++
	p.mu.Unlock()
	server, err := dialer.DialContext(p.t.Context(), "tcp", upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client, server, make(chan struct{})}
	p.mu.Lock()
	p.links[l] = true
	closed := p.listener == nil
	p.mu.Unlock()
	if closed {
		l.cut()
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer close(l.answered)
		// Nothing but Read and Write: what is read after the client is gone fails to be written.
		_, _ = io.Copy(struct{ io.Writer }{client}, struct{ io.Reader }{server})
		l.cut()
	})
	both.Go(func() {
		p.forward(l)
		l.cut()
	})
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// forward takes the requests of a client to the server.
func (p *proxy) forward(l *link) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			err = errors.Join(err, p.meet(l, buffer[:n]))
		}
		if err != nil {
			return
		}
	}
}

// meet lets a request meet its fate, if it is a swap. The connection ends with that, unless it is
// to pass.
func (p *proxy) meet(l *link, request []byte) error {
	p.mu.Lock()
	f := fatePass
	// A swap names the new owner before the one that it takes the number from.
	_, swap, found := bytes.Cut(request, []byte(ownerPrefix))
	if found && bytes.HasPrefix(swap, p.victims) {
		f = p.fate
		p.met[f]++
	}
	p.mu.Unlock()
	late := time.Duration(0)
	switch f {
	case fatePass:
		_, err := l.server.Write(request)
		return err
	case fateLost:
		return net.ErrClosed
	case fateLate:
		late = p.late
	case fateVeryLate:
		late = 3 * p.late
	}
	_ = l.client.Close() // nothing that the server says from now on is heard
	select {
	case <-time.After(late):
	case <-p.t.Context().Done():
		return net.ErrClosed
	}
	if _, err := l.server.Write(request); err != nil {
		return err
	}
	// It ends when the server's answer finds nobody.
	select {
	case <-l.answered:
	case <-p.t.Context().Done():
	}
	return net.ErrClosed
}
