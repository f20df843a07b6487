// Package redistest gives tests servers of Redis: the one that all tests share, and servers of their own,
// with replicas. It is for tests only.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// Ample is a wait for replicas that answer; it may be as long as a busy machine needs.
const Ample = 10 * time.Second

const variable = "SNOWFLAKE_REDIS_URL"

// Options are for the server that the tests share.
func Options(t *testing.T) *redis.Options {
	t.Helper()
	url := cmp.Or(os.Getenv(variable), "redis://127.0.0.1:6379")
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return options
}

// Connect returns a client of its own.
func Connect(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Shared returns a client of the server that the tests share, and a prefix that no other test has. The key of
// that name under the prefix, and the note of its identity, are removed in the end.
func Shared(t *testing.T, name string) (client *redis.Client, prefix string) {
	t.Helper()
	client = Connect(t, Options(t))
	if err := client.Ping(t.Context()).Err(); err != nil {
		servers.Absent(t, "redis", variable, err)
	}
	prefix = "snowflaketest:" + t.Name() + time.Now().Format(":150405.000000000:")
	t.Cleanup(func() {
		if err := client.Del(context.Background(), prefix+name, prefix+"identity").Err(); err != nil {
			t.Errorf("the keys of the test are left behind: %v", err)
		}
	})
	return client, prefix
}

// Durable are the settings of a server that forgets nothing.
func Durable() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

// Private starts a server of the test's own and returns a client of it when it answers.
func Private(t *testing.T, settings ...string) (server *servers.Daemon, client *redis.Client) {
	t.Helper()
	dir, port := t.TempDir(), servers.Reserve(t)
	server = servers.Start(t, dir, servers.Program(t, "redis", "redis-server"), append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--repl-diskless-sync-delay", "0",
	}, settings...)...)
	client = Connect(t, &redis.Options{Addr: "127.0.0.1:" + port})
	Answers(t, client)
	return server, client
}

// Answers waits until a server does.
func Answers(t *testing.T, client *redis.Client) {
	t.Helper()
	servers.Eventually(t, func() error { return client.Ping(t.Context()).Err() })
}

// Replica starts a replica of the server at an address of 127.0.0.1 and waits until it is in step.
func Replica(t *testing.T, address string, settings ...string) (*servers.Daemon, *redis.Client) {
	t.Helper()
	server, client := Private(t, append(settings, "--replicaof", strings.Replace(address, ":", " ", 1))...)
	servers.Eventually(t, func() error {
		role, err := client.Do(t.Context(), "role").Slice()
		if err == nil && (len(role) < 4 || role[3] != "connected") {
			err = fmt.Errorf("the replica says %v", role)
		}
		return err
	})
	return server, client
}

// Cluster starts a cluster of one server and returns its address when it answers.
func Cluster(t *testing.T, settings ...string) (address string) {
	t.Helper()
	_, node := Private(t, append(settings, "--cluster-enabled", "yes")...)
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	servers.Eventually(t, func() error {
		info, err := node.ClusterInfo(t.Context()).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errors.New(info)
		}
		return err
	})
	return node.Options().Addr
}

// Denied returns a client of a server as a user who lacks a right, such as "config".
func Denied(t *testing.T, server *redis.Client, right string) *redis.Client {
	t.Helper()
	err := server.ACLSetUser(t.Context(), right, "on", "nopass", "~*", "+@all", "-"+right).Err()
	if err != nil {
		t.Fatal(err)
	}
	return Connect(t, &redis.Options{Addr: server.Options().Addr, Username: right, Password: "any"})
}
