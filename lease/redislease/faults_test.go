package redislease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
)

// TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt: the client sends commands again whose answer
// was lost, and the second of two swaps would be refused: a false "no" about something that is
// stored.
func TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redislease.Option{
		"":       nil,
		"strict": {redislease.Strict(0, ample)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := private(t, durable()...)
			relay := servers.NewRelay(t, client.Options().Addr)
			store := open(t, connect(t, &redis.Options{Addr: relay.Addr(), ReadTimeout: servers.Patience}), "p:", opts...)
			watcher := open(t, client, "p:")
			record := first(7)
			swap(t, store, lease.Record{Node: 7}, record)

			next := follow(record, "first")
			relay.LoseAnswers()
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if ok, err := store.Swap(t.Context(), record, next); ok || err == nil {
					t.Errorf("a swap without an answer: %t, %v; want an error", ok, err)
				}
			}()
			servers.Eventually(t, func() error { return holds(t, watcher, next) })
			select {
			case <-answered:
				t.Error("the swap ended before its connection")
			default:
			}
			relay.Cut()
			relay.Mend()
			<-answered
			servers.Eventually(t, func() error { return holds(t, store, next) })
		})
	}
}

func TestASwapThatArrivesLateIsRefused(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	relay := servers.NewRelay(t, client.Options().Addr)
	behind := options(t)
	behind.Addr = relay.Addr()
	behind.PoolSize = 1
	store, other := open(t, connect(t, behind), prefix), open(t, client, prefix)
	record := first(7)
	swap(t, store, lease.Record{Node: 7}, record)

	relay.Split()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if ok, err := store.Swap(ctx, record, follow(record, "late")); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a swap by a network that is split: %t, %v; want the context's error", ok, err)
	}
	next := follow(record, "other")
	swap(t, other, record, next)
	relay.Mend()
	// There is one connection, so what was sent before has arrived when this is answered.
	servers.Eventually(t, func() error { return holds(t, store, next) })
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	relay := servers.NewRelay(t, client.Options().Addr)
	behind := options(t)
	behind.Addr = relay.Addr()
	store := open(t, connect(t, behind), prefix)
	swap(t, store, lease.Record{Node: 7}, first(7))
	relay.Split()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, nowErr := store.Now(ctx)
		_, listErr := store.List(ctx)
		ok, swapErr := store.Swap(ctx, first(7), follow(first(7), "me"))
		cancel()
		if nowErr == nil || listErr == nil || ok || !errors.Is(swapErr, context.DeadlineExceeded) {
			t.Fatalf("by a network that is split: %v, %v, %t, %v", nowErr, listErr, ok, swapErr)
		}
	}
	relay.Cut()
	relay.Mend()
	servers.Eventually(t, func() error { _, err := store.List(t.Context()); return err })
}

func TestTheStoreComesBackWithTheServer(t *testing.T) {
	t.Parallel()
	server, client := private(t, durable()...)
	store := open(t, client, "p:")
	record := first(7)
	swap(t, store, lease.Record{Node: 7}, record)
	server.Kill()
	if ok, err := store.Swap(t.Context(), record, follow(record, "first")); ok || err == nil {
		t.Errorf("a swap without a server: %t, %v; want an error", ok, err)
	}
	if _, err := store.Now(t.Context()); err == nil {
		t.Error("there is a clock without a server")
	}
	server.Restart()
	servers.Eventually(t, func() error { return holds(t, store, record) })
	swap(t, store, record, follow(record, "first"))
}
