package snowflakeplugin_test

import (
	"database/sql"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// benchRow has the columns of a plain table.
type benchRow struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string
	Amount int64
	Active bool
}

// bench has two handles on one table in memory, so that both sides of a comparison meet the same
// memory and the same index. IDs come from a layout that the benchmark cannot use up, so that no
// wait for the clock is counted.
type bench struct {
	plain, plugged *gorm.DB
	ids            *generator.Generator // for keys that are set beforehand
}

func newBench(b *testing.B) *bench {
	b.Helper()
	pool, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(1) // a second connection would be a second database
	open := func() *gorm.DB {
		db, err := gorm.Open(sqlite.Dialector{Conn: pool}, &gorm.Config{Logger: logger.Discard})
		if err != nil {
			b.Fatal(err)
		}
		return db
	}
	layout := generator.Default()
	layout.Node, layout.SequenceBits = []generator.Field{{Name: "node", Bits: 1}}, 21
	ids, err := generator.New(layout, generator.Node(0))
	if err != nil {
		b.Fatal(err)
	}
	s := &bench{plain: open(), plugged: open(), ids: ids}
	if err := s.plain.AutoMigrate(&benchRow{}); err != nil {
		b.Fatal(err)
	}
	plugin := snowflakeplugin.New(snowflakeplugin.WithLayout(layout), snowflakeplugin.WithNode(1))
	if err := s.plugged.Use(plugin); err != nil {
		b.Fatal(err)
	}
	return s
}

// rows makes rows anew, with keys or without.
func (s *bench) rows(b *testing.B, rows []benchRow, preset bool) {
	b.Helper()
	for i := range rows {
		rows[i] = benchRow{Name: "name", Amount: int64(i)}
		if preset {
			id, err := s.ids.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			rows[i].ID = snowflakeplugin.ID(id)
		}
	}
}

// share creates rows in turn without the plugin, with keys set beforehand, and with it. It reports
// the difference of what both take when undisturbed, for each row, and what the plugin allocates
// for the statement.
func (s *bench) share(b *testing.B, size int, create func(*gorm.DB, []benchRow) error) {
	b.Helper()
	rows := make([]benchRow, size)
	measure := func(db *gorm.DB, preset bool) time.Duration {
		s.rows(b, rows, preset)
		began := time.Now()
		err := create(db, rows)
		took := time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		return took
	}
	const runs = 500
	allocs := testing.AllocsPerRun(runs, func() { measure(s.plugged, false) }) -
		testing.AllocsPerRun(runs, func() { measure(s.plain, true) })

	var with, without []time.Duration
	for b.Loop() {
		// In random order: in a fixed one the collector, which runs every few statements, would
		// fall into step with one of the sides.
		if rand.N(2) == 0 {
			without = append(without, measure(s.plain, true))
			with = append(with, measure(s.plugged, false))
		} else {
			with = append(with, measure(s.plugged, false))
			without = append(without, measure(s.plain, true))
		}
	}
	b.ReportMetric(float64(undisturbed(with)-undisturbed(without))/float64(size), "share-ns/row")
	b.ReportMetric(allocs, "share-allocs/statement")
}

// undisturbed returns the lower quartile: a median may fall on either side of whether the collector ran
// in a statement, and then tells of the collector.
func undisturbed(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/4]
}

// BenchmarkShareOfBatch is what the plugin adds to CreateInBatches of 1,000 rows, against the same
// rows with keys already set.
func BenchmarkShareOfBatch(b *testing.B) {
	newBench(b).share(b, 1000, func(db *gorm.DB, rows []benchRow) error {
		return db.CreateInBatches(rows, len(rows)).Error
	})
}

// BenchmarkShareOfCreate is what the plugin adds to Create of one row, against the same row with
// its key already set.
func BenchmarkShareOfCreate(b *testing.B) {
	newBench(b).share(b, 1, func(db *gorm.DB, rows []benchRow) error {
		return db.Create(&rows[0]).Error
	})
}
