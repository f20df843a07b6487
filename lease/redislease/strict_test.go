package redislease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/storetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
)

// ample is a wait for replicas that answer; it may be as long as a busy machine needs.
const ample = 10 * time.Second

func TestTheStoreKeepsTheContractStrictly(t *testing.T) {
	t.Parallel()
	_, master := private(t, durable()...)
	replica(t, master.Options().Addr, durable()...)
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		prefix := "snowflaketest:" + t.Name() + ":"
		return func() lease.Store {
			return open(t, connect(t, &redis.Options{Addr: master.Options().Addr}), prefix, redislease.WithStrict(1, ample))
		}
	})
}

func TestStrictRefusesAServerThatForgetsAndSaysWhy(t *testing.T) {
	t.Parallel()
	_, master := private(t, "--maxmemory-policy", "allkeys-lru")
	_, err := redislease.New(master, "p:", redislease.WithStrict(0, time.Second))
	for _, want := range []string{`appendonly is "no"`, `appendfsync is "everysec"`, "allkeys-lru", "noeviction"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	for _, setting := range [][2]string{
		{"appendonly", "yes"}, {"appendfsync", "always"}, {"no-appendfsync-on-rewrite", "yes"},
		{"maxmemory-policy", "volatile-lru"},
	} {
		if _, err := redislease.New(master, "p:", redislease.WithStrict(0, time.Second)); err == nil {
			t.Errorf("a server was taken before %s was set", setting[0])
		}
		if err := master.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := redislease.New(master, "p:", redislease.WithStrict(0, time.Second)); err == nil ||
		!strings.Contains(err.Error(), "no-appendfsync-on-rewrite") {
		t.Errorf("error %v does not say no-appendfsync-on-rewrite", err)
	}
	if err := master.ConfigSet(t.Context(), "no-appendfsync-on-rewrite", "no").Err(); err != nil {
		t.Fatal(err)
	}
	store := open(t, master, "p:", redislease.WithStrict(0, time.Second))
	record := storetest.Create(t, store, storetest.First(7))

	// What the server was when the store was opened is not what it is for good.
	if err := master.ConfigSet(t.Context(), "appendfsync", "everysec").Err(); err != nil {
		t.Fatal(err)
	}
	if ok, err := store.Swap(t.Context(), record, storetest.Renew(record)); ok || err == nil ||
		!strings.Contains(err.Error(), "appendfsync") {
		t.Errorf("a swap on a server that forgets: %t, %v; want an error", ok, err)
	}
	if records, err := store.List(t.Context()); err == nil {
		t.Errorf("the records of a server that forgets are %v; want an error", records)
	}
}

func TestStrictSaysWhichRightsItNeeds(t *testing.T) {
	t.Parallel()
	_, master := private(t, durable()...)
	for name, denied := range map[string]string{"config": "-config", "info": "-info", "command": "-command"} {
		if err := master.ACLSetUser(t.Context(), name, "on", "nopass", "~*", "+@all", denied).Err(); err != nil {
			t.Fatal(err)
		}
		client := connect(t, &redis.Options{Addr: master.Options().Addr, Username: name, Password: "any"})
		if _, err := redislease.New(client, "p:", redislease.WithStrict(0, time.Second)); err == nil ||
			!strings.Contains(err.Error(), "CONFIG GET, INFO, WAIT") {
			t.Errorf("%s: error %v does not say which rights Strict needs", denied, err)
		}
	}
}

func TestStrictKnowsHowManyReplicasThereAre(t *testing.T) {
	t.Parallel()
	_, master := private(t, durable()...)
	store := open(t, master, "p:", redislease.WithStrict(0, time.Second))
	storetest.Create(t, store, storetest.First(7))
	_, behind := replica(t, master.Options().Addr, durable()...)

	// One more than has to confirm: a failover to it could lose what was acknowledged.
	if ok, err := store.Swap(t.Context(), lease.Record{Node: 8}, storetest.First(8)); ok || err == nil ||
		!strings.Contains(err.Error(), `"1" replicas`) {
		t.Errorf("a swap with a replica more than was said: %t, %v; want an error", ok, err)
	}
	if err := second(redislease.New(master, "p:", redislease.WithStrict(0, time.Second))); err == nil {
		t.Error("Strict(0) was taken with a replica")
	}
	if err := second(redislease.New(behind, "p:", redislease.WithStrict(1, time.Second))); err == nil ||
		!strings.Contains(err.Error(), "has to be the master") {
		t.Errorf("Strict on a replica: %v", err)
	}
	storetest.Create(t, open(t, master, "p:", redislease.WithStrict(1, ample)), storetest.First(9))
	// One less: New cannot know whether it will come, but nothing is believed until then.
	store = open(t, master, "p:", redislease.WithStrict(2, 20*time.Millisecond))
	if ok, err := store.Swap(t.Context(), lease.Record{Node: 10}, storetest.First(10)); ok || err == nil ||
		!strings.Contains(err.Error(), "of 2 replicas") {
		t.Errorf("a swap with a replica less than was said: %t, %v; want an error", ok, err)
	}
}

// TestWhatIsNotOnTheReplicaIsNotBelieved: neither what is swapped, nor what is read, since a
// keeper reads after a swap that failed, and would take it for granted.
func TestWhatIsNotOnTheReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	_, master := private(t, durable()...)
	server, _ := replica(t, master.Options().Addr, durable()...)
	patient := open(t, master, "p:", redislease.WithStrict(1, ample))
	hasty := open(t, master, "p:", redislease.WithStrict(1, 50*time.Millisecond))
	record := storetest.First(7)
	storetest.Swap(t, patient, lease.Record{Node: 7}, record)

	server.Pause()
	next := storetest.Renew(record)
	ok, err := hasty.Swap(t.Context(), record, next)
	if ok || err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("a swap that is not on the replica: %t, %v; want an error that says so", ok, err)
	}
	if records, err := hasty.List(t.Context()); err == nil {
		t.Errorf("what is not on the replica was read: %v", records)
	}
	// A refusal is one all the same.
	if ok, err := hasty.Swap(t.Context(), record, storetest.Follow(record, "other")); ok || err != nil {
		t.Errorf("a swap of an old version: %t, %v; want it refused", ok, err)
	}
	server.Resume()
	if err := storetest.Holds(t, patient, next); err != nil {
		t.Error(err)
	}
}

