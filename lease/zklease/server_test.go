package zklease_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
)

const variable = "SNOWFLAKE_ZOOKEEPER"

// addresses are those of the server that the tests share.
func addresses() []string {
	if list := os.Getenv(variable); list != "" {
		return strings.Split(list, ",")
	}
	return []string{"127.0.0.1:2181"}
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

// first is the first record of a node.
func first(node int64) lease.Record {
	return lease.Record{
		Node: node, Owner: "first", Until: time.Now().Add(time.Minute).UTC().Round(0), Version: 1, Layout: "layout",
	}
}

// follow is a record that replaces prev.
func follow(prev lease.Record, owner string) lease.Record {
	prev.Owner = owner
	prev.Version++
	prev.Until = prev.Until.Add(time.Second)
	return prev
}

// swap expects a swap to be done.
func swap(t *testing.T, store lease.Store, prev, next lease.Record) {
	t.Helper()
	if ok, err := store.Swap(t.Context(), prev, next); err != nil || !ok {
		t.Fatalf("the swap of node %d to version %d: %t, %v", next.Node, next.Version, ok, err)
	}
}

// holds returns an error unless the store has exactly this record.
func holds(t *testing.T, store lease.Store, want lease.Record) error {
	t.Helper()
	records, err := store.List(t.Context())
	if err != nil {
		return err
	}
	if len(records) != 1 || records[0] != want {
		return fmt.Errorf("the records are %+v, want only %+v", records, want)
	}
	return nil
}
