package snowflakeplugin_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// benchRow has the columns of a plain table.
type benchRow struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string
	Amount int64
	Active bool
}

// bench has two handles on one table in memory, so both sides of a comparison use the same memory
// and the same index. The IDs come from a layout that the benchmark cannot exhaust, so no wait for
// the clock is measured.
type bench struct {
	plain, plugged *gorm.DB
	plugin         *snowflakeplugin.Plugin // also of the keys that are set before the create
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
	plugin := snowflakeplugin.New(snowflakeplugin.WithLayout(layout), snowflakeplugin.WithNode(1))
	s := &bench{plain: open(), plugged: open(), plugin: plugin}
	if err := s.plain.AutoMigrate(&benchRow{}); err != nil {
		b.Fatal(err)
	}
	if err := s.plugged.Use(plugin); err != nil {
		b.Fatal(err)
	}
	return s
}

// A turn is so many statements of one side of a comparison, of so many rows each.
type turn struct{ statements, size int }

// share compares creates of rows whose keys are set by hand with creates of the same rows whose keys
// the plugin sets. Both sides take turns, and each turn is compared with its neighbor, because a machine
// treats neighbors alike. The median of all pairs is reported: what the plugin adds to a row, and its
// part of GORM's own time. The allocations are those of a statement.
//
// Between the statements of a turn the two sides do the same. The keys by hand are taken before their
// turn begins, so that GORM's own time has no trace of the generator in the caches of the processor. All
// keys are of one series, so every row of both sides comes behind all others in the table.
func (s *bench) share(b *testing.B, t turn, pairs int, create func(*gorm.DB, []benchRow) error) {
	b.Helper()
	rows, keys := make([]benchRow, t.size), make([]snowflakeplugin.ID, t.statements*t.size)
	times := make([]time.Duration, t.statements)
	run := func(db *gorm.DB) time.Duration {
		for n := range times {
			for i := range rows {
				rows[i] = benchRow{ID: keys[n*t.size+i], Name: "name", Amount: int64(i)}
			}
			began := time.Now()
			err := create(db, rows)
			times[n] = time.Since(began)
			if err != nil {
				b.Fatal(err)
			}
		}
		return undisturbed(times)
	}
	takeKeys := func() {
		if err := s.plugin.NextIDs(b.Context(), keys); err != nil {
			b.Fatal(err)
		}
	}
	byHand := func() time.Duration { takeKeys(); return run(s.plain) }
	byPlugin := func() time.Duration { clear(keys); return run(s.plugged) }

	// The collector runs between the pairs only. Otherwise it would run during one side of some pairs, and
	// its share is that of what the sides allocate.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	added, parts := make([]float64, pairs), make([]float64, pairs)
	for b.Loop() {
		for pair := range pairs {
			runtime.GC()
			var with, without time.Duration
			if pair%2 == 0 {
				without, with = byHand(), byPlugin()
			} else {
				with, without = byPlugin(), byHand()
			}
			added[pair] = float64(with-without) / float64(t.size)
			parts[pair] = 100 * float64(with-without) / float64(without)
		}
	}
	slices.Sort(added)
	slices.Sort(parts)
	allocs := testing.AllocsPerRun(100, func() { byPlugin() }) -
		testing.AllocsPerRun(100, func() { byHand() }) + testing.AllocsPerRun(100, takeKeys)
	b.ReportMetric(added[pairs/2], "share-ns/row")
	b.ReportMetric(parts[pairs/2], "%of-gorm")
	b.ReportMetric(math.Round(allocs/float64(t.statements)), "share-allocs/statement")
	b.ReportMetric(0, "ns/op") // the time of all pairs says nothing
}

// undisturbed returns the lower quartile, which is of a statement that nothing else interrupted.
func undisturbed(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/4]
}

// BenchmarkShareOfBatch measures the time that the plugin adds to CreateInBatches of 1,000 rows,
// compared with the same rows with keys already set.
func BenchmarkShareOfBatch(b *testing.B) {
	newBench(b).share(b, turn{statements: 4, size: 1000}, 250, func(db *gorm.DB, rows []benchRow) error {
		return db.CreateInBatches(rows, len(rows)).Error
	})
}

// BenchmarkShareOfCreate measures the time that the plugin adds to Create of one row, compared with
// the same row with its key already set.
func BenchmarkShareOfCreate(b *testing.B) {
	newBench(b).share(b, turn{statements: 50, size: 1}, 600, func(db *gorm.DB, rows []benchRow) error {
		return db.Create(&rows[0]).Error
	})
}

