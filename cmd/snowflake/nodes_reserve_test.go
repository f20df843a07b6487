package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAReservedNumberStaysOutOfTheLeases(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		for range 2 { // an import may be repeated
			has(t, l.succeed(t, "nodes", "reserve", "9", "--for", "import of 2019"), "reserved for import of 2019")
		}
		_, err := lease.Acquire(t.Context(), l.store, generator.Default(), lease.WithNodes(9, 9),
			lease.WithLogger(slog.New(slog.DiscardHandler)))
		if !errors.Is(err, lease.ErrNodeHeld) || strings.Contains(err.Error(), "clock was wrong") {
			t.Errorf("a process that wants the number: %v", err)
		}
		got := l.succeed(t, "nodes", "list")
		has(t, got, leaseops.Reserved, "for good")
		if strings.Contains(got, "clock") {
			t.Errorf("it is listed as\n%s", got)
		}
		l.hold(t, 7)
		before := l.record(t, 9)
		for _, c := range []struct {
			args string
			code int
			word string
		}{
			{"nodes reserve 9 --for another", exitRefused, "kept out of the leases"},
			{"nodes reserve 7 --for import", exitRefused, "held"},
			{"nodes reserve 8 --for import --layout Game", exitFailure, "layout"},
			{"nodes release 9", exitRefused, "makes IDs of it"},
			{"nodes release 9 --force", exitRefused, "--until now"},
		} {
			code, stdout, stderr := call(t, l.dsn, strings.Fields(c.args)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.word) {
				t.Errorf("%s: exit code %d, %s%s", c.args, code, stdout, stderr)
			}
		}
		if after := l.record(t, 9); after != before {
			t.Errorf("%v has become %v", before, after)
		}

		l.succeed(t, "nodes", "release", "9", "--force", "--until", "now")
		if after := l.record(t, 9); after.Owner != "" || !after.Until.Before(before.Until) {
			t.Errorf("it was given to the leases as %v", after)
		}
	})
}

func TestANumberThatWasLeasedIsReservedOnlyByForce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		used := lease.Record{Node: 3, Until: generator.Default().Epoch, Version: 1, Layout: lease.Fingerprint(generator.Default())}
		if ok, err := l.store.Swap(t.Context(), lease.Record{}, used); !ok || err != nil {
			t.Fatal(ok, err)
		}
		code, _, stderr := call(t, l.dsn, "nodes", "reserve", "3", "--for", "import")
		if code != exitRefused || !strings.Contains(stderr, "was leased before") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		info := decode[nodeInfo](t, l.succeed(t, "nodes", "reserve", "3", "--for", "import", "--force", "--json"))
		if info.State != leaseops.Reserved || info.Node != 3 {
			t.Errorf("as JSON: %+v", info)
		}
	})
}

// Nobody holds a reserved number, so it does not keep the authority where it is, and goes with it.
func TestAReservedNumberMovesWithTheAuthority(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		a, b := target.DSN(t), target.DSN(t)
		l := leases{dsn: b}
		for _, dsn := range []string{a, b} {
			use(t, target, dsn, snowflakeplugin.WithLeasedNode(3))
		}
		l.succeed(t, "nodes", "reserve", "9", "--for", "import")
		for _, dsn := range []string{a, b} { // the last window ends ten ticks ahead of the clock
			until := recordsOf(t, target, dsn)[3].Until
			time.Sleep(time.Until(until.Add(100 * time.Millisecond)))
		}
		l.succeed(t, "nodes", "authority", "move", "--to", a)
		for _, dsn := range []string{a, b} {
			if r := recordsOf(t, target, dsn)[9]; r.Owner != "reserved for import" {
				t.Errorf("the record is %v", r)
			}
		}
	})
}

// An import may reserve its number before any program has noted where the IDs come from.
func TestAReservedNumberBindsNoDatabaseToItsLeases(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		a, b := target.DSN(t), target.DSN(t)
		target.OpenDSN(t, b, nil).Exec("CREATE TABLE nothing (id int)") // SQLite needs a file
		(leases{dsn: b}).succeed(t, "nodes", "reserve", "9", "--for", "import")
		plugin, err := runPlugin(t, target, []string{a, b})
		if err != nil {
			t.Fatal(err)
		}
		if err := plugin.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
