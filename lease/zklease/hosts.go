package zklease

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
)

var _ zk.HostProvider = (*HostProvider)(nil)

// A HostProvider tells the client which server to try next, and opens the connections to them. Give it
// to zk.Connect twice:
//
//	hosts := zklease.NewHostProvider(ctx)
//	conn, events, err := zk.Connect(servers, 10*time.Second,
//		zk.WithHostProvider(hosts), zk.WithDialer(hosts.Dial))
//
// It shortens two waits of the client. A client that has tried every server waits for a second before
// it begins again; with this provider it waits for 50 to 100 ms. And a server that is just starting may
// accept a connection and never answer on it. The client waits for that answer for almost seven times the
// length of its session; with this provider it waits for a quarter of a second at first, and for twice
// as long after each such wait.
//
// A HostProvider is for one connection. Make it with [NewHostProvider]; the zero value is not usable.
// The names of the servers are looked up once, as the client's own provider does it.
type HostProvider struct {
	ended    context.Context //nolint:containedctx // the interface that is implemented knows no contexts
	hosts    *zk.DNSHostProvider
	patience atomic.Int64 // a time.Duration: how long the first answer of a server may take
}

const (
	// reconnectPause is the longest pause after every server was tried. It is cut at random by up to
	// half, so that the clients of a server that comes back do not arrive together.
	reconnectPause = 100 * time.Millisecond
	// The first answer of a server may take minPatience, and up to maxPatience if others took too long.
	minPatience = 250 * time.Millisecond
	maxPatience = 32 * time.Second
)

// NewHostProvider returns a provider for one connection. End ctx when the connection is closed: no new one
// is opened after that, and while no server answers, the client notices a Close only once ctx has ended.
func NewHostProvider(ctx context.Context) *HostProvider {
	p := &HostProvider{ended: ctx, hosts: zk.NewDNSHostProvider()}
	p.patience.Store(int64(minPatience))
	return p
}

// Init looks up the addresses of the servers. The client calls it once.
func (p *HostProvider) Init(servers []string) error { return p.hosts.Init(servers) }

// Len returns how many addresses there are.
func (p *HostProvider) Len() int { return p.hosts.Len() }

// Connected notes that the client has a session with the server that Next returned last.
func (p *HostProvider) Connected() {
	p.patience.Store(int64(minPatience))
	p.hosts.Connected()
}

// Next returns the server to try. It pauses when every server was tried since the last session. It
// asks the client for a pause of its own only when ctx has ended, because that is where the client
// looks for a Close.
func (p *HostProvider) Next() (server string, retryStart bool) {
	server, all := p.hosts.Next()
	if !all {
		return server, p.ended.Err() != nil
	}
	return server, attempt.Sleep(p.ended, reconnectPause-rand.N(reconnectPause/2)) != nil
}

// Dial opens a connection to a server. It is a zk.Dialer.
func (p *HostProvider) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(p.ended, network, address)
	if err != nil {
		return nil, err
	}
	limit := time.Now().Add(time.Duration(p.patience.Load()))
	return &impatient{Conn: conn, provider: p, limit: limit}, nil
}

// An impatient connection is one whose first answer has a limit. The client reads from one goroutine
// at a time.
type impatient struct {
	net.Conn
	provider *HostProvider
	limit    time.Time // of the first answer; zero when it has come
}

// SetReadDeadline sets the deadline, but not beyond the limit of the first answer.
func (c *impatient) SetReadDeadline(t time.Time) error {
	if !c.limit.IsZero() && (t.IsZero() || t.After(c.limit)) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}

// Read reads what has arrived.
func (c *impatient) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.limit.IsZero():
	case n > 0:
		c.limit = time.Time{}
	case errors.Is(err, os.ErrDeadlineExceeded):
		patience := time.Duration(c.provider.patience.Load())
		c.provider.patience.Store(int64(min(2*patience, maxPatience)))
	}
	return n, err
}
