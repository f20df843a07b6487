package etcdlease_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// TestNothingThatWasAcknowledgedIsLostWithTheServer: the server is killed between swaps.
func TestNothingThatWasAcknowledgedIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	server, address := private(t)
	store := open(t, connect(t, address), "p/")
	servers.Eventually(t, func() error { return storetest.Holds(t, store) })
	storetest.SurviveKills(t, server, store, nightly.Pick(1, 3))
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
	servers.Eventually(t, func() error { return storetest.Holds(t, store) })
	record := storetest.Create(t, store, storetest.First(7))

	next := storetest.Renew(record)
	storetest.LoseAnswer(t, relay, func() { armed.Store(true) }, store, watcher, record, next)
}

func TestASwapThatArrivesLateIsRefused(t *testing.T) {
	t.Parallel()
	_, address := private(t)
	relay := servers.NewRelay(t, address)
	var armed atomic.Bool
	store := open(t, breakingAt(t, relay, &armed, relay.Split), "p/")
	other := open(t, connect(t, address), "p/")
	servers.Eventually(t, func() error { return storetest.Holds(t, store) })
	record := storetest.Create(t, store, storetest.First(7))

	armed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if ok, err := store.Swap(ctx, record, storetest.Follow(record, "late")); ok || err == nil {
		t.Fatalf("a swap by a network that is split: %t, %v; want an error", ok, err)
	}
	next := storetest.Follow(record, "other")
	storetest.Swap(t, other, record, next)
	relay.Mend()
	// The request that was on its way has arrived when the next one on its connection is answered.
	servers.Eventually(t, func() error { return storetest.Holds(t, store, next) })
}
