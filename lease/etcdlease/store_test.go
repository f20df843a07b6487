package etcdlease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		_, prefix := shared(t)
		return func() lease.Store {
			client := connect(t, endpoints()...)
			return emptying{open(t, client, prefix), client, prefix}
		}
	})
}

func TestARecordIsOneReadableKey(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	record, want := storetest.JSON()
	storetest.Create(t, open(t, client, prefix), record)

	answer, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range answer.Kvs {
		keys = append(keys, string(kv.Key))
		if kv.Lease != 0 {
			t.Errorf("the key %s has a lease", kv.Key)
		}
	}
	if all := []string{prefix + "identity", prefix + "nodes/7", markOf(prefix)}; !slices.Equal(keys, all) {
		t.Fatalf("the keys are %v, want %v", keys, all)
	}
	if got := string(answer.Kvs[1].Value); got != want {
		t.Errorf("the value is %s, want %s", got, want)
	}
}

func TestAKeyThatNoKeeperWroteIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	valid, err := storetest.First(7).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ key, value, want string }{
		"no JSON":                  {"7", "held", "no JSON"},
		"nothing":                  {"7", "", "no JSON"},
		"a field too much":         {"7", strings.Replace(string(valid), "{", `{"more":1,`, 1), `"more"`},
		"the record of another":    {"8", string(valid), "node 7"},
		"a key that is no number":  {"seven", string(valid), "seven"},
		"a number with a zero":     {"07", string(valid), "07"},
		"a negative number":        {"-7", string(valid), "-7"},
		"a number of 65 bits":      {"9223372036854775808", string(valid), "9223372036854775808"},
		"something below a number": {"7/lock", string(valid), "7/lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := shared(t)
			store := open(t, client, prefix)
			storetest.Create(t, store, storetest.First(1))
			key := prefix + "nodes/" + c.key
			if _, err := client.Put(t.Context(), key, c.value); err != nil {
				t.Fatal(err)
			}
			_, err := store.List(t.Context())
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), key) ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "delete the key") {
				t.Errorf("List: %v; want ErrInvalidRecord that names %s, %s and a remedy", err, key, c.want)
			}
		})
	}
}

func TestASwapLeavesAlteredRecordsAlone(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	store := open(t, client, prefix)
	if _, err := client.Put(t.Context(), prefix+"nodes/7", "{}"); err != nil {
		t.Fatal(err)
	}
	for _, prev := range []lease.Record{{Node: 7}, storetest.First(7)} {
		ok, err := store.Swap(t.Context(), prev, storetest.Follow(prevOf(prev), "me"))
		if ok || !errors.Is(err, lease.ErrInvalidRecord) {
			t.Errorf("a swap of an altered record from version %d: %t, %v; want ErrInvalidRecord", prev.Version, ok, err)
		}
	}
	answer, err := client.Get(t.Context(), prefix+"nodes/7")
	if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "{}" {
		t.Errorf("the altered record is now %v (%v)", answer, err)
	}
}

// prevOf completes a prev that may be none, so that something can follow it.
func prevOf(prev lease.Record) lease.Record {
	if prev.Version == 0 {
		complete := storetest.First(prev.Node)
		complete.Version = 0
		return complete
	}
	return prev
}

// TestAKeyThatIsWrittenAgainIsComparedAgain: a comparison of revisions alone would refuse a swap
// although the record has the owner and the version, after a restore by hand for example.
func TestAKeyThatIsWrittenAgainIsComparedAgain(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	store := open(t, client, prefix)
	record := storetest.Create(t, store, storetest.First(7))
	value, err := record.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	// Somebody writes the same again, all the time, while swaps go on.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			revision := int64(0)
			if answer, err := client.Get(ctx, prefix+"nodes/7"); err == nil && len(answer.Kvs) == 1 {
				value, revision = answer.Kvs[0].Value, answer.Kvs[0].ModRevision
			}
			_, _ = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(prefix+"nodes/7"), "=", revision)).
				Then(clientv3.OpPut(prefix+"nodes/7", string(value))).Commit()
		}
	}()
	defer func() { cancel(); <-done }()
	for range 200 {
		next := storetest.Renew(record)
		storetest.Swap(t, store, record, next)
		record = next
	}
}

func TestManyRecordsComeInPagesOfOneMoment(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	const nodes = 2500
	var puts []clientv3.Op
	for node := range int64(nodes) {
		value, err := storetest.First(node).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("%snodes/%d", prefix, node), string(value)))
	}
	for some := range slices.Chunk(puts, 100) {
		if _, err := client.Txn(t.Context()).Then(some...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	// A key beside them that begins like theirs is nobody's record.
	if _, err := client.Put(t.Context(), prefix+"nodes0", "beside"); err != nil {
		t.Fatal(err)
	}
	records, err := open(t, client, prefix).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int64]bool)
	for _, r := range records {
		seen[r.Node] = true
	}
	if len(records) != nodes || len(seen) != nodes {
		t.Errorf("List returned %d records of %d nodes, want %d", len(records), len(seen), nodes)
	}
}

func TestOptionsOutOfTheirRangeAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	client := connect(t, "127.0.0.1:1")
	if _, err := etcdlease.New(nil, "p/"); !errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("no client: %v", err)
	}
	if _, err := etcdlease.New(client, ""); !errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("no prefix: %v", err)
	}
	_, err := etcdlease.New(client, "p/", etcdlease.WithHTTPClient(nil), etcdlease.WithClockURLs(), nil,
		etcdlease.WithClockURLs("127.0.0.1:80"), etcdlease.WithClockURLs("http://ok"), etcdlease.WithLocalClock())
	if !errors.Is(err, lease.ErrInvalidOption) {
		t.Fatalf("error %v, want ErrInvalidOption", err)
	}
	for _, want := range []string{"not nil", "at least one", "is nil", "127.0.0.1:80", "WithLocalClock"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
