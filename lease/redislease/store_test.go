package redislease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		_, prefix := redistest.Shared(t, "nodes")
		return func() lease.Store { return openEmptying(t, redistest.Connect(t, redistest.Options(t)), prefix) }
	})
}

func TestTheStoreKeepsTheContractInACluster(t *testing.T) {
	nightly.Only(t, "it is the whole contract once more, on a cluster of its own")
	t.Parallel()
	address := redistest.Cluster(t)
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		prefix := "snowflaketest:" + t.Name() + ":"
		return func() lease.Store {
			client := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{address}, RouteRandomly: true,
			})
			t.Cleanup(func() { client.Close() })
			return openEmptying(t, client, prefix)
		}
	})
}

func TestTheRecordsAreOneReadableHash(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	record, want := storetest.JSON()
	storetest.Create(t, store, record)
	for range 2 {
		if err := storetest.Holds(t, store, record); err != nil {
			t.Error(err)
		}
	}
	fields, err := client.HGetAll(t.Context(), prefix+"nodes").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) != 3 || fields["7"] != want || fields["lists"] != "2" || fields[mark] == "" {
		t.Errorf("the hash is %q, want 7: %s, lists: 2 and the mark", fields, want)
	}
	if ttl := client.TTL(t.Context(), prefix+"nodes").Val(); ttl != -1 {
		t.Errorf("the hash expires in %v", ttl)
	}
}

func TestAFieldThatNoKeeperWroteIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	valid, err := storetest.First(7).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ field, value, want string }{
		"no JSON":                   {"7", "held", "no JSON"},
		"nothing":                   {"7", "", "no JSON"},
		"a field too much":          {"7", strings.Replace(string(valid), "{", `{"more":1,`, 1), `"more"`},
		"a version in quotes":       {"7", strings.Replace(string(valid), `"version":1`, `"version":"1"`, 1), "version is"},
		"the record of another":     {"8", string(valid), "node 7"},
		"a field that is no number": {"seven", string(valid), "seven"},
		"a number with a zero":      {"07", string(valid), "07"},
		"a negative number":         {"-7", string(valid), "-7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := redistest.Shared(t, "nodes")
			store := open(t, client, prefix)
			storetest.Create(t, store, storetest.First(1))
			if err := client.HSet(t.Context(), prefix+"nodes", c.field, c.value).Err(); err != nil {
				t.Fatal(err)
			}
			_, err := store.List(t.Context())
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), prefix+"nodes, field "+c.field) ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "delete the field") {
				t.Errorf("List: %v; want ErrInvalidRecord that names the field %s, %s and a remedy", err, c.field, c.want)
			}
		})
	}
}

func TestASwapLeavesAlteredRecordsAlone(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	const field = "7"
	for _, altered := range []string{"held", "[]", "7", "null", "{}", `{"owner":"first"}`, `{"owner":"first","version":"1"}`} {
		if err := client.HSet(t.Context(), prefix+"nodes", field, altered).Err(); err != nil {
			t.Fatal(err)
		}
		ok, err := store.Swap(t.Context(), storetest.First(7), storetest.Follow(storetest.First(7), "me"))
		if ok || !errors.Is(err, lease.ErrInvalidRecord) {
			t.Errorf("a swap of %s: %t, %v; want ErrInvalidRecord", altered, ok, err)
		}
		ok, err = store.Swap(t.Context(), lease.Record{Node: 7}, storetest.First(7))
		if ok || !errors.Is(err, lease.ErrInvalidRecord) {
			t.Errorf("a creation where there is %s: %t, %v; want ErrInvalidRecord", altered, ok, err)
		}
		if got := client.HGet(t.Context(), prefix+"nodes", field).Val(); got != altered {
			t.Errorf("%s is now %s", altered, got)
		}
	}
}

func TestAKeyOfAnotherKindIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	if err := client.Set(t.Context(), prefix+"nodes", "a text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, listErr := store.List(t.Context())
	_, swapErr := store.Swap(t.Context(), lease.Record{Node: 7}, storetest.First(7))
	for _, err := range []error{listErr, swapErr} {
		if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), prefix+"nodes") ||
			!strings.Contains(err.Error(), "another prefix") {
			t.Errorf("error %v, want ErrInvalidRecord that names the key and a remedy", err)
		}
	}
}

func TestAReplicaAnswersNobody(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t)
	_, behind := redistest.Replica(t, master.Options().Addr)
	store := open(t, behind, "p:")
	if records, err := store.List(t.Context()); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a replica was believed: %v, %v", records, err)
	}
	if ok, err := store.Swap(t.Context(), lease.Record{Node: 7}, storetest.First(7)); ok || err == nil {
		t.Errorf("a replica took a swap: %t, %v", ok, err)
	}
}

func TestASwapWithinTimesFarAwayIsJudgedRight(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	now := time.Now()
	past, future := time.Time{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	record := lease.Record{Node: 7}
	for _, c := range []struct {
		earliest, latest time.Time
		want             bool
	}{
		{past, future, true},
		{past, now.Add(time.Minute), true},
		{now.Add(-time.Minute), future, true},
		{past, now.Add(-time.Minute), false},
		{now.Add(time.Minute), future, false},
		{future, past, false},
	} {
		next := storetest.First(7)
		if record.Version > 0 {
			next = storetest.Renew(record)
		}
		ok, err := store.SwapWithin(t.Context(), record, next, c.earliest, c.latest)
		if ok != c.want || err != nil {
			t.Errorf("a swap from %v to %v: %t, %v; want %t", c.earliest, c.latest, ok, err, c.want)
		}
		if ok {
			record = next
		}
	}
}

func TestTheRecordsOfAServerThatForgetsAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := redistest.Private(t)
	var log storetest.Log
	store := open(t, client, "p:", redislease.WithLogger(log.Logger()))
	log.Want(t, "WARN", 0)
	for range 2 {
		if _, err := store.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log.Want(t, "WARN", 1, "redislease: ", "IDs can be made twice", "redislease.WithStrict", "key=p:nodes")
	for name, opt := range map[string]redislease.Option{
		"nil": nil, "no logger": redislease.WithLogger(nil), "replicas": redislease.WithStrict(-1, time.Second),
	} {
		if _, err := redislease.New(client, "p:", opt); !errors.Is(err, lease.ErrInvalidOption) {
			t.Errorf("%s: New returned %v", name, err)
		}
	}
	_, err := redislease.New(client, "p:", redislease.WithStrict(0, time.Second))
	if !errors.Is(err, lease.ErrStore) || errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("WithStrict, on a server that forgets: New returned %v", err)
	}
}
