package main

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// leases is a database with a lease store, and its DSN as the command accepts it.
type leases struct {
	dsn   string
	store *gormlease.Store
}

func openLeases(t *testing.T, target dbtest.Target) leases {
	t.Helper()
	dsn := target.DSN(t)
	store, err := gormlease.New(target.OpenDSN(t, dsn, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return leases{dsn, store}
}

// hold leases a number for the length of the test.
func (l leases) hold(t *testing.T, node int64) *lease.Keeper {
	t.Helper()
	k, err := lease.Acquire(t.Context(), l.store, generator.Default(), lease.WithNodes(node, node),
		lease.WithOwner("web"), lease.WithSpan(time.Hour), lease.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close(t.Context()) })
	return k
}

func (l leases) record(t *testing.T, node int64) lease.Record {
	t.Helper()
	records, err := l.store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if record.Node == node {
			return record
		}
	}
	t.Fatalf("node %d has no record", node)
	return lease.Record{}
}

// succeed runs the command and returns what it prints.
func (l leases) succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := call(t, l.dsn, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("snowflake %q: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

func TestNodesAreListedAsTheyAre(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		if got := l.succeed(t, "nodes", "list"); !strings.Contains(got, "has ever leased") {
			t.Errorf("an empty table is listed as\n%s", got)
		}
		l.hold(t, 7)
		if err := l.hold(t, 300).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		hostile := l.record(t, 300)
		hostile.Owner, hostile.Version = "evil\x1b[2J\nname", hostile.Version+1
		if ok, err := l.store.Swap(t.Context(), l.record(t, 300), hostile); !ok || err != nil {
			t.Fatal(ok, err)
		}
		lines := strings.Split(l.succeed(t, "nodes", "list"), "\n")
		for i, words := range [][]string{{"NODE", "STATE"}, {"7", "held", "web #", "in 1h"}, {"300", "expired", "evil?[2J?name"}} {
			for _, word := range words {
				if !strings.Contains(lines[i], word) {
					t.Errorf("line %d lacks %q: %s", i, word, lines[i])
				}
			}
		}
		var nodes []struct {
			Node  int64
			State string
			Left  float64 `json:"seconds_left"`
		}
		if err := json.Unmarshal([]byte(l.succeed(t, "nodes", "list", "--json")), &nodes); err != nil {
			t.Fatal(err)
		}
		if len(nodes) != 2 || nodes[0].Node != 7 || nodes[0].State != leaseops.Held || nodes[0].Left < 3000 {
			t.Errorf("as JSON: %+v", nodes)
		}
	})
}

func TestALiveHolderIsGuarded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		l.hold(t, 7)
		before := l.record(t, 7)
		code, _, stderr := call(t, l.dsn, "nodes", "release", "7")
		if code != exitRefused || !strings.Contains(stderr, "web #") || !strings.Contains(stderr, "--force") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		if after := l.record(t, 7); after != before {
			t.Errorf("the record was changed from %v to %v", before, after)
		}

		got := l.succeed(t, "nodes", "release", "7", "--force")
		after := l.record(t, 7)
		if after.Owner != "" || after.Version != before.Version+1 || !after.Until.Equal(before.Until) {
			t.Errorf("by force %v became %v", before, after)
		}
		if !strings.Contains(got, "when its window has ended") {
			t.Errorf("it says %s", got)
		}
		code, _, stderr = call(t, l.dsn, "nodes", "release", "8")
		if code != exitFailure || !strings.Contains(stderr, "never leased") {
			t.Errorf("a node without a record: exit code %d, %s", code, stderr)
		}
	})
}

func TestAWindowInTheFarFutureCanBeEnded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		far := lease.Record{
			Node: 9, Owner: "wrong clock", Until: time.Now().Add(100 * 365 * 24 * time.Hour), Version: 1,
			Layout: lease.Fingerprint(generator.Default()), UpdatedAt: time.Now(),
		}
		if ok, err := l.store.Swap(t.Context(), lease.Record{}, far); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := l.succeed(t, "nodes", "list"); !strings.Contains(got, leaseops.Distant) || !strings.Contains(got, "help nodes release") {
			t.Errorf("it is listed as\n%s", got)
		}
		l.succeed(t, "nodes", "release", "9", "--force", "--until", "now")
		if left := time.Until(l.record(t, 9).Until); left > time.Minute {
			t.Errorf("the window still runs for %v", left)
		}
		deadline := time.Now().Add(time.Minute)
		for l.record(t, 9).Until.After(time.Now()) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		l.hold(t, 9)
	})
}

// Whoever got the number of a server that is merged away would make IDs that are there already.
func TestANumberThatIsMergedAwayIsRetiredForGood(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		gone := lease.Record{
			Node: 9, Owner: "merged into Avalon (1)", Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Version: 1,
			Layout: lease.Fingerprint(generator.Default()), UpdatedAt: time.Now(),
		}
		if ok, err := l.store.Swap(t.Context(), lease.Record{}, gone); !ok || err != nil {
			t.Fatal(ok, err)
		}
		got := l.succeed(t, "nodes", "list")
		if !strings.Contains(got, leaseops.Retired) || !strings.Contains(got, "for good") || strings.Contains(got, "clock") {
			t.Errorf("it is listed as\n%s", got)
		}
		code, _, stderr := call(t, l.dsn, "nodes", "release", "9", "--force", "--until", "now")
		if code != exitRefused || !strings.Contains(stderr, "merged into Avalon (1)") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		if after := l.record(t, 9); after.Version != 1 || !after.Until.Equal(gone.Until) {
			t.Errorf("it has become %v", after)
		}
	})
}

