//go:build unix

package faults_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestAMergeWhoseServerCrashesGoesOnWhereItsJournalEnds crashes the server of the target and of the sources
// while rows are copied, at night again and again. PostgreSQL may have lost the last chunks then.
func TestAMergeWhoseServerCrashesGoesOnWhereItsJournalEnds(t *testing.T) {
	t.Parallel()
	players, items := nightly.Pick(500, 1000), nightly.Pick(6000, 60_000) // of each server
	first, step := nightly.Pick[int64](3000, 15_000), nightly.Pick[int64](100_000, 25_000)
	wanted := nightly.Pick(1, 3) // crashes
	eachPrivateServer(t, func(t *testing.T, f flavor) {
		s := newServer(t, f)
		// Both ways to copy read the same sources: each database more makes the recovery of a server longer.
		var sources []merge.Server
		want := map[string]string{}
		for n := range 2 {
			from := merge.Server{Name: fmt.Sprint("s", n+1), Number: int64(n + 1)}
			from.DSN = s.database(fmt.Sprint("source", n))
			s.run(from.DSN, playersTable, itemsTable, rowsOf("players", n, players, players),
				rowsOf("items", n, items, players))
			maps.Copy(want, s.rows(from.DSN))
			sources = append(sources, from)
		}
		if len(want) != 2*(players+items) {
			t.Fatalf("the servers have %d rows", len(want))
		}
		for name, opts := range map[string][]merge.Option{"fastest": nil, "portable": {merge.WithPortableCopy()}} {
			plan := &merge.Plan{
				Version: 1, Layout: merge.Layout{Preset: "game"},
				Target:  merge.Target{Name: "one", Number: 1, DSN: s.database(name + "_target")},
				Servers: sources,
				Tables:  map[string]*merge.TablePlan{"players": {Policy: merge.Copy}, "items": {Policy: merge.Copy}},
			}
			s.run(plan.Target.DSN, playersTable, itemsTable)

			crashes, lost := 0, int64(0)
			for at := first; ; at += step {
				copied, crashed, err := s.mergeUntil(plan, at, opts)
				if !crashed {
					if err != nil {
						t.Fatalf("%s: after %d crashes: %v", name, crashes, err)
					}
					break
				}
				if err == nil {
					t.Fatalf("%s: a crash of the server was no error", name)
				}
				crashes++
				s.start()
				lost += copied - int64(len(s.rows(plan.Target.DSN)))
			}
			if crashes < wanted {
				t.Errorf("%s: there were %d crashes, and not %d", name, crashes, wanted)
			}
			if got := s.rows(plan.Target.DSN); !maps.Equal(got, want) {
				t.Errorf("%s: the target has %d rows that are not those of the servers, %d", name, len(got), len(want))
			}
			t.Logf("%s: %d crashes took back %d rows", name, crashes, lost)
		}
	})
}

const (
	playersTable = "CREATE TABLE players (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)"
	itemsTable   = "CREATE TABLE items (id BIGINT PRIMARY KEY, player_id BIGINT NOT NULL, name VARCHAR(40) NOT NULL, " +
		"FOREIGN KEY (player_id) REFERENCES players (id))"
)

// rowsOf inserts n rows of a server.
func rowsOf(table string, server, n, players int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + table + " VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%d, ", server*1_000_000+i)
		if table == "items" {
			fmt.Fprintf(&b, "%d, ", server*1_000_000+i%players)
		}
		fmt.Fprintf(&b, "'%s %d of server %d')", table, i, server)
	}
	return b.String()
}

// mergeUntil merges, and crashes the server when so many rows are copied, if there are more. It returns how
// many were copied by then.
func (s *server) mergeUntil(plan *merge.Plan, at int64, opts []merge.Option) (copied int64, crashed bool, err error) {
	ctx := s.t.Context()
	const chunk = 300 // so that one COPY TO of PostgreSQL feeds many
	m, err := merge.Open(ctx, plan, append(opts, merge.WithChunk(chunk),
		merge.WithOpener(func(_ context.Context, dsn string) (*sql.DB, error) { return sql.Open(s.driver, dsn) }),
		merge.WithProgress(func(p merge.Progress) {
			switch {
			case p.Phase != "copy" || crashed || at >= p.Total:
			case p.Done >= at && p.Done < p.Total:
				s.Kill()
				copied, crashed = p.Done, true
			default:
				time.Sleep(100 * time.Millisecond) // it is told of the next chunk only after such a time
			}
		}))...)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = m.Close() }() // its connections may be gone
	if _, err := m.Run(ctx); err != nil || crashed {
		return copied, crashed, err
	}
	report, err := m.Verify(ctx)
	if err == nil && !report.OK {
		err = fmt.Errorf("the target differs: %v", report)
	}
	return copied, false, err
}

// database creates a database and returns its DSN, which waits for statements about many rows.
func (s *server) database(name string) string {
	s.t.Helper()
	s.admin("CREATE DATABASE " + name)
	return strings.Replace(s.patientDSN(s.port), "/faults?", "/"+name+"?", 1)
}

// run runs statements in a database, in one transaction.
func (s *server) run(dsn string, statements ...string) {
	s.t.Helper()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // there is nothing left of it if all went well
	for _, text := range statements {
		if _, err := tx.ExecContext(s.t.Context(), text); err != nil {
			s.t.Fatalf("%.100s: %v", text, err)
		}
	}
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

// rows returns all rows by table and key. It asks the server itself.
func (s *server) rows(dsn string) map[string]string {
	s.t.Helper()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	all := map[string]string{}
	rows, err := db.QueryContext(s.t.Context(), "SELECT 'player', id, 0, name FROM players "+
		"UNION ALL SELECT 'item', id, player_id, name FROM items")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, name string
		var id, player int64
		if err := rows.Scan(&table, &id, &player, &name); err != nil {
			s.t.Fatal(err)
		}
		all[fmt.Sprint(table, id)] = fmt.Sprint(player, name)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return all
}
