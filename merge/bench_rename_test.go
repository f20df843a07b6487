package merge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// BenchmarkRenames merges two servers with so many roles each, once with other names and once with the same
// names on both, in turns. So it shows what the renames cost, beside a merge without any.
//
//	renames/s       by the time that the merge with renames takes longer
//	with-renames/s  rows a second of the whole run with renames
//	without/s       rows a second of the whole run without
func BenchmarkRenames(b *testing.B) {
	rows := 100_000
	if testing.Short() {
		rows = 10_000
	}
	for _, target := range dbtest.Servers() {
		b.Run(target.Name, func(b *testing.B) {
			roles := func(same bool) *merge.Plan {
				servers, _, plan := small(b, target, rolesTable(),
					map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}, nil, nil)
				for i, s := range servers {
					prefix := "Heron"
					if i > 0 && !same {
						prefix = "Stork"
					}
					for from := 0; from < rows; from += 1000 {
						values := many(from+1, from+1000, func(n int) string { return fmt.Sprintf("(%s, '%s%d', %d)", id(i+1, n), prefix, n, n%90) })
						s.exec(b, "INSERT INTO roles VALUES "+strings.Join(values, ", "))
					}
				}
				return plan
			}
			plans := []*merge.Plan{roles(false), roles(true)}
			took := make([]float64, 2)
			for b.Loop() {
				for i, plan := range plans {
					b.StopTimer()
					into := newBase(b, target)
					into.exec(b, rolesTable()...)
					plan.Target.DSN = into.dsn
					m := open(b, plan)
					began := time.Now()
					b.StartTimer()
					report, err := m.Run(b.Context())
					if err != nil || report.Renamed != int64(i*rows) {
						b.Fatal(report, err)
					}
					took[i] += time.Since(began).Seconds()
				}
			}
			all := float64(rows * b.N)
			b.ReportMetric(all/(took[1]-took[0]), "renames/s")
			b.ReportMetric(2*all/took[1], "with-renames/s")
			b.ReportMetric(2*all/took[0], "without/s")
		})
	}
}

func rolesTable() []string {
	return []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE, level INTEGER NOT NULL)"}
}
