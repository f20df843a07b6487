package zklease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
)

var _ zk.HostProvider = (*HostProvider)(nil)

// A HostProvider tells the client which server to try next. Give it to zk.WithHostProvider:
//
//	hosts := zklease.NewHostProvider(ctx)
//	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithHostProvider(hosts))
//
// With the client's own provider, a client that has tried every server waits for a second before it
// begins again. So when all servers were away, or the only one, IDs come back up to a second after
// the server. With this provider the client waits for 50 to 100 ms. The names of the servers are
// looked up once, as the client's own provider does it.
//
// A HostProvider is for one connection. Make it with [NewHostProvider]; the zero value is not usable.
type HostProvider struct {
	ended context.Context //nolint:containedctx // the interface that is implemented knows no contexts
	hosts *zk.DNSHostProvider
}

// reconnectPause is the longest pause after every server was tried. It is cut at random by up to half,
// so that the clients of a server that comes back do not arrive together.
const reconnectPause = 100 * time.Millisecond

// NewHostProvider returns a provider for one connection. End ctx before or after the Close of the
// connection: while no server answers, the client notices a Close only once ctx has ended.
func NewHostProvider(ctx context.Context) *HostProvider {
	return &HostProvider{ended: ctx, hosts: zk.NewDNSHostProvider()}
}

// Init looks up the addresses of the servers. The client calls it once.
func (p *HostProvider) Init(servers []string) error { return p.hosts.Init(servers) }

// Len returns how many addresses there are.
func (p *HostProvider) Len() int { return p.hosts.Len() }

// Connected notes that the client has a session with the server that Next returned last.
func (p *HostProvider) Connected() { p.hosts.Connected() }

// Next returns the server to try. It pauses when every server was tried since the last session. It
// asks the client for a pause of its own only when ctx has ended, because that is where the client
// looks for a Close.
func (p *HostProvider) Next() (server string, retryStart bool) {
	server, all := p.hosts.Next()
	if !all {
		return server, p.ended.Err() != nil
	}
	pause := time.NewTimer(reconnectPause - rand.N(reconnectPause/2))
	defer pause.Stop()
	select {
	case <-pause.C:
		return server, false
	case <-p.ended.Done():
		return server, true
	}
}
