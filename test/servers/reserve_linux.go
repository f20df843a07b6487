package servers

import (
	"strconv"
	"syscall"
	"testing"
)

// Reserve returns a port of 127.0.0.1 for a server that the test starts, stops and starts again. Until the
// test ends, the kernel gives the port to nobody who asks for any free port, and to no connection that
// begins.
//
// A socket that is bound but does not listen keeps the port. Linux lets a second socket listen on it if
// both have SO_REUSEADDR, which servers set.
func Reserve(tb testing.TB) string {
	tb.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		tb.Fatal(err)
	}
	bound, ok := address.(*syscall.SockaddrInet4)
	if !ok {
		tb.Fatalf("the socket is bound to a %T", address)
	}
	return strconv.Itoa(bound.Port)
}
