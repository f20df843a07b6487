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
// names on both, in turns. So it shows what the renames cost, beside a merge without any. The names fit with what
// is put behind them; or they begin alike and have to be cut, so that each needs a number.
//
//	renames/s       by the time that the merge with renames takes longer
//	with-renames/s  rows a second of the whole run with renames
//	without/s       rows a second of the whole run without
func BenchmarkRenames(b *testing.B) {
	for _, target := range dbtest.Servers() {
		for name, c := range map[string]struct {
			rows, size  int
			same, other string
		}{"fitting": {100_000, 30, "Heron%d", "Stork%d"}, "beginnings": {50_000, 16, "dragonriderxx%s", "%sdragonriderxx"}} {
			rows := c.rows
			if testing.Short() {
				rows /= 10
			}
			b.Run(target.Name+"/"+name, func(b *testing.B) {
				schema := rolesTable(c.size)
				roles := func(second string) *merge.Plan {
					servers, _, plan := small(b, target, schema,
						map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}, nil, nil)
					for i, s := range servers {
						format := []string{c.same, second}[i]
						for from := 0; from < rows; from += 1000 {
							values := many(from+1, from+1000, func(n int) string {
								var of any = n
								if name == "beginnings" {
									of = threeLetters(n)
								}
								return fmt.Sprintf("(%s, '"+format+"', %d)", id(i+1, n), of, n%90)
							})
							s.exec(b, "INSERT INTO roles VALUES "+strings.Join(values, ", "))
						}
					}
					return plan
				}
				plans := []*merge.Plan{roles(c.other), roles(c.same)}
				took := make([]float64, 2)
				for b.Loop() {
					for i, plan := range plans {
						b.StopTimer()
						into := newBase(b, target)
						into.exec(b, schema...)
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
}

// threeLetters is another text for each number below 64,000.
func threeLetters(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz-+=~"
	return string([]byte{letters[n/1600%40], letters[n/40%40], letters[n%40]})
}

func rolesTable(size int) []string {
	return []string{fmt.Sprintf("CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(%d) NOT NULL UNIQUE, level INTEGER NOT NULL)", size)}
}
