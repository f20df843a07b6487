package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// count is a script that writes: it returns how often it was run.
const count = "return {redis.call('HINCRBY', KEYS[1], 'n', 1), ARGV[1]}"

var (
	errOption = errors.New("invalid option")
	errValue  = errors.New("invalid value")
	errStore  = errors.New("the store failed")
)

func tryOpen(t *testing.T, client redis.UniversalClient, prefix string, opts ...redisstore.Option) (*redisstore.Store, error) {
	t.Helper()
	return redisstore.Open(t.Context(), client, prefix, redisstore.Config{
		Package: "redistest", Name: "things", Holds: "things", Harm: "things are lost",
		ErrOption: errOption, ErrValue: errValue, ErrStore: errStore,
	}, opts)
}

func open(t *testing.T, client redis.UniversalClient, prefix string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := tryOpen(t, client, prefix, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// write runs the script that counts, and returns its error.
func write(ctx context.Context, store *redisstore.Store) error {
	_, err := store.Write(ctx, redisstore.Once, count, "x")
	return err
}

// says expects an error of a kind with some words.
func says(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
		t.Errorf("the error is %v; want one of the kind %q that says %q", err, kind, words)
	}
}

func TestAScriptIsAnsweredWithTexts(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "things")
	store := open(t, client, prefix)
	for _, want := range []string{"1", "2"} {
		answer, err := store.Write(t.Context(), redisstore.Again, count, "x")
		if err != nil || !slices.Equal(answer, []string{want, "x"}) {
			t.Errorf("the answer is %q, %v", answer, err)
		}
	}
	if n := client.HGet(t.Context(), prefix+"things", "n").Val(); n != "2" || store.Key() != prefix+"things" {
		t.Errorf("the key %s has the count %s", store.Key(), n)
	}
	says(t, store.Unexpected([]string{"no"}), errStore, store.Key(), `"no"`)
}

func TestTheClockIsTheServersToTheMicrosecond(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "things")
	before, err1 := client.Time(t.Context()).Result()
	now, err2 := open(t, client, prefix).Now(t.Context())
	after, err3 := client.Time(t.Context()).Result()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if now.Before(before) || now.After(after) || now.Location() != time.UTC {
		t.Errorf("the clock shows %v, want from %v to %v in UTC", now, before, after)
	}
}

