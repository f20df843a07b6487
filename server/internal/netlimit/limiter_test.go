package netlimit_test

import (
	"net"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
)

// dial opens a connection to the listener and returns both ends of it.
func dial(t *testing.T, listener net.Listener) (client net.Conn, server *netlimit.Conn) {
	t.Helper()
	var dialer net.Dialer
	client, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return client, netlimit.Of(accepted)
}

func listen(t *testing.T, limiter *netlimit.Limiter) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return limiter.Listen(listener)
}

// ended reports whether the other side has closed the connection.
func ended(conn net.Conn) bool {
	_, err := conn.Read(make([]byte, 1))
	return err != nil
}

func TestTheLongestIdleConnectionGivesWay(t *testing.T) {
	t.Parallel()
	limiter := netlimit.New(3)
	listener := listen(t, limiter)
	first, one := dial(t, listener)
	second, two := dial(t, listener)
	_, three := dial(t, listener)
	one.SetIdle(false)
	one.SetIdle(true) // it has just worked, so the second one is idle for longer
	three.SetIdle(false)
	two.SetIdle(true)
	_, _ = dial(t, listener)
	if !ended(second) {
		t.Error("the second connection is open")
	}
	_, _ = dial(t, listener)
	if !ended(first) {
		t.Error("the first connection is open")
	}
	want := netlimit.Counts{Open: 3, Idle: 2, Evicted: 2}
	if got := limiter.Counts(); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}

func TestANewConnectionIsRefusedIfAllWork(t *testing.T) {
	t.Parallel()
	limiter := netlimit.New(1)
	listener := listen(t, limiter)
	_, one := dial(t, listener)
	one.SetIdle(false)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	var dialer net.Dialer
	refused, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if !ended(refused) {
		t.Error("the connection is open")
	}
	want := netlimit.Counts{Open: 1, Refused: 1}
	if got := limiter.Counts(); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}

func TestAClosedConnectionMakesRoomOnce(t *testing.T) {
	t.Parallel()
	limiter := netlimit.New(2)
	listener := listen(t, limiter)
	_, one := dial(t, listener)
	_, _ = dial(t, listener)
	for range 3 {
		_ = one.Close()
		one.SetIdle(true)
	}
	if got, want := limiter.Counts(), (netlimit.Counts{Open: 1, Idle: 1}); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}