// BenchmarkShareOfMap measures the time that the plugin adds to Create of one map, compared with the same map with
// its key already set.
func BenchmarkShareOfMap(b *testing.B) {
	newBench(b).share(b, turn{statements: 50, size: 1}, 600, func(db *gorm.DB, rows []benchRow) error {
		row := map[string]any{"name": rows[0].Name, "amount": rows[0].Amount, "active": rows[0].Active}
		if rows[0].ID != 0 {
			row["id"] = rows[0].ID
		}
		return db.Model(&benchRow{}).Create(row).Error
	})
}

// shardedRow is benchRow in shards.
type shardedRow struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string
	Amount int64
	Active bool
}

// shardBench has the same rows in shards and in one table of the same database.
type shardBench struct {
	*testing.B
	db, plain *gorm.DB
	router    *snowflakeplugin.Router
	ids       []snowflakeplugin.ID
}

// eachShardBench runs a comparison on every kind of database that answers.
func eachShardBench(b *testing.B, shards, rows int, run func(b *shardBench)) {
	b.Helper()
	for _, target := range dbtest.Servers() {
		b.Run(target.Name, func(b *testing.B) {
			cfg := &gorm.Config{Logger: logger.Discard}
			s := &shardBench{B: b, db: target.Open(b, cfg)}
			// As in newBench, no wait for the clock is measured.
			layout := generator.Default()
			layout.Node, layout.SequenceBits = []generator.Field{{Name: "node", Bits: 1}}, 21
			plugin := snowflakeplugin.New(snowflakeplugin.WithLayout(layout), snowflakeplugin.WithNode(1),
				snowflakeplugin.WithShards(64))
			s.check(s.db.Use(plugin))
			s.plain = s.db.Session(&gorm.Session{})
			s.check(s.db.AutoMigrate(&benchRow{}))
			var err error
			s.router, err = snowflakeplugin.NewRouter(
				snowflakeplugin.ShardingConfig{Shards: shards, Databases: []*gorm.DB{s.db}}, &shardedRow{})
			s.check(err)
			s.check(s.router.AutoMigrate(b.Context()))
			for range rows / 1000 {
				some := s.batch()
				s.check(s.router.Create(b.Context(), some))
				for _, row := range some {
					s.ids = append(s.ids, row.ID)
				}
				plain := make([]benchRow, len(some))
				for i, row := range some {
					plain[i] = benchRow(row)
				}
				s.check(s.plain.Create(&plain).Error)
			}
			run(s)
		})
	}
}

func (s *shardBench) batch() []shardedRow {
	rows := make([]shardedRow, 1000)
	for i := range rows {
		rows[i] = shardedRow{Name: "some name", Amount: int64(i), Active: true}
	}
	return rows
}

func (s *shardBench) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// allocations reports how often each side allocates memory.
func (s *shardBench) allocations(routed, byHand func(i int)) {
	for name, side := range map[string]func(int){"routed-allocs": routed, "by-hand-allocs": byHand} {
		s.ReportMetric(testing.AllocsPerRun(200, func() { side(0) }), name)
	}
}

// ratio runs both functions alternately. It reports their median times and the time of routed
// divided by that of byHand.
func (s *shardBench) ratio(routed, byHand func(i int)) {
	took := [2][]float64{}
	spent := func(do func(int), i int) float64 {
		began := time.Now()
		do(i)
		return float64(time.Since(began).Nanoseconds())
	}
	for i := 0; s.Loop(); i++ {
		sides := []func(int){routed, byHand}
		for _, side := range []int{i % 2, 1 - i%2} {
			took[side] = append(took[side], spent(sides[side], i))
		}
	}
	for side := range took {
		slices.Sort(took[side])
	}
	a, b := took[0][len(took[0])/2], took[1][len(took[1])/2]
	s.ReportMetric(a/1000, "routed-us")
	s.ReportMetric(b/1000, "by-hand-us")
	s.ReportMetric(a/b, "of-by-hand")
}

func BenchmarkShardTable(b *testing.B) {
	db := newBench(b)
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 64, Databases: []*gorm.DB{db.plugged}}, &shardedRow{})
	if err != nil {
		b.Fatal(err)
	}
	model := &shardedRow{}
	id, err := db.plugin.NextID(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Table(model, id); err != nil {
			b.Fatal(err)
		}
		id++
	}
}

// BenchmarkShards compares methods of the router with GORM on one table that has all the rows.
func BenchmarkShards(b *testing.B) {
	for _, shards := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("of%d", shards), func(b *testing.B) {
			eachShardBench(b, shards, 64_000, func(s *shardBench) {
				for name, compare := range map[string]func(*shardBench){
					"point": comparePoint, "newest": compareNewest, "find": compareFind, "create": compareCreate,
				} {
					s.Run(name, func(b *testing.B) {
						of := *s
						of.B = b
						compare(&of)
					})
				}
			})
		})
	}
}