func TestAKeyOfAnotherKindIsNamed(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "things")
	if err := client.Set(t.Context(), prefix+"things", "a text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	says(t, write(t.Context(), open(t, client, prefix)), errValue, prefix+"things", "another prefix")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	t.Cleanup(func() { ring.Close() })
	for name, c := range map[string]struct {
		client redis.UniversalClient
		prefix string
		opts   []redisstore.Option
	}{
		"no client":          {nil, "p:", nil},
		"no prefix":          {client, "", nil},
		"a ring":             {ring, "p:", nil},
		"a nil option":       {client, "p:", []redisstore.Option{nil}},
		"no logger":          {client, "p:", []redisstore.Option{redisstore.WithLogger(nil)}},
		"a negative number":  {client, "p:", []redisstore.Option{redisstore.WithStrict(-1, time.Second)}},
		"a client of others": {struct{ redis.UniversalClient }{client}, "p:", []redisstore.Option{redisstore.WithStrict(0, time.Second)}},
	} {
		if _, err := tryOpen(t, c.client, c.prefix, c.opts...); !errors.Is(err, errOption) || errors.Is(err, errStore) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tryOpen(t, client, "p:"); err != nil {
		t.Errorf("without strictness nothing is asked: %v", err)
	}
	if _, err := tryOpen(t, client, "p:", redisstore.WithStrict(0, time.Second)); !errors.Is(err, errStore) || errors.Is(err, errOption) {
		t.Errorf("a server that does not answer: %v", err)
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	server, _ := redistest.Replica(t, master.Options().Addr, redistest.Durable()...)
	store := open(t, master, "p:", redisstore.WithStrict(1, redistest.Ample))
	server.Pause()
	defer server.Resume()
	why := errors.New("nobody waits any longer")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	ending, cancelEnding := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelEnding()
	began := time.Now()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{canceled, why}, {canceled, context.Canceled}, {ending, context.DeadlineExceeded}} {
		if err := write(c.ctx, store); !errors.Is(err, c.want) || errors.Is(err, errStore) {
			t.Errorf("a request returned %v; want %v", err, c.want)
		}
	}
	if took := time.Since(began); took >= redistest.Ample {
		t.Errorf("it took %v", took)
	}
}

func TestStrictnessRefusesAServerThatForgetsAndSaysWhy(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, "--maxmemory-policy", "allkeys-lru")
	refused := func(words ...string) {
		t.Helper()
		_, err := tryOpen(t, master, "p:", redisstore.WithStrict(0, time.Second))
		says(t, err, errStore, words...)
	}
	set := func(name, value string) {
		t.Helper()
		if err := master.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refused(`appendonly is "no"`, `appendfsync is "everysec"`, "allkeys-lru", "noeviction")
	for _, setting := range [][2]string{
		{"appendonly", "yes"}, {"appendfsync", "always"}, {"no-appendfsync-on-rewrite", "yes"},
		{"maxmemory-policy", "volatile-lru"},
	} {
		refused()
		set(setting[0], setting[1])
	}
	refused("no-appendfsync-on-rewrite")
	set("no-appendfsync-on-rewrite", "no")
	store := open(t, master, "p:", redisstore.WithStrict(0, time.Second))
	if err := write(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	// What the server was when the store was opened is not what it is for good.
	set("appendfsync", "everysec")
	says(t, write(t.Context(), store), errStore, "appendfsync")
}

func TestStrictnessSaysWhichRightsItNeeds(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	for _, right := range []string{"config", "info", "command"} {
		_, err := tryOpen(t, redistest.Denied(t, master, right), "p:", redisstore.WithStrict(0, time.Second))
		says(t, err, errStore, "CONFIG GET, INFO, WAIT")
	}
}

func TestStrictnessKnowsHowManyReplicasThereAre(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	store := open(t, master, "p:", redisstore.WithStrict(0, time.Second))
	if err := write(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	server, behind := redistest.Replica(t, master.Options().Addr, redistest.Durable()...)
	// One more than has to confirm: a failover to it could lose what was acknowledged.
	says(t, write(t.Context(), store), errStore, `"1" replicas`)
	_, err := tryOpen(t, master, "p:", redisstore.WithStrict(0, time.Second))
	says(t, err, errStore, `"1" replicas`)
	_, err = tryOpen(t, behind, "p:", redisstore.WithStrict(1, time.Second))
	says(t, err, errStore, "has to be the master")
	if err := write(t.Context(), open(t, master, "p:", redisstore.WithStrict(1, redistest.Ample))); err != nil {
		t.Error(err)
	}
	// One less: nobody can know whether it will come, but nothing is believed until then.
	says(t, write(t.Context(), open(t, master, "p:", redisstore.WithStrict(2, 20*time.Millisecond))), errStore, "of 2 replicas")
	server.Pause()
	defer server.Resume()
	answer, err := open(t, master, "p:", redisstore.WithStrict(1, 50*time.Millisecond)).Write(t.Context(), redisstore.Once, count, "x")
	says(t, err, errStore, "0 of 1 replicas")
	if len(answer) != 2 {
		t.Errorf("the answer of a script that is not confirmed is %q", answer)
	}
}

func TestStrictnessWorksInACluster(t *testing.T) {
	t.Parallel()
	address := redistest.Cluster(t, redistest.Durable()...)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	t.Cleanup(func() { client.Close() })
	store := open(t, client, "p:", redisstore.WithStrict(0, redistest.Ample))
	if err := write(t.Context(), store); err != nil {
		t.Error(err)
	}
}

func TestAServerThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	_, client := redistest.Private(t, "--maxmemory-policy", "allkeys-lru")
	var log storetest.Log
	store := open(t, client, "p:", redisstore.WithLogger(log.Logger()))
	store.Warn(t.Context())
	store.Warn(t.Context())
	log.Want(t, "WARN", 1, "redistest: the server may forget what it has acknowledged", `appendonly is \"no\"`,
		`appendfsync is \"everysec\"`, "allkeys-lru", "noeviction", "things are lost", "redistest.WithStrict", "key=p:things")
}

func TestAServerThatComesLaterIsWarnedOfThen(t *testing.T) {
	t.Parallel()
	server, client := redistest.Private(t)
	server.Kill()
	var log storetest.Log
	store := open(t, client, "p:", redisstore.WithLogger(log.Logger()))
	store.Warn(t.Context())
	log.Want(t, "WARN", 0)
	server.Restart()
	redistest.Answers(t, client)
	store.Warn(t.Context())
	log.Want(t, "WARN", 1, "may forget")
}

func TestAServerThatForgetsNothingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := redistest.Private(t, redistest.Durable()...)
	var log storetest.Log
	open(t, client, "p:", redisstore.WithLogger(log.Logger())).Warn(t.Context())
	open(t, client, "p:", redisstore.WithLogger(log.Logger()), redisstore.WithStrict(0, redistest.Ample)).Warn(t.Context())
	log.Want(t, "WARN", 0)
}

func TestAServerThatMayNotBeLookedAtIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t)
	var log storetest.Log
	open(t, redistest.Denied(t, master, "config"), "p:", redisstore.WithLogger(log.Logger())).Warn(t.Context())
	log.Want(t, "INFO", 1, "could not be checked", "CONFIG GET")
}
