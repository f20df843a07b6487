package netlimit_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
)

// from is a listener of connections that come from the addresses that are sent to it.
type from chan string

func (f from) Accept() (net.Conn, error) {
	text, ok := <-f
	if !ok {
		return nil, net.ErrClosed
	}
	return &remote{address: text}, nil
}
func (f from) Close() error   { return nil }
func (f from) Addr() net.Addr { return nil }

// remote is a connection of which nothing but its address matters.
type remote struct {
	net.Conn

	address string
	closed  bool
}

func (r *remote) RemoteAddr() net.Addr {
	if r.address == "" {
		return &net.UnixAddr{}
	}
	return &net.TCPAddr{IP: net.ParseIP(r.address), Port: 1}
}

func (r *remote) Close() error {
	r.closed = true
	return nil
}

// come lets connections of addresses come, of which all have room.
func come(t *testing.T, limiter *netlimit.Limiter, addresses ...string) (all []*netlimit.Conn) {
	t.Helper()
	arriving := make(from, len(addresses))
	for _, one := range addresses {
		arriving <- one
	}
	close(arriving)
	listener := limiter.Listen(arriving)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return all
		}
		all = append(all, netlimit.Of(conn))
	}
}

func TestAnAddressHasAShareOfTheConnections(t *testing.T) {
	t.Parallel()
	limiter := netlimit.New(netlimit.Limits{Connections: 100, PerAddress: 2})
	for name, c := range map[string]struct {
		addresses []string
		want      int
	}{
		"one address":                   {[]string{"10.0.0.1", "10.0.0.1", "10.0.0.1"}, 2},
		"neighbors":                     {[]string{"10.0.1.1", "10.0.1.2", "10.0.1.3"}, 3},
		"a network of IPv6":             {[]string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3"}, 2},
		"networks of IPv6":              {[]string{"2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:0:4::1"}, 3},
		"an address of IPv4 in IPv6":    {[]string{"10.0.2.1", "::ffff:10.0.2.1", "::ffff:10.0.2.1"}, 2},
		"addresses of IPv4 in IPv6":     {[]string{"::ffff:10.0.3.1", "::ffff:10.0.3.2", "::ffff:10.0.3.3"}, 3},
		"connections without addresses": {[]string{"", "", ""}, 3},
	} {
		if got := len(come(t, limiter, c.addresses...)); got != c.want {
			t.Errorf("%s: %d of %d connections have come, want %d", name, got, len(c.addresses), c.want)
		}
	}
	if c := limiter.Counts(); c.Crowded != 3 || c.Refused != 0 || c.Open != 18 || c.Addresses != 12 {
		t.Errorf("the counts are %+v", c)
	}
}

// A place is free when its connection has ended, however it did, and nothing of its address remains.
func TestAPlaceIsFreeWhenItsConnectionHasEnded(t *testing.T) {
	t.Parallel()
	limiter := netlimit.New(netlimit.Limits{Connections: 2, PerAddress: 1})
	one := come(t, limiter, "10.0.0.1")[0]
	if len(come(t, limiter, "10.0.0.1")) != 0 {
		t.Error("the address has two connections")
	}
	one.Close()
	one.Close()
	if c := limiter.Counts(); c.Addresses != 0 || c.Open != 0 {
		t.Errorf("after the end the counts are %+v", c)
	}
	come(t, limiter, "10.0.0.1", "10.0.0.2")
	if len(come(t, limiter, "10.0.0.3", "10.0.0.1")) != 2 { // the first one gives way, and so may come again
		t.Errorf("the counts are %+v", limiter.Counts())
	}
	crowd := netlimit.New(netlimit.Limits{Connections: 3, PerAddress: 2})
	others := come(t, crowd, "10.0.1.1", "10.0.1.2", "10.0.1.3")
	come(t, crowd, "10.0.1.1") // its own first connection gives way
	for _, other := range others[1:] {
		other.Close()
	}
	if n := len(come(t, crowd, "10.0.1.1", "10.0.1.1")); n != 1 {
		t.Errorf("an address with one of two connections has got %d more", n)
	}
	for _, busy := range come(t, limiter, "10.0.0.5", "10.0.0.6") {
		busy.SetIdle(false)
	}
	if c := limiter.Counts(); len(come(t, limiter, "10.0.0.7")) != 0 || limiter.Counts().Addresses != 2 {
		t.Errorf("an address that was refused is remembered: %+v", c)
	}
}

func TestAnAddressHasItsRateOnAllItsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 10
		limiter := netlimit.New(netlimit.Limits{Connections: 10, Rate: rate})
		all := come(t, limiter, "10.0.0.1", "10.0.0.1", "10.0.0.2")
		allowed := func(conn *netlimit.Conn) (n int) {
			for range 3 * rate {
				if conn.Allow() {
					n++
				}
			}
			return n
		}
		for step, c := range []struct {
			wait time.Duration
			conn int
			want int
		}{
			{0, 0, rate}, {0, 1, 0}, {0, 2, rate}, {time.Second / 2, 1, rate / 2}, {0, 0, 0}, {time.Hour, 0, rate},
		} {
			time.Sleep(c.wait)
			if got := allowed(all[c.conn]); got != c.want {
				t.Errorf("step %d: %d requests are allowed, want %d", step, got, c.want)
			}
		}
		// Another connection brings no other requests.
		all[0].Close()
		all[1].Close()
		if got := allowed(come(t, limiter, "10.0.0.1")[0]); got != 0 {
			t.Errorf("on a new connection %d requests are allowed", got)
		}
		if limiter.Counts().Slowed == 0 {
			t.Error("what was refused is not counted")
		}
	})
	unlimited := come(t, netlimit.New(netlimit.Limits{Connections: 1}), "10.0.0.1")[0]
	for range 1000 {
		if !unlimited.Allow() {
			t.Fatal("there is a limit where none was set")
		}
	}
}