func comparePoint(s *shardBench) {
	routed := func(i int) {
		var row shardedRow
		id := s.ids[i*97%len(s.ids)]
		db, err := s.router.DB(s.Context(), &shardedRow{}, id)
		s.check(err)
		s.check(db.First(&row, id).Error)
	}
	byHand := func(i int) {
		var row benchRow
		s.check(s.plain.WithContext(s.Context()).First(&row, s.ids[i*97%len(s.ids)]).Error)
	}
	s.ratio(routed, byHand)
	s.allocations(routed, byHand)
}

func compareNewest(s *shardBench) {
	s.ratio(func(int) {
		var rows []shardedRow
		s.check(s.router.Latest(s.Context(), &rows, 50))
	}, func(int) {
		var rows []benchRow
		s.check(s.plain.WithContext(s.Context()).Order("id DESC").Limit(50).Find(&rows).Error)
	})
}

func compareFind(s *shardBench) {
	some := func(i int) []snowflakeplugin.ID {
		ids := make([]snowflakeplugin.ID, 20)
		for n := range ids {
			ids[n] = s.ids[(i*971+n*n*389)%len(s.ids)]
		}
		return ids
	}
	s.ratio(func(i int) {
		var rows []shardedRow
		s.check(s.router.Find(s.Context(), &rows, some(i)))
	}, func(i int) {
		var rows []benchRow
		s.check(s.plain.WithContext(s.Context()).Find(&rows, some(i)).Error)
	})
}

func compareCreate(s *shardBench) {
	s.ratio(func(int) {
		s.check(s.router.Create(s.Context(), s.batch()[:100]))
	}, func(int) {
		rows := make([]benchRow, 100)
		for i, row := range s.batch()[:100] {
			rows[i] = benchRow(row)
		}
		s.check(s.plain.WithContext(s.Context()).Create(&rows).Error)
	})
}

// BenchmarkResharding splits a shard of 64,000 rows and joins it again, while programs may write. Beside it, plain
// statements copy the same rows. They would lose what a program writes meanwhile.
func BenchmarkResharding(b *testing.B) {
	eachShardBench(b, 1, 64_000, func(s *shardBench) {
		whole, half := resharding.Class{Residue: 0, Modulus: 1}, "CREATE TABLE half_%d (LIKE bench_rows INCLUDING ALL)"
		switch s.db.Name() {
		case "mysql":
			half = "CREATE TABLE half_%d LIKE bench_rows"
			if s.Name() == "BenchmarkResharding/mysql" {
				s.Skip("the login may not make triggers")
			}
		case "sqlite":
			half = "CREATE TABLE half_%d (id bigint PRIMARY KEY, name text, amount integer, active numeric)"
		}
		s.ratio(func(int) {
			_, err := resharding.Split(s.Context(), s.router, whole, 2)
			s.check(err)
			s.check(resharding.Clean(s.Context(), s.router))
			_, err = resharding.Join(s.Context(), s.router, whole, 0)
			s.check(err)
			s.check(resharding.Clean(s.Context(), s.router))
		}, func(int) {
			for n := range 2 {
				s.check(s.plain.Exec(fmt.Sprintf(half, n)).Error)
				s.check(s.plain.Exec(fmt.Sprintf("INSERT INTO half_%d SELECT * FROM bench_rows WHERE id %% 2 = %[1]d", n)).Error)
			}
			s.check(s.plain.Exec(fmt.Sprintf(half, 2)).Error)
			s.check(s.plain.Exec("INSERT INTO half_2 SELECT * FROM half_0 UNION ALL SELECT * FROM half_1").Error)
			for n := range 3 {
				s.check(s.plain.Exec(fmt.Sprintf("DROP TABLE half_%d", n)).Error)
			}
		})
	})
}

// BenchmarkShardConstraint measures what the CHECK constraint of a shard's table costs an INSERT. Both tables
// have the same columns and get the same rows.
func BenchmarkShardConstraint(b *testing.B) {
	const shards = 64
	eachShardBench(b, shards, 0, func(s *shardBench) {
		insert := func(table string, id snowflakeplugin.ID) {
			rows := make([]benchRow, 1000)
			for n, row := range s.batch() {
				row.ID = id + snowflakeplugin.ID(n*shards)
				rows[n] = benchRow(row)
			}
			s.check(s.plain.WithContext(s.Context()).Table(table).Create(&rows).Error)
		}
		first := func(i int) snowflakeplugin.ID { return 1<<40 + snowflakeplugin.ID(i*1000*shards) }
		s.ratio(func(i int) { insert("sharded_rows_00", first(i)) }, func(i int) { insert("bench_rows", first(i)) })
	})
}
