//go:build !linux

package servers

import (
	"errors"
	"net"
	"testing"
)

// Reserve returns a port of 127.0.0.1 that was free a moment ago. Only Linux can keep it for the test.
func Reserve(tb testing.TB) string {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		tb.Fatal(err)
	}
	return port
}
