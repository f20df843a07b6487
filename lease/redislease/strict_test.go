package redislease_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestTheStoreKeepsTheContractStrictly(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	redistest.Replica(t, master.Options().Addr, redistest.Durable()...)
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		prefix := "snowflaketest:" + t.Name() + ":"
		return func() lease.Store {
			return openEmptying(t, redistest.Connect(t, &redis.Options{Addr: master.Options().Addr}), prefix,
				redislease.WithStrict(1, redistest.Ample))
		}
	})
}

// TestWhatIsNotOnTheReplicaIsNotBelieved: neither what is swapped, nor what is read, since a
// keeper reads after a swap that failed, and would take it for granted.
func TestWhatIsNotOnTheReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	server, _ := redistest.Replica(t, master.Options().Addr, redistest.Durable()...)
	patient := open(t, master, "p:", redislease.WithStrict(1, redistest.Ample))
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
			old, master := redistest.Private(t, redistest.Durable()...)
			relay := servers.NewRelay(t, master.Options().Addr)
			_, heir := redistest.Replica(t, relay.Addr(), redistest.Durable()...)
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
	server, client := redistest.Private(t, redistest.Durable()...)
	store := open(t, client, "p:", redislease.WithStrict(0, redistest.Ample))
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
		redistest.Answers(t, client)
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
