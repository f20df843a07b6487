package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
)

// Two test runs side by side can need more connections than a server allows. A test that gets none then waits
// for one, because the server refuses the connection before anything has been asked of it. This holds for every
// connection to the server, also for those that the tested code opens by itself.

// patientPgx is the name of the driver pgx that waits for a free connection.
const patientPgx = "pgx-dbtest"

// beginPatience prepares both drivers, once in a process.
//
//nolint:gochecknoglobals // a memoized function; nothing writes to it
var beginPatience = sync.OnceFunc(func() {
	sql.Register(patientPgx, patientDriver{stdlib.GetDefaultDriver()})
	mysql.RegisterDialContext("tcp", dialPatiently)
})

// patientDriver is a driver whose connectors wait.
type patientDriver struct{ driver.Driver }

// OpenConnector is that of driver.DriverContext.
func (d patientDriver) OpenConnector(dsn string) (driver.Connector, error) {
	c, err := d.Driver.(driver.DriverContext).OpenConnector(dsn)
	return patientConnector{c}, err
}

type patientConnector struct{ driver.Connector }

// Connect is that of driver.Connector.
func (c patientConnector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	err = retryWhileBusy(ctx, func() error {
		conn, err = c.Connector.Connect(ctx)
		return err
	})
	return conn, err
}

// dialPatiently connects to a server of MySQL's protocol. Such a server speaks first, so a server that has too
// many connections can be told from one that is ready before the driver reads anything.
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
