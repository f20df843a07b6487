package etcdlease_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

const variable = "SNOWFLAKE_ETCD_ENDPOINTS"

// endpoints are those of the server that the tests share.
func endpoints() []string {
	if list := os.Getenv(variable); list != "" {
		return strings.Split(list, ",")
	}
	return []string{"127.0.0.1:2379"}
}

// connect returns a client of its own.
func connect(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// shared returns a client of the server that the tests share, and a prefix that no other test has.
func shared(t *testing.T) (client *clientv3.Client, prefix string) {
	t.Helper()
	client = connect(t, endpoints()...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "snowflaketest"); err != nil {
		servers.Absent(t, "etcd", variable, err)
	}
	prefix = "snowflaketest/" + url.PathEscape(t.Name()) + time.Now().Format("/150405.000000000/")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := client.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
			t.Errorf("the keys of the test are left behind: %v", err)
		}
	})
	return client, prefix
}

func open(t *testing.T, client *clientv3.Client, prefix string, opts ...etcdlease.Option) *etcdlease.Store {
	t.Helper()
	store, err := etcdlease.New(client, prefix, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// private starts an etcd of the test's own and returns its address.
func private(t *testing.T) (server *servers.Daemon, address string) {
	t.Helper()
	program := servers.Program(t, "etcd", "etcd")
	dir := t.TempDir()
	address = "127.0.0.1:" + servers.Reserve(t)
	peer := "http://127.0.0.1:" + servers.Reserve(t)
	server = servers.Start(t, dir, program, "--name", "one", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", "http://"+address, "--advertise-client-urls", "http://"+address,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer)
	return server, address
}
