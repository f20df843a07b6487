package zklease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestTheStoreKeepsTheContract(t *testing.T) {
	ofTheNight(t) // or each clause would say it
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		_, path := shared(t)
		return func() lease.Store {
			conn := connect(t, addresses()...)
			return emptying{open(t, conn, path), conn, path}
		}
	})
}

func TestARecordIsOneReadableZnodeThatStays(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	record, want := storetest.JSON()
	storetest.Create(t, open(t, conn, path+"/deep/down"), record)

	data, stat, err := conn.Get(path + "/deep/down/nodes/7")
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != want {
		t.Errorf("the data is %s, want %s", data, want)
	}
	if stat.EphemeralOwner != 0 {
		t.Error("the znode goes with the session")
	}
}

func TestAZnodeThatNoKeeperWroteIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	valid, err := storetest.First(7).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ znode, data, want string }{
		"no JSON":                  {"7", "held", "no JSON"},
		"nothing":                  {"7", "", "no JSON"},
		"a field too much":         {"7", strings.Replace(string(valid), "{", `{"more":1,`, 1), `"more"`},
		"the record of another":    {"8", string(valid), "node 7"},
		"a name that is no number": {"seven", string(valid), "seven"},
		"a number with a zero":     {"07", string(valid), "07"},
		"a negative number":        {"-7", string(valid), "-7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, path := shared(t)
			store := open(t, conn, path)
			for node := range int64(50) {
				storetest.Swap(t, store, lease.Record{Node: 100 + node}, storetest.First(100+node))
			}
			znode := path + "/nodes/" + c.znode
			if _, err := conn.Create(znode, []byte(c.data), zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
			_, err := store.List(t.Context())
			if !errors.Is(err, lease.ErrInvalidRecord) || !strings.Contains(err.Error(), znode) ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "delete the znode") {
				t.Errorf("List: %v; want ErrInvalidRecord that names %s, %s and a remedy", err, znode, c.want)
			}
		})
	}
}

func TestASwapLeavesAlteredRecordsAlone(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	store := open(t, conn, path)
	storetest.Create(t, store, storetest.First(7))
	if _, err := conn.Set(path+"/nodes/7", []byte("{}"), -1); err != nil {
		t.Fatal(err)
	}
	first := storetest.First(7)
	if ok, err := store.Swap(t.Context(), first, storetest.Follow(first, "me")); ok || !errors.Is(err, lease.ErrInvalidRecord) {
		t.Errorf("a swap of an altered record: %t, %v; want ErrInvalidRecord", ok, err)
	}
	if ok, err := store.Swap(t.Context(), lease.Record{Node: 7}, storetest.First(7)); ok || err != nil {
		t.Errorf("a creation where there is something: %t, %v; want it refused", ok, err)
	}
	if data, _, err := conn.Get(path + "/nodes/7"); err != nil || string(data) != "{}" {
		t.Errorf("the altered record is now %s (%v)", data, err)
	}
}

// TestAZnodeThatIsWrittenAgainIsComparedAgain: a comparison of versions of the znode alone would
// refuse a swap although the record has the owner and the version.
func TestAZnodeThatIsWrittenAgainIsComparedAgain(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	store := open(t, conn, path)
	record := storetest.Create(t, store, storetest.First(7))
	other := connect(t, addresses()...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			data, stat, err := other.Get(path + "/nodes/7")
			if err == nil {
				_, _ = other.Set(path+"/nodes/7", data, stat.Version)
			}
		}
	}()
	defer func() { cancel(); <-done }()
	for range 100 {
		next := storetest.Renew(record)
		storetest.Swap(t, store, record, next)
		record = next
	}
}

func TestTheClockIsTheLeaders(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	store := open(t, conn, path)
	before := time.Now()
	first, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if off := first.Sub(before); off < -lease.MaxSkew || off > lease.MaxSkew || first.Location() != time.UTC {
		t.Errorf("the clock shows %v, want about %v in UTC", first, before)
	}
	time.Sleep(3 * time.Millisecond) // of the clock's resolution, the time itself does not matter
	if second, err := store.Now(t.Context()); err != nil || !second.After(first) {
		t.Errorf("the clock shows %v (%v), then %v", first, err, second)
	}
}

func TestWithoutRightsTheErrorSaysWhichToGive(t *testing.T) {
	t.Parallel()
	conn, path := shared(t)
	owned := zk.DigestACL(zk.PermAll, "user", "secret")
	if err := conn.AddAuth("digest", []byte("user:secret")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sweep(conn, path) }) // nobody else may
	storetest.Create(t, open(t, conn, path, zklease.WithACL(owned...)), storetest.First(7))
	for _, znode := range []string{path, path + "/nodes", path + "/clock", path + "/nodes/7"} {
		if acl, _, err := conn.GetACL(znode); err != nil || len(acl) != 1 || acl[0] != owned[0] {
			t.Errorf("the rights of %s are %v (%v), want %v", znode, acl, err, owned)
		}
	}
	stranger := open(t, connect(t, addresses()...), path)
	_, nowErr := stranger.Now(t.Context())
	_, listErr := stranger.List(t.Context())
	_, swapErr := stranger.Swap(t.Context(), lease.Record{Node: 8}, storetest.First(8))
	for _, err := range []error{nowErr, listErr, swapErr} {
		if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "AddAuth") || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want ErrNoAuth with the path and a remedy", err)
		}
	}
}

func TestManyProcessesMayMakeTheZnodesAtOnce(t *testing.T) {
	t.Parallel()
	_, path := shared(t)
	errs := make(chan error)
	const processes = 8
	for node := range int64(processes) {
		store := open(t, connect(t, addresses()...), path+"/new")
		go func() {
			ok, err := store.Swap(t.Context(), lease.Record{Node: node}, storetest.First(node))
			if err == nil && !ok {
				err = fmt.Errorf("node %d was refused", node)
			}
			errs <- err
		}()
	}
	for range processes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestOptionsOutOfTheirRangeAreRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, "127.0.0.1:1")
	if _, err := zklease.New(nil, "/p"); !errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("no connection: %v", err)
	}
	for _, path := range []string{"", "/", "p", "p/q", "/p/", "//p", "/p//q", "/p/../q", "/./p", "/p\x00", "/p\u0085", "/\ufff0"} {
		if _, err := zklease.New(conn, path); !errors.Is(err, lease.ErrInvalidOption) {
			t.Errorf("the path %q: %v; want ErrInvalidOption", path, err)
		}
	}
	for _, path := range []string{"/p", "/p/q", "/päth/.hidden"} {
		if _, err := zklease.New(conn, path); err != nil {
			t.Errorf("the path %q: %v", path, err)
		}
	}
	_, err := zklease.New(conn, "/p", zklease.WithACL(), nil)
	if !errors.Is(err, lease.ErrInvalidOption) || !strings.Contains(err.Error(), "ACL") ||
		!strings.Contains(err.Error(), "nil") {
		t.Errorf("error %v, want ErrInvalidOption that says both", err)
	}
}