// A merge retires numbers without a layout, and so is a number that was given back before it made an ID.
func TestANumberWithoutALayoutIsNoSecondLayout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		l.hold(t, 7)
		unused := lease.Record{
			Node: 9, Until: time.Now(), Version: 1, Layout: lease.UnboundLayout, UpdatedAt: time.Now(),
		}
		if ok, err := l.store.Swap(t.Context(), lease.Record{}, unused); !ok || err != nil {
			t.Fatal(ok, err)
		}
		got := l.succeed(t, "nodes", "list")
		if strings.Contains(got, "Several layouts") || strings.Contains(got, "of layout "+lease.UnboundLayout) {
			t.Errorf("it lists\n%s", got)
		}
		l.succeed(t, "new")
	})
}

func TestNewIDsHaveALeasedNode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		l := openLeases(t, target)
		lines := strings.Fields(l.succeed(t, "new", "-n", "10000"))
		last := int64(0)
		for _, line := range lines {
			id, err := strconv.ParseInt(line, 10, 64)
			if err != nil || id <= last {
				t.Fatalf("%q follows %d: %v", line, last, err)
			}
			last = id
		}
		parts, err := generator.Default().Decompose(last)
		if err != nil || len(lines) != 10000 {
			t.Fatalf("%d IDs, %v", len(lines), err)
		}
		if record := l.record(t, parts.Node); record.Owner != "" || !record.Until.After(parts.Time) {
			t.Errorf("the lease was left as %v after an ID of %v", record, parts.Time)
		}
	})
}

func TestNoTableIsNoLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		if err := db.Exec("CREATE TABLE something (id int)").Error; err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			args   []string
			code   int
			stdout string
		}{
			{[]string{"nodes", "list"}, exitOK, ""},
			{[]string{"nodes", "list", "--json"}, exitOK, "[]\n"},
			{[]string{"nodes", "list", "--table", "leases"}, exitFailure, ""},
			{[]string{"nodes", "release", "7"}, exitFailure, ""},
		} {
			code, stdout, stderr := call(t, dsn, c.args...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, "the database has no table ") {
				t.Errorf("%q: exit code %d, it printed %q and said %s", c.args, code, stdout, stderr)
			}
		}
		if db.Migrator().HasTable(defaultTable) {
			t.Error("to look made the table")
		}
	})
}

// An operator must not read "no process" where the database or the right to read it is missing.
func TestADatabaseThatCannotBeReadIsNotTakenForOneWithoutLeases(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mariadb", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := mysql.ParseDSN(dbtest.Named(name).DSN(t))
			if err != nil {
				t.Fatal("the mysql driver cannot parse the DSN")
			}
			for _, database := range []string{"", "snowflaketest_none"} {
				cfg.DBName = database
				if code, _, stderr := call(t, cfg.FormatDSN(), "nodes", "list"); code != exitFailure {
					t.Errorf("database %q: exit code %d, %s", database, code, stderr)
				}
			}
		})
	}
}

func TestNoErrorTellsThePassword(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	for _, dsn := range []string{
		"postgres://app:" + secret + "@127.0.0.1:1/shop", "postgres://app:" + secret + "@[::1/shop",
		"host=127.0.0.1 port=1 user=app password=" + secret + " dbname=shop",
		"host=127.0.0.1 port=1 user=app password=" + secret + " sslmode=nonsense",
		"app:" + secret + "@tcp(127.0.0.1:1)/shop", "app:" + secret + "@tcp(127.0.0.1:1)",
		"app:" + secret + "@tcp(127.0.0.1:3306)/shop", "mysql://app:" + secret + "@127.0.0.1:1/shop",
		"mysql://app:" + secret + "@[::1/shop", "sqlite:" + secret, "file:/no/" + secret + ".db", secret,
	} {
		for _, args := range [][]string{
			{"nodes", "list", "--dsn", dsn}, {"nodes", "reserve", "7", "--for", "x", "--dsn", dsn},
			{"segments", "raise", "orders", "7", "--dsn", dsn}, {"segments", "residues", "orders", dsn},
		} {
			code, stdout, stderr := call(t, "", args...)
			if code == exitOK || strings.Contains(stdout+stderr, secret) {
				t.Errorf("%q: exit code %d: %s%s", args[:2], code, stdout, stderr)
			}
		}
	}
}

func FuzzTimesAreReadOrRefused(f *testing.F) {
	for _, seed := range []string{"now", "-24h", "+90m", "2026-11-21", "2026-11-21T08:00:00+08:00", "", "-", "9999-99-99"} {
		f.Add(seed)
	}
	now := time.Date(2026, time.November, 21, 8, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseTime(text, now); err == nil && at.Location() != time.UTC {
			t.Errorf("%q is %v, which is not in UTC", text, at)
		}
	})
}

func FuzzIDsAreTakenApartOrRefused(f *testing.F) {
	for _, seed := range []string{"0", anID, "-1", "9223372036854775807", "9223372036854775808", "0IPC1akZNCq"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, short bool) {
		for _, p := range layouts.All() {
			info, err := inspect(p, text, short)
			if err != nil {
				continue
			}
			back, err := p.Layout.Compose(generator.Parts{Time: info.Time, Node: info.Node, Sequence: info.Sequence})
			if err != nil || back != info.ID.Int64() {
				t.Errorf("%q as %s is %+v, which makes %d, %v", text, p.Name, info, back, err)
			}
		}
	})
}
