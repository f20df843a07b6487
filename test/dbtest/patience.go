package dbtest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Two test runs side by side can need more connections than a server allows. A test then waits. A
// connection to MySQL or MariaDB is repeated if the server has too many, also one that the tested code
// opens by itself. On PostgreSQL a driver that repeats would need a name of its own, and GORM treats the
// driver of each name in another way. So no handle is opened there while the server is close to its limit.

// beginPatience prepares the driver of MySQL, once in a process.
//
//nolint:gochecknoglobals // a memoized function; nothing writes to it
var beginPatience = sync.OnceFunc(func() { mysql.RegisterDialContext("tcp", dialPatiently) })

// dialPatiently connects to a server of MySQL's protocol. Such a server speaks first, so a server that has
// too many connections can be told from one that is ready before the driver reads anything.
func dialPatiently(ctx context.Context, address string) (net.Conn, error) {
	const pause = 100 * time.Millisecond
	deadline := time.Now().Add(adminTimeout)
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil || !hasTooMany(conn) || time.Now().After(deadline) {
			return conn, err
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// isTooMany reports whether a first packet of MySQL's protocol says that there are too many connections.
func isTooMany(packet []byte) bool {
	const errorPacket, tooManyConnections, tooManyOfUser = 0xff, 1040, 1203
	if len(packet) < 7 || packet[4] != errorPacket {
		return false
	}
	code := int(packet[5]) | int(packet[6])<<8
	return code == tooManyConnections || code == tooManyOfUser
}
