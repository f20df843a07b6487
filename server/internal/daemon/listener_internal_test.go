package daemon

import (
	"errors"
	"net"
	"testing"
)

// The kernel has made these connections, and nobody has accepted them when the listener is told to end.
func TestAListenerThatEndsAcceptsWhatTheKernelHasMade(t *testing.T) {
	t.Parallel()
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner.(*net.TCPListener))
	const waiting = 50
	for range waiting {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	l.end()
	accepted := 0
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted++
		t.Cleanup(func() { conn.Close() })
	}
	if accepted != waiting {
		t.Errorf("%d of %d connections are accepted", accepted, waiting)
	}
}
