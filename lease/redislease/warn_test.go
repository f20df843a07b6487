package redislease_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/storetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
)

// acquireTwice leases a number two times with one store, as a program does that starts plugins.
func acquireTwice(t *testing.T, store *redislease.Store) {
	t.Helper()
	for range 2 {
		k, err := lease.Acquire(t.Context(), store, generator.Default(),
			lease.WithLogger(slog.New(slog.DiscardHandler)), lease.WithSpan(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	_, client := private(t, "--maxmemory-policy", "allkeys-lru")
	var log storetest.Log
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.Logger())))
	log.Want(t, "WARN", 1, "may forget what it has acknowledged", `appendonly is \"no\"`,
		`appendfsync is \"everysec\"`, "allkeys-lru", "noeviction", "WithStrict", "key=p:nodes")
}

func TestAServerThatForgetsNothingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := private(t, durable()...)
	var log storetest.Log
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.Logger())))
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.Logger()), redislease.WithStrict(0, ample)))
	log.Want(t, "WARN", 0)
}

func TestAServerThatMayNotBeLookedAtIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	_, master := private(t)
	if err := master.ACLSetUser(t.Context(), "app", "on", "nopass", "~*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	client := connect(t, &redis.Options{Addr: master.Options().Addr, Username: "app", Password: "any"})
	var log storetest.Log
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.Logger())))
	log.Want(t, "INFO", 1, "could not be checked", "CONFIG GET")
}
