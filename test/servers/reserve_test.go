//go:build linux

package servers_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func TestAReservedPortIsOnlyForWhoAsksForIt(t *testing.T) {
	t.Parallel()
	port := servers.Reserve(t)
	address := "127.0.0.1:" + port
	for round := range 2 { // a server can come back
		var dialer net.Dialer
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			conn.Close()
			t.Fatal("somebody listens on the port before the server does")
		}
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("round %d: the server cannot listen: %v", round, err)
		}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Without SO_REUSEADDR the port cannot be had, so it is kept. Who asks for any free port is treated like
	// that, too.
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var wrong error
		err := socket.Control(func(fd uintptr) {
			wrong = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		})
		return errors.Join(err, wrong)
	}}
	if listener, err := config.Listen(t.Context(), "tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port is not kept: %v", err)
		if err == nil {
			listener.Close()
		}
	}
}
