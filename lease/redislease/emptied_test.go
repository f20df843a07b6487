package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// emptying is a store whose hash a test can delete.
type emptying struct {
	*redislease.Store
	client redis.UniversalClient
	prefix string
}

var _ leasetest.Emptier = emptying{}

func (s emptying) Empty(ctx context.Context) error { return s.client.Del(ctx, s.prefix+"nodes").Err() }

func openEmptying(t *testing.T, client redis.UniversalClient, prefix string, opts ...redislease.Option) emptying {
	t.Helper()
	return emptying{open(t, client, prefix, opts...), client, prefix}
}

// mark is the field of the hash that tells its identity.
const mark = leaseops.MarkName

func identityOf(t *testing.T, store *redislease.Store) string {
	t.Helper()
	id, err := store.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id.ID
}

// refused expects that a store grants no first record, and returns the commands that lead back.
func refused(t *testing.T, store *redislease.Store, words ...string) (commands []string) {
	t.Helper()
	if ok, _ := store.Swap(t.Context(), lease.Record{}, storetest.First(8)); ok {
		t.Error("a first record was granted")
	}
	records, err := store.List(t.Context())
	if !errors.Is(err, errs.ErrAuthority) {
		t.Fatalf("the records are %v, %v; want ErrAuthority", records, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
	for i, part := range strings.Split(err.Error(), "\n\n") {
		if i%2 == 1 {
			commands = append(commands, part)
		}
	}
	return commands
}

// run sends a command as it stands in an error.
func run(t *testing.T, client *redis.Client, command string) {
	t.Helper()
	var args []any
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		for _, word := range strings.Fields(part) {
			args = append(args, word)
		}
	}
	if err := client.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAHashThatIsGoneGrantsNothingUntilItHasItsMarkAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, client *redis.Client){
		"deleted": func(t *testing.T, client *redis.Client) { must(t, client.Del(t.Context(), "p:nodes").Err()) },
		"renamed": func(t *testing.T, client *redis.Client) {
			must(t, client.Rename(t.Context(), "p:nodes", "p:old").Err())
		},
		"without any field": func(t *testing.T, client *redis.Client) {
			must(t, client.HDel(t.Context(), "p:nodes", "7", "lists", mark).Err())
		},
		"evicted": evict,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := redistest.Private(t)
			store, never := open(t, client, "p:"), open(t, client, "p:")
			record := storetest.Create(t, store, storetest.First(7))
			id := identityOf(t, store)
			lose(t, client)

			refused(t, never, "the hash p:nodes", id, "no process holds a number")
			commands := refused(t, store, "the hash p:nodes", id, "no process holds a number")
			if ok, err := store.Swap(t.Context(), record, storetest.Renew(record)); ok || err != nil {
				t.Errorf("an extension of a record that is gone: %t, %v", ok, err)
			}
			if again := refused(t, open(t, client, "p:"), id); len(commands) != 1 || again[0] != commands[0] {
				t.Fatalf("the commands are %q and %q", commands, again)
			}
			run(t, client, commands[0])
			for i, s := range []*redislease.Store{store, never, open(t, client, "p:")} {
				if again := identityOf(t, s); again != id {
					t.Errorf("the identity was %s, and is %s", id, again)
				}
				storetest.Create(t, s, storetest.First(int64(i)))
			}
		})
	}
}

// evict makes a server that is short of memory drop the key that was not used for the longest time.
func evict(t *testing.T, client *redis.Client) {
	t.Helper()
	must(t, client.HSet(t.Context(), "p:nodes", "9", strings.Repeat("x", 1<<20)).Err())
	must(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	time.Sleep(2 * time.Second) // by the clock of the server, which counts seconds
	must(t, client.Get(t.Context(), "p:identity").Err())
	memory, err := client.InfoMap(t.Context(), "memory").Result()
	must(t, err)
	var used int64
	_, err = fmt.Sscan(memory["Memory"]["used_memory"], &used)
	must(t, err)
	must(t, client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used-1<<19)).Err())
	servers.Eventually(t, func() error {
		if n := client.Exists(t.Context(), "p:nodes").Val(); n != 0 {
			return errors.New("the hash is still there")
		}
		return nil
	})
	if n := client.Exists(t.Context(), "p:identity").Val(); n != 1 {
		t.Fatal("the note is gone, too")
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// What was flushed tells nothing, so a store that comes later is another one, which databases refuse.
func TestAServerThatWasFlushedHasAnotherIdentity(t *testing.T) {
	t.Parallel()
	_, client := redistest.Private(t)
	before := open(t, client, "p:")
	storetest.Create(t, before, storetest.First(7))
	id := identityOf(t, before)
	must(t, client.FlushAll(t.Context()).Err())
	refused(t, before, id)
	later := open(t, client, "p:")
	storetest.Create(t, later, storetest.First(7))
	if again := identityOf(t, later); again == id {
		t.Error("the identity has come back")
	}
	refused(t, before, id, identityOf(t, later), "start them again")
}

func TestAHashOfAnotherIdentityThanItsNoteIsRefused(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]int{"the hash is right": 0, "the note is right": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := redistest.Private(t)
			first, second := open(t, client, "p:"), open(t, client, "q:")
			ids := []string{identityOf(t, second), identityOf(t, first)}
			record := storetest.Create(t, second, storetest.First(7))
			must(t, client.Rename(t.Context(), "q:nodes", "p:nodes").Err())
			refused(t, first, ids[0], ids[1])
			store := open(t, client, "p:")
			commands := refused(t, store, ids[0], ids[1], "key p:identity", "the hash p:nodes")
			if len(commands) != 2 {
				t.Fatalf("the commands are %q", commands)
			}
			run(t, client, commands[way])
			if id := identityOf(t, store); id != ids[way] {
				t.Errorf("the identity is %s, want %s", id, ids[way])
			}
			must(t, storetest.Holds(t, store, record))
			storetest.Create(t, store, storetest.First(8))
		})
	}
}

func TestANoteThatIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	id := identityOf(t, store)
	must(t, client.Del(t.Context(), prefix+"identity").Err())
	storetest.Create(t, store, storetest.First(7))
	again := identityOf(t, open(t, client, prefix))
	if note := client.Get(t.Context(), prefix+"identity").Val(); again != id || note != id {
		t.Errorf("the identity was %s, and is %s, noted as %s", id, again, note)
	}
}

// Versions before the mark had the note alone, and nothing at all for programs that asked for no identity.
func TestRecordsOfAnEarlierVersionGetAMark(t *testing.T) {
	t.Parallel()
	for name, note := range map[string]string{"with a note": "NOTED", "without a note": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := redistest.Shared(t, "nodes")
			record := storetest.First(7)
			value, err := record.MarshalJSON()
			must(t, err)
			must(t, client.HSet(t.Context(), prefix+"nodes", "7", value, "lists", 3).Err())
			if note != "" {
				must(t, client.Set(t.Context(), prefix+"identity", note, 0).Err())
			}
			store, other := open(t, client, prefix), open(t, client, prefix)
			created := storetest.Create(t, store, storetest.First(8))
			must(t, storetest.Holds(t, other, record, created))
			if id := identityOf(t, other); id != identityOf(t, store) || note != "" && id != note {
				t.Errorf("the identity is %s", id)
			}
		})
	}
}

func TestTheMarkIsARecordThatEarlierVersionsAccept(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	id := identityOf(t, store)
	var r lease.Record
	must(t, r.UnmarshalJSON([]byte(client.HGet(t.Context(), prefix+"nodes", mark).Val())))
	if r != leaseops.Mark(id) {
		t.Errorf("the mark is %+v", r)
	}
	// They may write it again, as when the leases move to another store.
	r.Version++
	value, err := r.MarshalJSON()
	must(t, err)
	must(t, client.HSet(t.Context(), prefix+"nodes", mark, value).Err())
	must(t, storetest.Holds(t, store))
	storetest.Create(t, store, storetest.First(7))
}

func TestAMarkThatIsNoneIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	store := open(t, client, prefix)
	storetest.Create(t, store, storetest.First(7))
	other, err := storetest.First(leaseops.MarkNode).MarshalJSON()
	must(t, err)
	for _, value := range []string{"x", string(other)} {
		must(t, client.HSet(t.Context(), prefix+"nodes", mark, value).Err())
		for _, s := range []*redislease.Store{store, open(t, client, prefix)} {
			if ok, _ := s.Swap(t.Context(), lease.Record{}, storetest.First(8)); ok {
				t.Error("a first record was granted")
			}
			_, err := s.List(t.Context())
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), mark) {
				t.Errorf("List: %v; want ErrInvalidRecord", err)
			}
		}
	}
}

// The commands are those that the documentation of the package names.
func TestAUserNeedsTheCommandsThatAreDocumented(t *testing.T) {
	t.Parallel()
	_, server := redistest.Private(t)
	as := func(name, keys string) *redislease.Store {
		rights := "+eval +get +set +hget +hset +hgetall +hincrby +time"
		args := append([]any{"acl", "setuser", name, "on", "nopass"}, anys(keys+" "+rights)...)
		must(t, server.Do(t.Context(), args...).Err())
		client := redistest.Connect(t, &redis.Options{Addr: server.Options().Addr, Username: name, Password: "any"})
		return open(t, client, "p:")
	}
	if _, err := as("poor", "~p:nodes").List(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "p:identity") || !strings.Contains(err.Error(), "GET and SET") {
		t.Errorf("without rights on the note the error is %v", err)
	}
	store := as("rich", "~p:nodes ~p:identity")
	record := storetest.Create(t, store, storetest.First(7))
	must(t, storetest.Holds(t, store, storetest.Swap(t, store, record, storetest.Renew(record))))
	identityOf(t, as("later", "~p:nodes ~p:identity"))
}

func anys(words string) (all []any) {
	for _, word := range strings.Fields(words) {
		all = append(all, word)
	}
	return all
}
