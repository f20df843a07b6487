package zklease_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

const variable = "SNOWFLAKE_ZOOKEEPER"

// addresses are those of the server that the tests share.
func addresses() []string {
	if list := os.Getenv(variable); list != "" {
		return strings.Split(list, ",")
	}
	return []string{"127.0.0.1:2181"}
}

// ofTheNight skips a test that needs a server in tier one.
func ofTheNight(t *testing.T) {
	t.Helper()
	nightly.Only(t, "ZooKeeper costs a Java runtime; the tests of NewHostProvider and of the options need none")
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a connection of its own.
func connect(t *testing.T, addresses ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(addresses, 10*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// shared returns a connection to the server that the tests share, and a path that no other test
// has.
func shared(t *testing.T) (conn *zk.Conn, path string) {
	t.Helper()
	ofTheNight(t)
	conn = connect(t, addresses()...)
	if _, _, err := conn.Exists("/"); err != nil {
		servers.Absent(t, "zookeeper", variable, err)
	}
	path = "/snowflaketest-" + time.Now().Format("150405.000000000")
	t.Cleanup(func() {
		// The test's own connection may be closed or broken by now.
		broom := connect(t, addresses()...)
		if err := sweep(broom, path); err != nil {
			t.Errorf("the znodes of the test are left behind: %v", err)
		}
	})
	return conn, path
}

// sweep removes a znode and all below it.
func sweep(conn *zk.Conn, path string) error {
	names, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, sweep(conn, path+"/"+name))
	}
	return errors.Join(err, conn.Delete(path, -1))
}

func open(t *testing.T, conn *zk.Conn, path string, opts ...zklease.Option) *zklease.Store {
	t.Helper()
	store, err := zklease.New(conn, path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// private starts a ZooKeeper of the test's own and returns its address.
func private(t *testing.T) (server *servers.Daemon, address string) {
	t.Helper()
	ofTheNight(t)
	const jar = "/usr/share/java/zookeeper.jar" // of Debian and its kin
	program := servers.Program(t, "zookeeper", "java")
	if _, err := os.Stat(jar); err != nil {
		t.Skipf("this test starts a ZooKeeper of its own: %v", err)
	}
	dir, port := t.TempDir(), servers.Reserve(t)
	config := filepath.Join(dir, "zoo.cfg")
	text := strings.Join([]string{
		"tickTime=500", "dataDir=" + filepath.Join(dir, "data"), "clientPort=" + port,
		"clientPortAddress=127.0.0.1", "admin.enableServer=false", "maxClientCnxns=0", "",
	}, "\n")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server = servers.Start(t, dir, program, "-Xmx128m", "-cp", jar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	return server, "127.0.0.1:" + port
}
