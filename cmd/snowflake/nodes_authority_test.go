package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// use has a plugin use a database for a moment.
func use(t *testing.T, target dbtest.Target, dsn string, opts ...snowflakeplugin.Option) {
	t.Helper()
	plugin := snowflakeplugin.New(append(opts, snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err := errors.Join(target.OpenDSN(t, dsn, nil).Use(plugin), plugin.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// runPlugin opens databases, and has a plugin use them for the length of the test.
func runPlugin(t *testing.T, target dbtest.Target, dsns []string, opts ...snowflakeplugin.Option) (
	*snowflakeplugin.Plugin, error,
) {
	t.Helper()
	plugin := snowflakeplugin.New(append(opts, snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))...)
	for _, dsn := range dsns {
		if err := target.OpenDSN(t, dsn, nil).Use(plugin); err != nil {
			return plugin, errors.Join(err, plugin.Close(t.Context()))
		}
	}
	return plugin, nil
}

func recordsOf(t *testing.T, target dbtest.Target, dsn string) map[int64]lease.Record {
	t.Helper()
	store, err := gormlease.New(target.OpenDSN(t, dsn, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	records, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64]lease.Record{}
	for _, r := range records {
		found[r.Node] = r
	}
	return found
}

// The holder of a number goes on while the authority is moved by force, and somebody takes the number
// from the new leases at once.
func TestAMoveRepeatsNoID(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		a, b := target.DSN(t), target.DSN(t)
		span := snowflakeplugin.WithLease(nil, lease.WithSpan(time.Second))
		use(t, target, a)
		holder, err := runPlugin(t, target, []string{b}, span, snowflakeplugin.WithLeasedNode(7))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Close(t.Context()) }()
		code, _, stderr := call(t, b, "nodes", "authority", "move", "--to", a)
		if code != exitRefused || !strings.Contains(stderr, "node 7 is held until") || strings.Contains(stderr, a) {
			t.Fatalf("while a number is held: exit code %d, %s", code, stderr)
		}

		stop, made := make(chan struct{}), make(chan []snowflakeplugin.ID)
		go func() { made <- issue(t, holder, stop) }()
		code, stdout, stderr := call(t, b, "nodes", "authority", "move", "--to", a, "--force")
		if code != exitOK {
			t.Fatalf("by force: exit code %d, %s", code, stderr)
		}
		if !strings.Contains(stdout, "The IDs came from the leases ") {
			t.Errorf("it says %s", stdout)
		}
		old := recordsOf(t, target, b)[7]
		if moved := recordsOf(t, target, a)[7]; moved.Until.Before(old.Until) || moved.Owner != "" {
			t.Errorf("the record %+v became %+v", old, moved)
		}
		next, err := runPlugin(t, target, []string{a, b}, span, snowflakeplugin.WithLeasedNode(7))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = next.Close(t.Context()) }()
		seen := map[snowflakeplugin.ID]bool{}
		for range 300 {
			for _, id := range some(t, next) {
				seen[id] = true
			}
			time.Sleep(tick)
		}
		close(stop)
		before := <-made
		repeated := 0
		for _, id := range before {
			if seen[id] {
				repeated++
			}
		}
		if repeated > 0 || len(before) == 0 || len(seen) == 0 {
			t.Errorf("%d of %d and %d IDs are repeated", repeated, len(before), len(seen))
		}
		// The old leases grant nothing any more, to nobody.
		deadline := time.Now().Add(time.Minute)
		for err = nil; err == nil && time.Now().Before(deadline); {
			_, err = holder.NextID(t.Context())
			time.Sleep(tick)
		}
		if !errors.Is(err, lease.ErrLayoutMismatch) {
			t.Errorf("the old holder got %v", err)
		}
		if _, err := runPlugin(t, target, []string{b}); !errors.Is(err, snowflakeplugin.ErrAuthority) {
			t.Errorf("a program that leases from the old place got %v", err)
		}
		if out := (leases{dsn: b}).succeed(t, "nodes", "list"); !strings.Contains(out, leaseops.Moved) {
			t.Errorf("the old leases are listed as\n%s", out)
		}
	})
}