// TestStrictlyAFailoverForgetsNothing: and without Strict it does, by the same steps.
func TestStrictlyAFailoverForgetsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts    []redislease.Option
		forgets bool
	}{
		"strict":     {[]redislease.Option{redislease.WithStrict(1, 200*time.Millisecond)}, false},
		"not strict": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, master := private(t, durable()...)
			relay := servers.NewRelay(t, master.Options().Addr)
			_, heir := replica(t, relay.Addr(), durable()...)
			var acknowledged []lease.Record
			take := func(store lease.Store, node int64) {
				if ok, err := store.Swap(t.Context(), lease.Record{Node: node}, storetest.First(node)); ok && err == nil {
					acknowledged = append(acknowledged, lease.Record{Node: node})
				}
			}
			store := open(t, master, "p:", c.opts...)
			take(store, 1)
			relay.Split()
			take(store, 2)
			old.Kill()
			relay.Cut()
			if err := heir.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			records, err := open(t, heir, "p:").List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if forgot := len(records) < len(acknowledged); forgot != c.forgets {
				t.Errorf("%d records were acknowledged, and the new master has %v", len(acknowledged), records)
			}
		})
	}
}

// TestStrictlyACrashForgetsNothing: the server is killed while swaps go on.
func TestStrictlyACrashForgetsNothing(t *testing.T) {
	t.Parallel()
	server, client := private(t, durable()...)
	store := open(t, client, "p:", redislease.WithStrict(0, ample))
	record := lease.Record{Node: 7}
	for range nightly.Pick(1, 5) {
		const enough = 20
		var (
			swapping sync.WaitGroup
			reached  = make(chan struct{})
			last     = record
		)
		swapping.Go(func() {
			for done := 0; ; done++ {
				if done == enough {
					close(reached)
				}
				next := storetest.First(7)
				if last.Version > 0 {
					next = storetest.Renew(last)
				}
				ok, err := store.Swap(t.Context(), last, next)
				if err != nil && done >= enough {
					return
				}
				if err != nil || !ok {
					t.Errorf("the swap to version %d: %t, %v", next.Version, ok, err)
					if done < enough {
						close(reached)
					}
					return
				}
				last = next
			}
		})
		<-reached
		server.Kill()
		swapping.Wait()
		server.Restart()
		answers(t, client)
		records, err := store.List(t.Context())
		if err != nil || len(records) != 1 {
			t.Fatalf("after the crash: %v, %v", records, err)
		}
		// The last swap was not answered, and may be stored or not.
		if record = records[0]; record != last && record != storetest.Renew(last) {
			t.Fatalf("version %d was acknowledged, and after the crash the record is %+v", last.Version, record)
		}
	}
}

func TestStrictHeedsItsContext(t *testing.T) {
	t.Parallel()
	_, master := private(t, durable()...)
	server, _ := replica(t, master.Options().Addr, durable()...)
	store := open(t, master, "p:", redislease.WithStrict(1, ample))
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	ok, err := store.Swap(ctx, lease.Record{Node: 7}, storetest.First(7))
	if ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a swap whose context ends: %t, %v; want the context's error", ok, err)
	}
	if took := time.Since(began); took >= ample {
		t.Errorf("it took %v", took)
	}
}

func TestStrictWorksInACluster(t *testing.T) {
	t.Parallel()
	_, node := private(t, append(durable(), "--cluster-enabled", "yes")...)
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Options().Addr}})
	t.Cleanup(func() { client.Close() })
	var store *redislease.Store
	servers.Eventually(t, func() (err error) {
		store, err = redislease.New(client, "p:", redislease.WithStrict(0, ample))
		if err == nil {
			_, err = store.List(t.Context())
		}
		return err
	})
	storetest.Create(t, store, storetest.First(7))
	if records, err := store.List(t.Context()); err != nil || len(records) != 1 {
		t.Errorf("the records are %v, %v", records, err)
	}
}
