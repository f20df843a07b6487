package merge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// itemsTable is a table as games have them: 140 bytes a row with its index.
func itemsTable() []string {
	return []string{
		"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, player_id BIGINT NOT NULL, kind INTEGER NOT NULL, " +
			"amount INTEGER NOT NULL, props VARCHAR(120) NOT NULL, made BIGINT NOT NULL)",
		"CREATE INDEX items_player_id ON items (player_id)",
	}
}

// fillItems makes rows of one server.
func fillItems(t testing.TB, db base, server, rows int) {
	t.Helper()
	const batch = 1000
	for from := 0; from < rows; from += batch {
		var values []string
		for n := from; n < min(rows, from+batch); n++ {
			values = append(values, fmt.Sprintf("(%s, %d, %d, %d, '{\"level\":%d,\"gems\":[1,2,3],\"note\":\"something of this length\"}', %d)",
				id(server, n), n/20, n%500, n%7, n%90, n))
		}
		db.exec(t, "INSERT INTO items VALUES "+strings.Join(values, ", "))
	}
}

// itemServers makes two servers with so many rows each, and a plan that still needs a target.
func itemServers(t testing.TB, target dbtest.Target, rows int) ([]base, *merge.Plan) {
	t.Helper()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Tables: map[string]*merge.TablePlan{"items": {Policy: merge.Copy}}}
	var sources []base
	for server := 1; server <= 2; server++ {
		source := newBase(t, target)
		source.exec(t, itemsTable()...)
		fillItems(t, source, server, rows)
		sources = append(sources, source)
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprint(server), Number: int64(server), DSN: source.dsn})
	}
	return sources, plan
}

// emptyItems makes a target.
func emptyItems(t testing.TB, target dbtest.Target) base {
	t.Helper()
	into := newBase(t, target)
	into.exec(t, itemsTable()...)
	return into
}

// BenchmarkPair copies one table of two servers into an empty target, for every pair of databases: by a run,
// and by the best statements written by hand for that table, in turns, so that both meet the same machine.
//
//	rows/s          what the copying of a run does
//	by-hand-rows/s  what the statements do; see byHand
//	x-of-by-hand    the one by the other: 0.9 is wanted, and single runs differ by a fifth
//	run-rows/s      the run as a whole, with its check and its journal
//	verified/s      rows that are verified afterwards
func BenchmarkPair(b *testing.B) {
	rows := 200_000
	if testing.Short() {
		rows = 20_000
	}
	targets := dbtest.Servers()
	for _, from := range targets {
		for _, to := range targets {
			b.Run(from.Name+"-"+to.Name, func(b *testing.B) { benchmarkPair(b, from, to, rows) })
			if from.Name == to.Name {
				b.Run(from.Name+"-"+to.Name+"-portable", func(b *testing.B) {
					benchmarkPair(b, from, to, rows, merge.WithPortableCopy())
				})
			}
		}
	}
}

func benchmarkPair(b *testing.B, from, to dbtest.Target, rows int, opts ...merge.Option) {
	b.Helper()
	sources, plan := itemServers(b, from, rows)
	var hand, copied, whole, verified float64 // seconds
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		byHandNow := func() {
			into := emptyItems(b, to)
			for _, source := range sources {
				hand += byHand(b, source, into).Seconds()
			}
		}
		if n%2 == 0 {
			byHandNow()
		}
		into := emptyItems(b, to)
		plan.Target = merge.Target{Name: "1", Number: 1, DSN: into.dsn}
		m := open(b, plan, opts...)
		began := time.Now()
		b.StartTimer()
		report, err := m.Run(b.Context())
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		whole += time.Since(began).Seconds()
		copied += float64(report.Rows) / report.RowsPerSecond
		v, err := m.Verify(b.Context())
		if err != nil || !v.OK {
			b.Fatal(v, err)
		}
		verified += v.Took.Seconds()
		if n%2 == 1 {
			byHandNow()
		}
		b.StartTimer()
	}
	all := float64(2 * rows * b.N)
	b.ReportMetric(all/copied, "rows/s")
	b.ReportMetric(all/hand, "by-hand-rows/s")
	b.ReportMetric(hand/copied, "x-of-by-hand")
	b.ReportMetric(all/whole, "run-rows/s")
	b.ReportMetric(all/verified, "verified/s")
}

// BenchmarkWhole goes the whole way with one table of two servers, from the draft until it is verified, in turns
// with the statements by hand that only copy the table; see byHand.
//
//	draft, check, run, verify   each part of the way, by the time of the statements
//	x-of-by-hand                all of it: at most 2.5 is wanted on servers, and 3.5 on SQLite
func BenchmarkWhole(b *testing.B) {
	rows := 200_000
	if testing.Short() {
		rows = 20_000
	}
	for _, target := range dbtest.Servers() {
		b.Run(target.Name, func(b *testing.B) {
			sources, plan := itemServers(b, target, rows)
			plan.Tables = nil
			var hand float64
			parts := map[string]float64{}
			for b.Loop() {
				b.StopTimer()
				into := emptyItems(b, target)
				for _, source := range sources {
					hand += byHand(b, source, into).Seconds()
				}
				into = emptyItems(b, target)
				plan.Target = merge.Target{Name: "1", Number: 1, DSN: into.dsn}
				began := time.Now()
				lap := func(part string) { parts[part] += time.Since(began).Seconds(); began = time.Now() }
				b.StartTimer()
				draft, lock, err := merge.Draft(b.Context(), plan, merge.WithOpener(opener))
				if err != nil {
					b.Fatal(err)
				}
				lap("draft")
				m := opened(b, draft, merge.WithLock(lock))
				if _, err := m.Check(b.Context()); err != nil {
					b.Fatal(err)
				}
				lap("check")
				if _, err := m.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
				lap("run")
				if v, err := m.Verify(b.Context()); err != nil || !v.OK {
					b.Fatal(v, err)
				}
				lap("verify")
			}
			all := 0.0
			for part, took := range parts {
				b.ReportMetric(took/hand, part)
				all += took
			}
			b.ReportMetric(all/hand, "x-of-by-hand")
		})
	}
}