// tick is that of the layout. Two that make a few IDs in each tick repeat each other's if they may.
const tick = time.Millisecond

// issue makes IDs until it is stopped, or refused because the lease is over.
func issue(t *testing.T, plugin *snowflakeplugin.Plugin, stop <-chan struct{}) (all []snowflakeplugin.ID) {
	ids := make([]snowflakeplugin.ID, 10)
	for {
		select {
		case <-stop:
			return all
		default:
		}
		if err := plugin.NextIDs(t.Context(), ids); err != nil {
			<-stop
			return all
		}
		all = append(all, ids...)
		time.Sleep(tick)
	}
}

func some(t *testing.T, plugin *snowflakeplugin.Plugin) []snowflakeplugin.ID {
	t.Helper()
	ids := make([]snowflakeplugin.ID, 10)
	if err := plugin.NextIDs(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestAnAuthorityIsShownAndMoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		l := leases{dsn: dsn}
		show := func(words ...string) {
			t.Helper()
			out := l.succeed(t, "nodes", "authority", "show")
			for _, word := range words {
				if !strings.Contains(out, word) {
					t.Errorf("it lacks %q:\n%s", word, out)
				}
			}
		}
		target.OpenDSN(t, dsn, nil).Exec("CREATE TABLE nothing (id int)") // SQLite needs a file
		show("Nothing is noted")
		use(t, target, dsn, snowflakeplugin.WithNode(3))
		show("numbers given by hand", "node=10")

		// From numbers given by hand to leases, and back.
		code, _, stderr := call(t, dsn, "nodes", "authority", "move", "--to", "own")
		if code != exitRefused || !strings.Contains(stderr, "--force") {
			t.Errorf("without force: exit code %d, %s", code, stderr)
		}
		l.succeed(t, "nodes", "authority", "move", "--to", "own", "--force")
		holder, err := runPlugin(t, target, []string{dsn})
		if err != nil {
			t.Fatal(err)
		}
		show("The IDs come from the leases", "snowflake_nodes in this database")
		code, _, stderr = call(t, dsn, "nodes", "authority", "move", "--to", "next")
		if code != exitRefused || !strings.Contains(stderr, "is held until") {
			t.Errorf("while a number is held: exit code %d, %s", code, stderr)
		}
		if err := holder.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.succeed(t, "nodes", "authority", "move", "--to", "next", "--force")
		use(t, target, dsn, snowflakeplugin.WithNode(3))
		show("numbers given by hand")

		// The table was moved away and comes back, with the ends of its windows.
		before := recordsOf(t, target, dsn)
		l.succeed(t, "nodes", "authority", "move", "--to", "own", "--force")
		for node, r := range recordsOf(t, target, dsn) {
			if r.Until.Before(before[node].Until) {
				t.Errorf("node %d went from %v back to %v", node, before[node].Until, r.Until)
			}
		}
		use(t, target, dsn)

		// Another layout takes another table.
		game := snowflakeplugin.WithLayout(generator.Game())
		l.succeed(t, "nodes", "authority", "move", "--to", "own", "--to-table", "nodes_2", "--another-layout", "--force")
		store, err := gormlease.New(target.OpenDSN(t, dsn, nil), gormlease.WithTable("nodes_2"))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		use(t, target, dsn, game, snowflakeplugin.WithLease(store))

		var shown struct {
			Rows   struct{ Authority string }
			Leases []struct{ Table, Authority string }
		}
		if err := json.Unmarshal([]byte(l.succeed(t, "nodes", "authority", "show", "--json")), &shown); err != nil {
			t.Fatal(err)
		}
		if len(shown.Leases) != 2 || shown.Leases[0].Authority != shown.Rows.Authority || shown.Leases[0].Table != "nodes_2" {
			t.Errorf("as JSON: %+v", shown)
		}
	})
}

