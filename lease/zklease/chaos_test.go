package zklease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func TestMain(m *testing.M) {
	chaos.Work(openForChaos)
	os.Exit(m.Run())
}

// openForChaos opens the store of a worker.
func openForChaos(_, address string) (lease.Store, error) {
	hosts := zklease.NewHostProvider(context.Background())
	conn, _, err := zk.Connect([]string{address}, 10*time.Second,
		zk.WithHostProvider(hosts), zk.WithDialer(hosts.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	store, err := zklease.New(conn, "/chaos")
	if err != nil {
		conn.Close()
		return nil, err
	}
	return store, nil
}

func TestChaosRepeatsNoID(t *testing.T) {
	c := chaos.Usual("zookeeper").FromEnvironment(t)
	server, address := private(t)
	answers := func() error { return serves(address) }
	servers.Eventually(t, answers)
	c.Address, c.Server = address, chaos.Daemon(server, answers)
	chaos.Run(t, c).Check(t)
}

// serves asks the server at an address how it is.
func serves(address string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer := make([]byte, 4<<10)
	n, err := conn.Read(answer)
	if !strings.Contains(string(answer[:n]), "Mode:") {
		return errors.Join(err, fmt.Errorf("the server says %q", answer[:n]))
	}
	return nil
}
