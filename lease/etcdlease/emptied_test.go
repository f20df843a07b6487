package etcdlease_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// emptying is a store whose records a test can delete.
type emptying struct {
	*etcdlease.Store
	client *clientv3.Client
	prefix string
}

var _ leasetest.Emptier = emptying{}

func (s emptying) Empty(ctx context.Context) error {
	_, err := s.client.Delete(ctx, s.prefix+"nodes/", clientv3.WithPrefix())
	return err
}

func markOf(prefix string) string { return prefix + "nodes/" + leaseops.MarkName }

func identityOf(t *testing.T, store *etcdlease.Store) string {
	t.Helper()
	id, err := store.Identity(t.Context())
	must(t, err)
	return id.ID
}

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	answer, err := client.Get(t.Context(), key)
	must(t, err)
	if len(answer.Kvs) != 1 {
		t.Fatalf("the key %s is not there", key)
	}
	return string(answer.Kvs[0].Value)
}

func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	_, err := client.Put(t.Context(), key, value)
	must(t, err)
}

func remove(t *testing.T, client *clientv3.Client, key string, opts ...clientv3.OpOption) {
	t.Helper()
	_, err := client.Delete(t.Context(), key, opts...)
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused expects that a store grants no first record, and returns the commands that lead back.
func refused(t *testing.T, store *etcdlease.Store, words ...string) (commands []string) {
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

// run does what a command of etcdctl does, which puts a key.
func run(t *testing.T, client *clientv3.Client, command string) {
	t.Helper()
	words := strings.SplitN(command, " ", 4)
	if len(words) != 4 || words[0] != "etcdctl" || words[1] != "put" {
		t.Fatalf("the command is %q", command)
	}
	put(t, client, words[2], strings.Trim(words[3], "'"))
}

func TestKeysThatAreGoneGrantNothingUntilTheyHaveTheirMarkAgain(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	store, never := open(t, client, prefix), open(t, client, prefix)
	record := storetest.Create(t, store, storetest.First(7))
	id := identityOf(t, store)
	remove(t, client, prefix+"nodes/", clientv3.WithPrefix())

	refused(t, never, "the keys "+prefix+"nodes/", id, "no process holds a number")
	commands := refused(t, store, "the keys "+prefix+"nodes/", id, "no process holds a number")
	if ok, err := store.Swap(t.Context(), record, storetest.Renew(record)); ok || err != nil {
		t.Errorf("an extension of a record that is gone: %t, %v", ok, err)
	}
	if again := refused(t, open(t, client, prefix), id); len(commands) != 1 || again[0] != commands[0] {
		t.Fatalf("the commands are %q and %q", commands, again)
	}
	run(t, client, commands[0])
	for i, s := range []*etcdlease.Store{store, never, open(t, client, prefix)} {
		if again := identityOf(t, s); again != id {
			t.Errorf("the identity was %s, and is %s", id, again)
		}
		storetest.Create(t, s, storetest.First(int64(i)))
	}
}

// What is gone with its note tells nothing, so a store that comes later is another one. Databases refuse it.
func TestKeysThatAreGoneWithTheirNoteHaveAnotherIdentity(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	before := open(t, client, prefix)
	storetest.Create(t, before, storetest.First(7))
	id := identityOf(t, before)
	remove(t, client, prefix, clientv3.WithPrefix())
	refused(t, before, id)
	later := open(t, client, prefix)
	storetest.Create(t, later, storetest.First(7))
	refused(t, before, id, identityOf(t, later), "start them again")
}

func TestKeysOfAnotherIdentityThanTheirNoteAreRefused(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]int{"the records are right": 0, "the note is right": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := shared(t)
			first, second := open(t, client, prefix), open(t, client, prefix+"other/")
			ids := []string{identityOf(t, second), identityOf(t, first)}
			put(t, client, markOf(prefix), get(t, client, markOf(prefix+"other/")))
			refused(t, first, ids[0], ids[1])
			store := open(t, client, prefix)
			commands := refused(t, store, ids[0], ids[1], "the key "+prefix+"identity")
			if len(commands) != 2 {
				t.Fatalf("the commands are %q", commands)
			}
			run(t, client, commands[way])
			if id := identityOf(t, store); id != ids[way] {
				t.Errorf("the identity is %s, want %s", id, ids[way])
			}
			storetest.Create(t, store, storetest.First(8))
		})
	}
}

func TestANoteThatIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	store := open(t, client, prefix)
	id := identityOf(t, store)
	remove(t, client, prefix+"identity")
	storetest.Create(t, store, storetest.First(7))
	if again := identityOf(t, open(t, client, prefix)); again != id || get(t, client, prefix+"identity") != id {
		t.Errorf("the identity was %s, and is %s", id, again)
	}
}

// Versions before the mark had the note alone, and nothing at all for programs that asked for no identity.
func TestRecordsOfAnEarlierVersionGetAMark(t *testing.T) {
	t.Parallel()
	for name, note := range map[string]string{"with a note": "NOTED", "without a note": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := shared(t)
			record := storetest.First(7)
			value, err := record.MarshalJSON()
			must(t, err)
			put(t, client, prefix+"nodes/7", string(value))
			if note != "" {
				put(t, client, prefix+"identity", note)
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
	client, prefix := shared(t)
	store := open(t, client, prefix)
	id := identityOf(t, store)
	var r lease.Record
	must(t, r.UnmarshalJSON([]byte(get(t, client, markOf(prefix)))))
	if r != leaseops.Mark(id) {
		t.Errorf("the mark is %+v", r)
	}
	// They may write it again, as when the leases move to another store.
	r.Version++
	value, err := r.MarshalJSON()
	must(t, err)
	put(t, client, markOf(prefix), string(value))
	must(t, storetest.Holds(t, store))
	storetest.Create(t, store, storetest.First(7))
}

func TestAMarkThatIsNoneIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	store := open(t, client, prefix)
	storetest.Create(t, store, storetest.First(7))
	other, err := storetest.First(leaseops.MarkNode).MarshalJSON()
	must(t, err)
	for _, value := range []string{"x", string(other)} {
		put(t, client, markOf(prefix), value)
		for _, s := range []*etcdlease.Store{store, open(t, client, prefix)} {
			if ok, _ := s.Swap(t.Context(), lease.Record{}, storetest.First(8)); ok {
				t.Error("a first record was granted")
			}
			_, err := s.List(t.Context())
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), markOf(prefix)) {
				t.Errorf("List: %v; want ErrInvalidRecord", err)
			}
		}
	}
}
