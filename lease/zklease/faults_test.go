package zklease_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
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
	record := first(7)
	relay.LoseAnswers()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if ok, err := store.Swap(t.Context(), lease.Record{Node: 7}, record); ok || err == nil {
			t.Errorf("a swap without an answer: %t, %v; want an error", ok, err)
		}
	}()
	servers.Eventually(t, func() error { return holds(t, watcher, record) })
	select {
	case <-answered:
		t.Error("the swap ended before its connection")
	default:
	}
	relay.Cut()
	relay.Mend()
	<-answered
	servers.Eventually(t, func() error { return holds(t, store, record) })
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
	if ok, err := store.Swap(ctx, lease.Record{Node: 7}, first(7)); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a swap by a network that is split: %t, %v; want the context's error", ok, err)
	}
	record := follow(lease.Record{Node: 7, Until: time.Now(), Layout: "layout"}, "other")
	record.Until = record.Until.UTC().Round(0)
	swap(t, other, lease.Record{Node: 7}, record)
	relay.Mend()
	// What was sent on this connection before has arrived when this is answered.
	servers.Eventually(t, func() error { return holds(t, store, record) })
}

// TestRequestsEndWithTheirContext: and however many were given up, the store works again when the
// server does.
func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	_, path := shared(t)
	relay := relayed(t)
	store := open(t, connect(t, relay.Addr()), path)
	swap(t, store, lease.Record{Node: 7}, first(7))
	relay.Split()
	for range 100 {
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
	servers.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := store.List(ctx)
		return err
	})
}

func TestNothingThatWasAcknowledgedIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	const jar = "/usr/share/java/zookeeper.jar" // of Debian and its kin
	program := servers.Program(t, "zookeeper", "java")
	if _, err := os.Stat(jar); err != nil {
		t.Skipf("this test starts a ZooKeeper of its own: %v", err)
	}
	dir, port := t.TempDir(), servers.Port(t)
	config := filepath.Join(dir, "zoo.cfg")
	text := strings.Join([]string{
		"tickTime=500", "dataDir=" + filepath.Join(dir, "data"), "clientPort=" + port,
		"clientPortAddress=127.0.0.1", "admin.enableServer=false", "",
	}, "\n")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := servers.Start(t, dir, program, "-Xmx128m", "-cp", jar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	store := open(t, connect(t, "127.0.0.1:"+port), "/p")
	servers.Eventually(t, func() error { _, err := store.List(t.Context()); return err })

	record := lease.Record{Node: 7}
	for round := range 2 {
		next := first(7)
		if round > 0 {
			next = follow(record, "first")
		}
		swap(t, store, record, next)
		record = next
		server.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		ok, err := store.Swap(ctx, record, follow(record, "while there was no server"))
		cancel()
		if ok || err == nil {
			t.Errorf("a swap without a server: %t, %v; want an error", ok, err)
		}
		server.Restart()
		servers.Eventually(t, func() error { return holds(t, store, record) })
	}
}
