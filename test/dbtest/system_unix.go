//go:build unix

package dbtest

import (
	"net"
	"syscall"
	"time"
)

// hasTooMany looks at the first packet of a server and leaves it to the driver. A server that says nothing
// for a while is not waited for, because the driver has a time-out of its own for that.
func hasTooMany(conn net.Conn) bool {
	const greeting = 200 * time.Millisecond
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil || tcp.SetReadDeadline(time.Now().Add(greeting)) != nil {
		return false
	}
	defer func() { _ = tcp.SetReadDeadline(time.Time{}) }() // a broken connection fails at its first use
	packet, n := make([]byte, 7), 0
	err = raw.Read(func(fd uintptr) bool {
		var err error
		n, _, err = syscall.Recvfrom(int(fd), packet, syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	})
	return err == nil && n > 0 && isTooMany(packet[:n])
}

// alive reports whether a process of this machine runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
