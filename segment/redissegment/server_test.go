package redissegment_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
)

const variable = "SNOWFLAKE_REDIS_URL"

// options are for the server that the tests share.
func options(t *testing.T) *redis.Options {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		url = "redis://127.0.0.1:6379"
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return options
}

// connect returns a client of its own.
func connect(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// shared returns a client of the server that the tests share, and a prefix that no other test has.
func shared(t *testing.T) (client *redis.Client, prefix string) {
	t.Helper()
	client = connect(t, options(t))
	if err := client.Ping(t.Context()).Err(); err != nil {
		servers.Absent(t, "redis", variable, err)
	}
	prefix = "snowflaketest:" + t.Name() + time.Now().Format(":150405.000000000:")
	t.Cleanup(func() {
		if err := client.Del(context.Background(), prefix+"counters").Err(); err != nil {
			t.Errorf("the key of the test is left behind: %v", err)
		}
	})
	return client, prefix
}

func open(t *testing.T, client redis.UniversalClient, prefix string, opts ...redissegment.Option) *redissegment.Store {
	t.Helper()
	store, err := redissegment.New(t.Context(), client, prefix, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// durable are the settings of a server that forgets nothing.
func durable() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

// private starts a server of the test's own and returns a client of it when it answers.
func private(t *testing.T, settings ...string) (server *servers.Daemon, client *redis.Client) {
	t.Helper()
	dir, port := t.TempDir(), servers.Reserve(t)
	server = servers.Start(t, dir, servers.Program(t, "redis", "redis-server"), append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--repl-diskless-sync-delay", "0",
	}, settings...)...)
	client = connect(t, &redis.Options{Addr: "127.0.0.1:" + port})
	answers(t, client)
	return server, client
}

// answers waits until a server does.
func answers(t *testing.T, client *redis.Client) {
	t.Helper()
	servers.Eventually(t, func() error { return client.Ping(t.Context()).Err() })
}

// replica starts a replica of the server at an address of 127.0.0.1 and waits until it is in step.
func replica(t *testing.T, address string, settings ...string) (server *servers.Daemon, client *redis.Client) {
	t.Helper()
	server, client = private(t, append(settings, "--replicaof", strings.Replace(address, ":", " ", 1))...)
	inStep(t, client)
	return server, client
}

// inStep waits until a replica is connected to its master.
func inStep(t *testing.T, client *redis.Client) {
	t.Helper()
	servers.Eventually(t, func() error {
		role, err := client.Do(t.Context(), "role").Slice()
		if err == nil && (len(role) < 4 || role[3] != "connected") {
			err = fmt.Errorf("the replica says %v", role)
		}
		return err
	})
}
