package zklease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// emptying is a store whose records a test can delete.
type emptying struct {
	*zklease.Store
	conn *zk.Conn
	path string
}

var _ leasetest.Emptier = emptying{}

func (s emptying) Empty(context.Context) error {
	for {
		err := sweep(s.conn, s.path+"/nodes")
		if !errors.Is(err, zk.ErrNotEmpty) { // a keeper was faster
			return err
		}
	}
}

func markOf(path string) string { return path + "/nodes/" + leaseops.MarkName }

func identityOf(t *testing.T, store *zklease.Store) string {
	t.Helper()
	id, err := store.Identity(t.Context())
	must(t, err)
	return id.ID
}

func put(t *testing.T, conn *zk.Conn, znode, data string) {
	t.Helper()
	_, err := conn.Create(znode, []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused expects that a store grants no first record, and returns the commands that lead back.
func refused(t *testing.T, store *zklease.Store, words ...string) (commands []string) {
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

// run does what commands of zkCli.sh do, which create znodes and set them. What is there already stays.
func run(t *testing.T, conn *zk.Conn, commands string) {
	t.Helper()
	for command := range strings.SplitSeq(commands, "\n") {
		words := append(strings.SplitN(command, " ", 3), "")
		data := []byte(strings.Trim(words[2], "'"))
		var err error
		switch words[0] {
		case "create":
			_, err = conn.Create(words[1], data, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		case "set":
			_, err = conn.Set(words[1], data, -1)
		default:
			t.Fatalf("the command is %q", command)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

func TestZnodesThatAreGoneGrantNothingUntilTheyHaveTheirMarkAgain(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	store, never := open(t, conn, path), open(t, conn, path)
	record := storetest.Create(t, store, storetest.First(7))
	id := identityOf(t, store)
	must(t, sweep(conn, path+"/nodes"))

	refused(t, never, "the znodes "+path+"/nodes/", id, "no process holds a number")
	commands := refused(t, store, "the znodes "+path+"/nodes/", id, "no process holds a number")
	if ok, err := store.Swap(t.Context(), record, storetest.Renew(record)); ok || err != nil {
		t.Errorf("an extension of a record that is gone: %t, %v", ok, err)
	}
	if again := refused(t, open(t, conn, path), id); len(commands) != 1 || again[0] != commands[0] {
		t.Fatalf("the commands are %q and %q", commands, again)
	}
	run(t, conn, commands[0])
	for i, s := range []*zklease.Store{store, never, open(t, conn, path)} {
		if again := identityOf(t, s); again != id {
			t.Errorf("the identity was %s, and is %s", id, again)
		}
		storetest.Create(t, s, storetest.First(int64(i)))
	}
}

// What is gone with its note tells nothing, so a store that comes later is another one. Databases refuse it.
func TestZnodesThatAreGoneWithTheirNoteHaveAnotherIdentity(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	before := open(t, conn, path)
	storetest.Create(t, before, storetest.First(7))
	id := identityOf(t, before)
	must(t, sweep(conn, path))
	refused(t, before, id)
	later := open(t, conn, path)
	storetest.Create(t, later, storetest.First(7))
	refused(t, before, id, identityOf(t, later), "start them again")
}

func TestZnodesOfAnotherIdentityThanTheirNoteAreRefused(t *testing.T) {
	ofTheNight(t)
	t.Parallel()
	for name, way := range map[string]int{"the records are right": 0, "the note is right": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, path := shared(t)
			first := open(t, conn, path)
			ids := []string{"OTHER", identityOf(t, first)}
			must(t, sweep(conn, markOf(path)))
			put(t, conn, markOf(path), "")
			put(t, conn, markOf(path)+"/OTHER", "")
			refused(t, first, ids[0], ids[1])
			store := open(t, conn, path)
			commands := refused(t, store, ids[0], ids[1], "the znode "+path+"/identity")
			if len(commands) != 2 {
				t.Fatalf("the commands are %q", commands)
			}
			run(t, conn, commands[way])
			if id := identityOf(t, store); id != ids[way] {
				t.Errorf("the identity is %s, want %s", id, ids[way])
			}
			storetest.Create(t, store, storetest.First(8))
		})
	}
}

func TestANoteThatIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	store := open(t, conn, path)
	id := identityOf(t, store)
	must(t, conn.Delete(path+"/identity", -1))
	storetest.Create(t, store, storetest.First(7))
	again := identityOf(t, open(t, conn, path))
	if note, _, err := conn.Get(path + "/identity"); err != nil || again != id || string(note) != id {
		t.Errorf("the identity was %s, and is %s, noted as %s (%v)", id, again, note, err)
	}
}

// Versions before the mark had the note alone, and nothing at all for programs that asked for no identity.
func TestRecordsOfAnEarlierVersionGetAMark(t *testing.T) {
	ofTheNight(t)
	t.Parallel()
	for name, note := range map[string]string{"with a note": "NOTED", "without a note": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, path := shared(t)
			record := storetest.First(7)
			value, err := record.MarshalJSON()
			must(t, err)
			put(t, conn, path, "")
			put(t, conn, path+"/nodes", "")
			put(t, conn, path+"/nodes/7", string(value))
			if note != "" {
				put(t, conn, path+"/identity", note)
			}
			store, other := open(t, conn, path), open(t, conn, path)
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
	conn, path := shared(t)
	store := open(t, conn, path)
	id := identityOf(t, store)
	data, _, err := conn.Get(markOf(path))
	must(t, err)
	var r lease.Record
	must(t, r.UnmarshalJSON(data))
	if r != leaseops.Mark(id) {
		t.Errorf("the mark is %+v", r)
	}
	// They may write it again, as when the leases move to another store.
	r.Version++
	data, err = r.MarshalJSON()
	must(t, err)
	_, err = conn.Set(markOf(path), data, -1)
	must(t, err)
	must(t, storetest.Holds(t, store))
	storetest.Create(t, store, storetest.First(7))
}

// An administrator who deletes znodes begins with the lowest, and may stop after that.
func TestProcessesThatStartTogetherGiveAMarkWithoutIdentityTheSame(t *testing.T) {
	t.Parallel()
	conn, root := shared(t)
	put(t, conn, root, "")
	for n := range 10 {
		path := fmt.Sprintf("%s/%d", root, n)
		for _, znode := range []string{path, path + "/nodes"} {
			put(t, conn, znode, "")
		}
		put(t, conn, markOf(path), leaseops.MarkText("FIRST"))
		var together sync.WaitGroup
		for range 4 {
			store := open(t, conn, path)
			together.Go(func() {
				if identity, err := store.Identity(t.Context()); err != nil || identity.ID != "FIRST" {
					t.Errorf("the identity is %q, %v", identity.ID, err)
				}
			})
		}
		together.Wait()
	}
}
