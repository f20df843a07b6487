package redissegment_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/storetest"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
)

// claimTwice claims from counters of the store.
func claimTwice(t *testing.T, store *redissegment.Store) {
	t.Helper()
	for range 2 {
		if _, err := store.Claim(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	_, client := private(t, "--maxmemory-policy", "allkeys-lru")
	var log storetest.Log
	store := open(t, client, "p:", redissegment.WithLogger(log.Logger()))
	phrases := []string{
		"may forget what it has acknowledged", `appendonly is \"no\"`, `appendfsync is \"everysec\"`, "allkeys-lru",
		"noeviction", "numbers are given twice", "WithStrict", "key=p:counters",
	}
	log.Want(t, "WARN", 1, phrases...)
	claimTwice(t, store)
	log.Want(t, "WARN", 1)
}

func TestAServerThatComesLaterIsWarnedOfByTheFirstClaim(t *testing.T) {
	t.Parallel()
	server, client := private(t)
	server.Kill()
	var log storetest.Log
	store := open(t, client, "p:", redissegment.WithLogger(log.Logger()))
	log.Want(t, "WARN", 0)
	server.Restart()
	servers.Eventually(t, func() error { return client.Ping(t.Context()).Err() })
	claimTwice(t, store)
	log.Want(t, "WARN", 1, "may forget")
}

func TestAServerThatForgetsNothingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := private(t, durable()...)
	var log storetest.Log
	claimTwice(t, open(t, client, "p:", redissegment.WithLogger(log.Logger())))
	claimTwice(t, open(t, client, "p:", redissegment.WithLogger(log.Logger()), redissegment.WithStrict(0, ample)))
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
	claimTwice(t, open(t, client, "p:", redissegment.WithLogger(log.Logger())))
	log.Want(t, "INFO", 1, "could not be checked", "CONFIG GET")
}