// A request for many IDs is allowed while anything is left, and then all of it has to be paid for, whoever of
// the address has asked, and however many have asked meanwhile.
func TestARequestIsPaidByItsIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 100
		limiter := netlimit.New(netlimit.Limits{Connections: 10, Rate: rate})
		all := come(t, limiter, "10.0.0.1", "10.0.0.1", "10.0.0.2")
		one, two, other := all[0], all[1], all[2]
		if !one.Allow() || !two.Allow() || !other.Allow() { // all begin before any of them says how many it wants
			t.Fatal("the first requests are refused")
		}
		if !one.Take(10 * rate) {
			t.Error("a request may not have more than the rate")
		}
		if two.Take(2) || two.Take(10*rate) {
			t.Error("a request that began meanwhile has got IDs as well")
		}
		if !two.Take(1) {
			t.Error("the one ID that was charged with the request is refused")
		}
		if !other.Take(10 * rate) {
			t.Error("another address pays for it")
		}
		// The IDs beyond the rate, with the two requests, take nine seconds and a bit.
		time.Sleep(9 * time.Second)
		if one.Allow() {
			t.Error("the IDs are not paid for yet")
		}
		time.Sleep(time.Second / 5)
		if !one.Allow() {
			t.Error("the IDs are paid for, and the address is refused")
		}
		// What could not be made costs its request only.
		time.Sleep(time.Hour)
		for range rate {
			if !one.Allow() || !one.Take(1000*rate) {
				t.Fatal("a request that got nothing was charged")
			}
			one.Return(1000 * rate)
		}
		if one.Allow() {
			t.Error("the requests themselves are free")
		}
	})
}

// However many addresses come, the memory for them is bounded.
func TestAddressesThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{0, 1} {
		limiter := netlimit.New(netlimit.Limits{Connections: 10, PerAddress: 1, Rate: rate})
		for i := range 20_000 {
			for _, conn := range come(t, limiter, fmt.Sprintf("2001:db8:%x:%x::1", i>>8, i)) {
				conn.Close()
			}
		}
		if c := limiter.Counts(); c.Addresses > 4096 || rate == 0 && c.Addresses != 0 {
			t.Errorf("with a rate of %d, %d addresses are remembered", rate, c.Addresses)
		}
	}
}
