package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// LoseAnswer swaps prev for next through a relay. The relay passes the request on, but loses the
// answer after lose is called. The swap must wait until its connection ends and then return an
// error, never a false "no". List must then return next. The store connects through the relay, and
// the watcher connects directly.
func LoseAnswer(
	tb testing.TB, relay *servers.Relay, lose func(), store, watcher lease.Store, prev, next lease.Record,
) {
	tb.Helper()
	lose()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if ok, err := store.Swap(tb.Context(), prev, next); ok || err == nil {
			tb.Errorf("a swap without an answer returned %t, %v; want an error", ok, err)
		}
	}()
	servers.Eventually(tb, func() error { return Holds(tb, watcher, next) })
	select {
	case <-answered:
		tb.Error("the swap ended before its connection ended")
	default:
	}
	relay.Cut()
	relay.Mend()
	<-answered
	servers.Eventually(tb, func() error { return Holds(tb, store, next) })
}

// GiveUp makes many requests through a relay that is split. Each request must end with its context.
// After the network is restored, the store must work again.
func GiveUp(tb testing.TB, relay *servers.Relay, store lease.Store, stored lease.Record, times int) {
	tb.Helper()
	relay.Split()
	for range times {
		ctx, cancel := context.WithTimeout(tb.Context(), time.Millisecond)
		_, nowErr := store.Now(ctx)
		_, listErr := store.List(ctx)
		ok, swapErr := store.Swap(ctx, stored, Follow(stored, "me"))
		cancel()
		if nowErr == nil || listErr == nil || ok || !errors.Is(swapErr, context.DeadlineExceeded) {
			tb.Fatalf("through a split network, requests returned %v, %v, %t, %v", nowErr, listErr, ok, swapErr)
		}
	}
	relay.Cut()
	relay.Mend()
	servers.Eventually(tb, func() error { return Holds(tb, store, stored) })
}

// SurviveKills kills the server between swaps of node 7. A swap without a server must return an
// error. After a restart the store must have the last record that it acknowledged.
func SurviveKills(tb testing.TB, server *servers.Daemon, store lease.Store, rounds int) {
	tb.Helper()
	record := Create(tb, store, First(7))
	for round := range rounds {
		if round > 0 {
			record = Swap(tb, store, record, Renew(record))
		}
		server.Kill()
		ctx, cancel := context.WithTimeout(tb.Context(), 500*time.Millisecond)
		ok, err := store.Swap(ctx, record, Follow(record, "while there was no server"))
		cancel()
		if ok || err == nil {
			tb.Errorf("a swap without a server returned %t, %v; want an error", ok, err)
		}
		server.Restart()
		servers.Eventually(tb, func() error { return Holds(tb, store, record) })
		if _, err := store.Now(tb.Context()); err != nil {
			tb.Errorf("after the restart: %v", err)
		}
	}
}
