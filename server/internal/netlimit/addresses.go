package netlimit

import (
	"container/list"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// network is how many bits of an IPv6 address are those of one client. A client gets a whole network of
	// them, and could take another address for each connection.
	network = 64
	// maxResting is how many addresses without a connection are remembered for their rate. A client that
	// comes back with another connection goes on with the IDs that it had left, or owes.
	maxResting = 4096
)

// ErrTooMany is what a client is told that takes too many IDs.
var ErrTooMany = errors.New("your address takes too many IDs from this replica; " +
	"ask later, or ask another one")

// address is a client as far as its address tells. There is one for each address that has a connection, and
// for maxResting addresses more.
type address struct {
	key     netip.Addr
	open    int           // guarded by the limiter's mu, as is the next
	resting *list.Element // nil while there are connections

	mu   sync.Mutex
	left float64   // IDs that may be taken at once; less than 0 while IDs are not paid for
	last time.Time // when left was right
}

// keyOf returns what stands for the client of a connection, and false if it has no address.
func keyOf(conn net.Conn) (netip.Addr, bool) {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	ip, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return netip.Addr{}, false
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip, true
	}
	prefix, err := ip.Prefix(network)
	return prefix.Addr(), err == nil
}

// enter returns the address of a connection that comes, or nil if addresses are not limited. The limiter is
// locked.
func (l *Limiter) enter(conn net.Conn) *address {
	if l.limits.PerAddress == 0 && l.limits.Rate == 0 {
		return nil
	}
	key, ok := keyOf(conn)
	if !ok {
		return nil
	}
	a := l.addresses[key]
	if a == nil {
		a = &address{key: key, left: float64(l.limits.Rate), last: time.Now()}
		l.addresses[key] = a
	}
	if a.resting != nil {
		l.resting.Remove(a.resting)
		a.resting = nil
	}
	return a
}

// leave forgets an address that has no connection, or lets it rest for its rate. The limiter is locked.
func (l *Limiter) leave(a *address) {
	if a == nil || a.open > 0 {
		return
	}
	if l.limits.Rate == 0 {
		delete(l.addresses, a.key)
		return
	}
	a.resting = l.resting.PushBack(a)
	if l.resting.Len() > maxResting {
		oldest := l.resting.Remove(l.resting.Front()).(*address) //nolint:forcetypeassert // nothing else is in it
		delete(l.addresses, oldest.key)
	}
}

// Allow says whether the client of the connection may make a request now, and charges it for one ID.
func (c *Conn) Allow() bool { return c.charge(1, 1) }

// Take says whether a request that was allowed may have n IDs, and charges the client for those that Allow
// has not charged. A client may have more IDs at once than it has left, because a request gets all of its IDs
// or none. It then waits until they are paid for, and so do the other requests that it has made meanwhile.
func (c *Conn) Take(n int64) bool { return n <= 1 || c.charge(0, float64(n-1)) }

// Return takes back what Take has charged.
func (c *Conn) Return(n int64) {
	if n > 1 {
		c.charge(math.Inf(-1), -float64(n-1))
	}
}

// charge takes a number of IDs from a client that has at least some left.
func (c *Conn) charge(least, n float64) bool {
	rate := float64(c.limiter.limits.Rate)
	if rate == 0 || c.address == nil {
		return true
	}
	a := c.address
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.left = min(a.left+now.Sub(a.last).Seconds()*rate, rate)
	a.last = now
	if a.left < least {
		c.limiter.slowed.Add(1)
		return false
	}
	a.left -= n
	return true
}
