package redislease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt: the client sends commands again whose answer
// was lost, and the second of two swaps would be refused: a false "no" about something that is
// stored.
func TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redislease.Option{
		"":       nil,
		"strict": {redislease.WithStrict(0, redistest.Ample)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := redistest.Private(t, redistest.Durable()...)
			relay := servers.NewRelay(t, client.Options().Addr)
			store := open(t, redistest.Connect(t, &redis.Options{Addr: relay.Addr(), ReadTimeout: servers.Patience}), "p:", opts...)
			watcher := open(t, client, "p:")
			record := storetest.Create(t, store, storetest.First(7))

			next := storetest.Renew(record)
			storetest.LoseAnswer(t, relay, relay.LoseAnswers, store, watcher, record, next)
		})
	}
}

func TestASwapThatArrivesLateIsRefused(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	relay := servers.NewRelay(t, client.Options().Addr)
	behind := redistest.Options(t)
	behind.Addr = relay.Addr()
	behind.PoolSize = 1
	store, other := open(t, redistest.Connect(t, behind), prefix), open(t, client, prefix)
	record := storetest.Create(t, store, storetest.First(7))

	relay.Split()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	late := storetest.Follow(record, "late")
	if ok, err := store.Swap(ctx, record, late); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a swap by a network that is split: %t, %v; want the context's error", ok, err)
	}
	next := storetest.Follow(record, "other")
	storetest.Swap(t, other, record, next)
	relay.Mend()
	// There is one connection, so what was sent before has arrived when this is answered.
	servers.Eventually(t, func() error { return storetest.Holds(t, store, next) })
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	relay := servers.NewRelay(t, client.Options().Addr)
	behind := redistest.Options(t)
	behind.Addr = relay.Addr()
	store := open(t, redistest.Connect(t, behind), prefix)
	record := storetest.Create(t, store, storetest.First(7))
	storetest.GiveUp(t, relay, store, record, 50)
}

func TestTheStoreComesBackWithTheServer(t *testing.T) {
	t.Parallel()
	server, client := redistest.Private(t, redistest.Durable()...)
	store := open(t, client, "p:")
	record := storetest.Create(t, store, storetest.First(7))
	server.Kill()
	if ok, err := store.Swap(t.Context(), record, storetest.Renew(record)); ok || err == nil {
		t.Errorf("a swap without a server: %t, %v; want an error", ok, err)
	}
	if _, err := store.Now(t.Context()); err == nil {
		t.Error("there is a clock without a server")
	}
	server.Restart()
	servers.Eventually(t, func() error { return storetest.Holds(t, store, record) })
	storetest.Swap(t, store, record, storetest.Renew(record))
}
