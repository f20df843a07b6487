package merge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
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
func fillItems(b *testing.B, db base, server, rows int) {
	b.Helper()
	const batch = 1000
	for from := 0; from < rows; from += batch {
		var values []string
		for n := from; n < min(rows, from+batch); n++ {
			values = append(values, fmt.Sprintf("(%s, %d, %d, %d, '{\"level\":%d,\"gems\":[1,2,3],\"note\":\"something of this length\"}', %d)",
				id(server, n), n/20, n%500, n%7, n%90, n))
		}
		db.exec(b, "INSERT INTO items VALUES "+strings.Join(values, ", "))
	}
}

// byHand copies the table of a source into a target by the best statement of reference for that pair, without
// a journal or anything else, and returns the rows per second.
func byHand(b *testing.B, from, to base, rows int) float64 {
	b.Helper()
	began := time.Now()
	pool, err := to.DB.DB()
	if err != nil {
		b.Fatal(err)
	}
	conn, err := pool.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	exec := func(text string) {
		if _, err := conn.ExecContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	const columns = "id, player_id, kind, amount, props, made"
	switch to.target.Dialect {
	case "sqlite":
		exec("ATTACH '" + from.dsn[:strings.IndexAny(from.dsn+"?", "?")] + "' AS src")
		exec("INSERT INTO items (" + columns + ") SELECT " + columns + " FROM src.items ORDER BY id")
		exec("DETACH src")
	case "mysql":
		config, err := mysql.ParseDSN(from.dsn)
		if err != nil {
			b.Fatal(err)
		}
		exec("INSERT INTO items (" + columns + ") SELECT " + columns + " FROM " + config.DBName + ".items ORDER BY id")
	default:
		source, err := pgx.Connect(b.Context(), from.dsn)
		if err != nil {
			b.Fatal(err)
		}
		defer source.Close(b.Context())
		found, err := source.Query(b.Context(), "SELECT "+columns+" FROM items ORDER BY id")
		if err != nil {
			b.Fatal(err)
		}
		err = conn.Raw(func(driver any) error {
			_, err := driver.(*stdlib.Conn).Conn().CopyFrom(b.Context(), pgx.Identifier{"items"},
				strings.Split(columns, ", "), found)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return float64(rows) / time.Since(began).Seconds()
}

// BenchmarkByHand is what BenchmarkRun should come close to: two servers into one, in the same process.
func BenchmarkByHand(b *testing.B) {
	rows := 200_000
	if testing.Short() {
		rows = 20_000
	}
	for _, target := range dbtest.Targets()[:3] {
		b.Run(target.Name, func(b *testing.B) {
			var sources []base
			for server := 1; server <= 2; server++ {
				source := newBase(b, target)
				source.exec(b, itemsTable()...)
				fillItems(b, source, server, rows)
				sources = append(sources, source)
			}
			speed := 0.0
			for b.Loop() {
				into := newBase(b, target)
				into.exec(b, itemsTable()...)
				one := byHand(b, sources[0], into, rows)
				two := byHand(b, sources[1], into, rows)
				speed += 2 / (1/one + 1/two)
			}
			b.ReportMetric(speed/float64(b.N), "rows/s")
		})
	}
}

// BenchmarkRun copies one table of two servers into a fresh target, by the way that the merge chooses and by
// the long one, beside the best statement written by hand: see BenchmarkByHand.
func BenchmarkRun(b *testing.B) {
	rows := 200_000
	if testing.Short() {
		rows = 20_000
	}
	targets := dbtest.Targets()[:3]
	for _, from := range targets {
		for _, to := range targets {
			for _, way := range []string{"chosen", "portable"} {
				if way == "portable" && from.Name != to.Name {
					continue
				}
				b.Run(from.Name+"-"+to.Name+"/"+way, func(b *testing.B) {
					plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
						Tables: map[string]*merge.TablePlan{"items": {Policy: merge.Copy}}}
					for server := 1; server <= 2; server++ {
						source := newBase(b, from)
						source.exec(b, itemsTable()...)
						fillItems(b, source, server, rows)
						plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprint(server), Number: int64(server), DSN: source.dsn})
					}
					var opts []merge.Option
					if way == "portable" {
						opts = append(opts, merge.WithPortableCopy())
					}
					var speed float64
					for b.Loop() {
						b.StopTimer()
						into := newBase(b, to)
						into.exec(b, itemsTable()...)
						plan.Target = merge.Target{Name: "1", Number: 1, DSN: into.dsn}
						m := open(b, plan, opts...)
						b.StartTimer()
						report, err := m.Run(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						speed += report.RowsPerSecond
						b.StopTimer()
						if v, err := m.Verify(b.Context()); err != nil || !v.OK {
							b.Fatal(v, err)
						} else if b.N == 1 {
							b.ReportMetric(float64(2*rows)/v.Took.Seconds(), "verified/s")
						}
						b.StartTimer()
					}
					b.ReportMetric(speed/float64(b.N), "rows/s")
				})
			}
		}
	}
}
