package redissegment_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// emptier can remove the hash of a store.
type emptier struct {
	*redissegment.Store

	client redis.UniversalClient
	key    string
}

func (e emptier) Empty(ctx context.Context) error { return e.client.Del(ctx, e.key).Err() }

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	segmenttest.Run(t, func(t *testing.T) func() segment.Store {
		_, prefix := redistest.Shared(t, "counters")
		return func() segment.Store {
			client := redistest.Connect(t, redistest.Options(t))
			return emptier{open(t, client, prefix), client, prefix + "counters"}
		}
	})
}

func TestTheStoreKeepsTheContractInACluster(t *testing.T) {
	nightly.Only(t, "it is the whole contract once more, on a cluster of its own")
	t.Parallel()
	address := redistest.Cluster(t)
	segmenttest.Run(t, func(t *testing.T) func() segment.Store {
		prefix := "snowflaketest:" + t.Name() + ":"
		return func() segment.Store {
			client := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{address}, RouteRandomly: true,
			})
			t.Cleanup(func() { client.Close() })
			return open(t, client, prefix)
		}
	})
}

func TestACounterIsThreeReadableFieldsBesideTheIdentityThatNeverExpire(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "counters")
	store := open(t, client, prefix)
	terms := segment.Terms{Start: 1000, Last: math.MaxInt64 - 1, Remainder: 1, Modulus: 2}
	if first, err := store.ClaimOn(t.Context(), "orders", 10, terms); first != 1000 || err != nil {
		t.Fatalf("the claim returned %d, %v", first, err)
	}
	stored, err := client.HGetAll(t.Context(), prefix+"counters").Result()
	if err != nil || len(stored) != 4 || stored["next:orders"] != "1010" || stored["residue:orders"] != "1 2" ||
		stored["updated:orders"] == "" {
		t.Errorf("the hash is %v, %v", stored, err)
	}
	if ttl, err := client.TTL(t.Context(), prefix+"counters").Result(); ttl != -1 || err != nil {
		t.Errorf("the hash expires after %v, %v", ttl, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Earlier versions refuse to list a field with a colon that they do not know, and leave the kind of a counter that
// they remove.
func TestEarlierVersionsGoOnBesideKinds(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "counters")
	store, key := open(t, client, prefix), prefix+"counters"
	of := func(kind string) segment.Terms {
		terms := segment.AnyTerms()
		terms.Kind = kind
		return terms
	}
	claims := func(name, kind string, want int64) {
		t.Helper()
		if first, err := store.ClaimOn(t.Context(), name, 10, of(kind)); err != nil || first != want {
			t.Errorf("the claim from %q returned %d, %v, want %d", name, first, err, want)
		}
	}
	const name = "eu:orders: all"
	claims(name, "segment", 1)
	stored, err := client.HGetAll(t.Context(), key).Result()
	must(t, err)
	for field := range stored {
		if what, _, colon := strings.Cut(field, ":"); colon && !slices.Contains([]string{"next", "residue", "updated"}, what) {
			t.Errorf("the hash has the field %q", field)
		}
	}
	listed := func(want ...segment.Counter) {
		t.Helper()
		counters, err := store.Counters(t.Context(), "eu:")
		must(t, err)
		if len(counters) != len(want) {
			t.Fatalf("the counters are %+v, want %+v", counters, want)
		}
		for i, c := range counters {
			if c.UpdatedAt = (time.Time{}); c != want[i] {
				t.Errorf("the counter is %+v, want %+v", c, want[i])
			}
		}
	}
	listed(segment.Counter{Name: name, Next: 11, Modulus: 1, Kind: "segment"})
	must(t, client.HDel(t.Context(), key, "next:"+name, "residue:"+name, "updated:"+name).Err())
	listed()
	claims(name, "", 1)
	listed(segment.Counter{Name: name, Next: 11, Modulus: 1})
	claims(name, "daily", 11)
	must(t, client.HDel(t.Context(), key, "next:"+name, "residue:"+name, "updated:"+name).Err())
	claims(name, "segment", 1)
	listed(segment.Counter{Name: name, Next: 11, Modulus: 1, Kind: "segment"})
}

func TestWhatNobodyCouldHaveStoredIsRefusedAndNotChanged(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string][]string{
		"a next number with a leading zero": {"next:orders", "0100", "residue:orders", "0 1"},
		"a next number that is negative":    {"next:orders", "-5", "residue:orders", "0 1"},
		"a next number of 65 bits":          {"next:orders", "18446744073709551616", "residue:orders", "0 1"},
		"a next number in exponents":        {"next:orders", "1e3", "residue:orders", "0 1"},
		"no next number":                    {"residue:orders", "0 1"},
		"no residue":                        {"next:orders", "100"},
		"a remainder above the modulus":     {"next:orders", "100", "residue:orders", "2 2"},
		"a residue of one number":           {"next:orders", "100", "residue:orders", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := redistest.Shared(t, "counters")
			key := prefix + "counters"
			if err := client.HSet(t.Context(), key, stored).Err(); err != nil {
				t.Fatal(err)
			}
			store := open(t, client, prefix)
			first, err := store.Claim(t.Context(), "orders", 1)
			if !errors.Is(err, segment.ErrInvalidCounter) || !strings.Contains(err.Error(), key) {
				t.Errorf("a claim returned %d, %v", first, err)
			}
			if found, err := store.Counters(t.Context(), ""); !errors.Is(err, segment.ErrInvalidCounter) {
				t.Errorf("the counters are %v, %v", found, err)
			}
			if found, err := store.Counters(t.Context(), "invoices"); len(found) != 0 || err != nil {
				t.Errorf("the fault of another counter matters: %v, %v", found, err)
			}
			after, err := client.HGetAll(t.Context(), key).Result()
			delete(after, "readings")
			delete(after, "identity")
			if err != nil || len(after) != len(stored)/2 || after[stored[0]] != stored[1] {
				t.Errorf("the hash is %v, %v afterwards", after, err)
			}
		})
	}
}

func TestAKeyOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "counters")
	if err := client.Set(t.Context(), prefix+"counters", "mine", 0).Err(); err != nil {
		t.Fatal(err)
	}
	first, err := open(t, client, prefix).Claim(t.Context(), "orders", 1)
	if !errors.Is(err, segment.ErrInvalidCounter) || !strings.Contains(err.Error(), "another prefix") {
		t.Errorf("a claim returned %d, %v", first, err)
	}
}

func TestAServerThatDoesNotAnswerIsAStoreThatFailed(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, &redis.Options{Addr: "127.0.0.1:" + servers.Reserve(t), MaxRetries: -1})
	store := open(t, client, "p:")
	if _, err := store.Claim(t.Context(), "orders", 1); !errors.Is(err, segment.ErrStore) {
		t.Errorf("a claim returned %v", err)
	}
	if _, err := redissegment.New(t.Context(), client, "p:", redissegment.WithStrict(0, time.Second)); !errors.Is(err,
		segment.ErrStore) {
		t.Errorf("New with WithStrict returned %v", err)
	}
}

// The days that are over are removed, and a process whose clock is wrong cannot begin one again.
func TestRemovedDaysAreClosedForGood(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "counters")
	store := open(t, client, prefix)
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	on := func(days int) *segment.Source {
		s, err := segment.Daily(store, "invoice", 6, time.UTC,
			segment.WithClock(func() time.Time { return now.AddDate(0, 0, days) }))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old := on(-20)
	first, err := old.Next(t.Context())
	if err != nil || first%1e6 != 1 {
		t.Fatalf("the first number of the old day is %d, %v", first, err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	today := on(0)
	if _, err := today.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	servers.Eventually(t, func() error { // the removal goes on in the background
		counters, err := store.Counters(t.Context(), "invoice/")
		if err == nil && len(counters) != 1 {
			err = errors.New("the old counter is there")
		}
		return err
	})
	if err := today.Close(); err != nil {
		t.Fatal(err)
	}
	late := on(-20)
	defer late.Close()
	if again, err := late.Next(t.Context()); !errors.Is(err, segment.ErrDayFull) {
		t.Errorf("a day that was removed gave %d after %d, %v", again, first, err)
	}
}

func TestTheCountersOfAServerThatForgetsAreWarnedOf(t *testing.T) {
	t.Parallel()
	server, client := redistest.Private(t)
	var log storetest.Log
	words := []string{"redissegment: ", "numbers are given twice", "redissegment.WithStrict", "key=p:counters"}
	open(t, client, "p:", redissegment.WithLogger(log.Logger()))
	log.Want(t, "WARN", 1, words...)

	// A server that does not answer New is looked at by the first claim.
	server.Kill()
	var later storetest.Log
	store := open(t, client, "p:", redissegment.WithLogger(later.Logger()))
	server.Restart()
	redistest.Answers(t, client)
	for range 2 {
		if _, err := store.Claim(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
	}
	later.Want(t, "WARN", 1, words...)
	for name, opt := range map[string]redissegment.Option{
		"nil": nil, "no logger": redissegment.WithLogger(nil), "replicas": redissegment.WithStrict(-1, time.Second),
	} {
		if _, err := redissegment.New(t.Context(), client, "p:", opt); !errors.Is(err, segment.ErrInvalidOption) {
			t.Errorf("%s: New returned %v", name, err)
		}
	}
}
