package zklease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// relayed returns a relay to the server that the tests share.
func relayed(t *testing.T) *servers.Relay {
	t.Helper()
	address := addresses()[0]
	if !strings.Contains(address, ":") {
		address += ":2181"
	}
	return servers.NewRelay(t, address)
}

func TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	relay := relayed(t)
	store, watcher := open(t, connect(t, relay.Addr()), path), open(t, conn, path)
	servers.Eventually(t, func() error { _, err := store.List(t.Context()); return err })

	// A creation is a single request.
	record := storetest.First(7)
	storetest.LoseAnswer(t, relay, relay.LoseAnswers, store, watcher, lease.Record{Node: 7}, record)
}

func TestASwapThatArrivesLateIsRefused(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	relay := relayed(t)
	store, other := open(t, connect(t, relay.Addr()), path), open(t, conn, path)
	servers.Eventually(t, func() error { _, err := store.List(t.Context()); return err })

	relay.Split()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if ok, err := store.Swap(ctx, lease.Record{Node: 7}, storetest.First(7)); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a swap by a network that is split: %t, %v; want the context's error", ok, err)
	}
	record := storetest.Follow(lease.Record{Node: 7, Until: time.Now(), Layout: "layout"}, "other")
	record.Until = record.Until.UTC().Round(0)
	storetest.Create(t, other, record)
	relay.Mend()
	// What was sent on this connection before has arrived when this is answered.
	servers.Eventually(t, func() error { return storetest.Holds(t, store, record) })
}

// TestRequestsEndWithTheirContext: and however many were given up, the store works again when the
// server does.
func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	_, path := shared(t)
	relay := relayed(t)
	store := open(t, connect(t, relay.Addr()), path)
	record := storetest.Create(t, store, storetest.First(7))
	storetest.GiveUp(t, relay, store, record, 100)
}

func TestNothingThatWasAcknowledgedIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	server, address := private(t)
	store := open(t, connect(t, address), "/p")
	servers.Eventually(t, func() error { _, err := store.List(t.Context()); return err })
	storetest.SurviveKills(t, server, store, 2)
}