// Two databases each have leases of their own, because programs used them in different order.
func TestTheSecondOfTwoDatabasesIsMovedToTheFirst(t *testing.T) {
	t.Parallel()
	onFiles(t, func(t *testing.T, target dbtest.Target) {
		a, b, c := target.DSN(t), target.DSN(t), target.DSN(t)
		use(t, target, a, snowflakeplugin.WithLeasedNode(3))
		one, err := runPlugin(t, target, []string{b, c}, snowflakeplugin.WithLeasedNode(5))
		if err != nil || one.Close(t.Context()) != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the last window ends ten ticks ahead of the clock
		(leases{dsn: b}).succeed(t, "nodes", "authority", "move", "--to", a)
		code, _, stderr := call(t, c, "nodes", "authority", "move", "--to", a, "--from", a)
		if code != exitFailure || !strings.Contains(stderr, "and not from the leases") {
			t.Errorf("with a wrong --from: exit code %d, %s", code, stderr)
		}
		code, _, stderr = call(t, c, "nodes", "authority", "move", "--to", a)
		if target.Dialect == "mysql" { // b lies on the same server, where its leases are found
			if code != 0 {
				t.Errorf("without --from: exit code %d, %s", code, stderr)
			}
		} else if code != exitRefused || !strings.Contains(stderr, "--from") {
			t.Errorf("without --from: exit code %d, %s", code, stderr)
		}
		(leases{dsn: c}).succeed(t, "nodes", "authority", "move", "--to", a, "--from", b)
		two, err := runPlugin(t, target, []string{a, b, c})
		if err != nil || two.Close(t.Context()) != nil {
			t.Fatal(err)
		}
		if records := recordsOf(t, target, a); records[5].Version == 0 || records[3].Version == 0 {
			t.Errorf("the records are %v", records)
		}
	})
}

// Whoever looks because a program has failed finds the statement that leads back.
func TestLeasesThatAreLostAreShownWithTheStatementThatLeadsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for name, lose := range map[string]string{
			"emptied":  "DELETE FROM snowflake_nodes",
			"dropped":  "DROP TABLE snowflake_nodes",
			"replaced": "UPDATE snowflake_nodes SET owner = 'reserved for the identity OTHER' WHERE node > 1023",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dsn := target.DSN(t)
				l, db := leases{dsn: dsn}, target.OpenDSN(t, dsn, nil)
				use(t, target, dsn)
				before := l.succeed(t, "nodes", "authority", "show")
				if err := db.Exec(lose).Error; err != nil {
					t.Fatal(err)
				}
				out := l.succeed(t, "nodes", "authority", "show")
				if !strings.HasPrefix(out, before) || !strings.Contains(out, "no process holds a number") {
					t.Errorf("it was\n%sand is\n%s", before, out)
				}
				var shown struct{ Leases []struct{ Lost string } }
				if err := json.Unmarshal([]byte(l.succeed(t, "nodes", "authority", "show", "--json")), &shown); err != nil {
					t.Fatal(err)
				}
				if len(shown.Leases) != 1 || shown.Leases[0].Lost == "" || !strings.Contains(out, shown.Leases[0].Lost) {
					t.Errorf("as JSON: %+v", shown)
				}
				parts := strings.Split(strings.TrimSpace(out), "\n\n")
				for statement := range strings.SplitSeq(parts[len(parts)-1], ";\n") {
					if err := db.Exec(strings.TrimSuffix(statement, ";")).Error; err != nil {
						t.Fatal(err)
					}
				}
				if after := l.succeed(t, "nodes", "authority", "show"); after != before {
					t.Errorf("it was\n%sand is\n%s", before, after)
				}
				use(t, target, dsn)
			})
		}
	})
}
