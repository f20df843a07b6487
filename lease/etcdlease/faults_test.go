package etcdlease_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// TestNothingThatWasAcknowledgedIsLostWithTheServer: the server is killed between swaps.
func TestNothingThatWasAcknowledgedIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	server, address := private(t)
	store := open(t, connect(t, address), "p/")
	if records := list(t, store); len(records) != 0 {
		t.Fatalf("a new server has %v", records)
	}
	record := lease.Record{Node: 7}
	for round := range 3 {
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
		if records := list(t, store); len(records) != 1 || records[0] != record {
			t.Fatalf("after the restart the records are %+v, want %+v", records, record)
		}
		if _, err := store.Now(t.Context()); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	}
}

// breakingAt returns a client that connects by a relay, and breaks it right before the next
// transaction once armed is true.
func breakingAt(t *testing.T, relay *servers.Relay, armed *atomic.Bool, breakage func()) *clientv3.Client {
	t.Helper()
	intercept := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/Txn") && armed.CompareAndSwap(true, false) {
			breakage()
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{relay.Addr()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestASwapWhoseAnswerIsLostIsAnErrorAndListShowsIt(t *testing.T) {
	t.Parallel()
	_, address := private(t)
	relay := servers.NewRelay(t, address)
	var armed atomic.Bool
	store := open(t, breakingAt(t, relay, &armed, relay.LoseAnswers), "p/")
	watcher := open(t, connect(t, address), "p/")
	list(t, store)
	record := first(7)
	swap(t, store, lease.Record{Node: 7}, record)

	next := follow(record, "first")
	armed.Store(true)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if ok, err := store.Swap(t.Context(), record, next); ok || err == nil {
			t.Errorf("a swap without an answer: %t, %v; want an error", ok, err)
		}
	}()
	servers.Eventually(t, func() error {
		if records := list(t, watcher); len(records) != 1 || records[0] != next {
			return fmt.Errorf("the records are %+v, want %+v", records, next)
		}
		return nil
	})
	select {
	case <-answered:
		t.Error("the swap ended before its connection")
	default:
	}
	relay.Cut()
	relay.Mend()
	<-answered
	if records := list(t, store); len(records) != 1 || records[0] != next {
		t.Errorf("the records are %+v, want %+v", records, next)
	}
}

func TestASwapThatArrivesLateIsRefused(t *testing.T) {
	t.Parallel()
	_, address := private(t)
	relay := servers.NewRelay(t, address)
	var armed atomic.Bool
	store := open(t, breakingAt(t, relay, &armed, relay.Split), "p/")
	other := open(t, connect(t, address), "p/")
	list(t, store)
	record := first(7)
	swap(t, store, lease.Record{Node: 7}, record)

	armed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if ok, err := store.Swap(ctx, record, follow(record, "late")); ok || err == nil {
		t.Fatalf("a swap by a network that is split: %t, %v; want an error", ok, err)
	}
	next := follow(record, "other")
	swap(t, other, record, next)
	relay.Mend()
	// The request that was on its way has arrived when the next one on its connection is answered.
	if records := list(t, store); len(records) != 1 || records[0] != next {
		t.Errorf("the records are %+v, want %+v", records, next)
	}
}
