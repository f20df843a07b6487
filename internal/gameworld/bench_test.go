package gameworld_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

// BenchmarkCreate makes servers of about a million rows, or ten thousand with -short.
func BenchmarkCreate(b *testing.B) {
	roles := 60_000
	if testing.Short() {
		roles = 600
	}
	for _, target := range dbtest.Targets()[:3] {
		b.Run(target.Name, func(b *testing.B) {
			var rows int64
			for b.Loop() {
				w := create(b, target, gameworld.Config{Server: 1, Roles: roles, Seed: 1, Clash: 0.1})
				rows += w.Total()
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
		})
	}
}
