package snowflakeplugin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// shardedRow is benchRow over shards.
type shardedRow struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string
	Amount int64
	Active bool
}

// shardBench has the same rows in shards and in one table, of the same database.
type shardBench struct {
	*testing.B
	db, plain *gorm.DB
	router    *snowflakeplugin.Router
	ids       []snowflakeplugin.ID
}

// eachShardBench runs a comparison on every kind of database that answers.
func eachShardBench(b *testing.B, shards, rows int, run func(b *shardBench)) {
	b.Helper()
	for _, target := range dbtest.Targets() {
		if target.Name == "mariadb-noreturning" {
			continue
		}
		b.Run(target.Name, func(b *testing.B) {
			cfg := &gorm.Config{Logger: logger.Discard}
			s := &shardBench{B: b, db: target.Open(b, cfg)}
			// As in newBench, no wait for the clock is to be counted.
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

// ratio runs both in turn and reports how many times the second takes what the first takes.
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
	n, err := db.ids.Next(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	model, id := &shardedRow{}, snowflakeplugin.ID(n)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Table(model, id); err != nil {
			b.Fatal(err)
		}
		id++
	}
}

func BenchmarkShardLatest(b *testing.B) {
	eachShardBench(b, 64, 64_000, func(s *shardBench) {
		var union strings.Builder
		for shard := range 64 {
			if shard > 0 {
				union.WriteString(" UNION ALL ")
			}
			const one = "SELECT * FROM (SELECT * FROM sharded_rows_%02d ORDER BY id DESC LIMIT 100) AS s%d"
			fmt.Fprintf(&union, one, shard, shard)
		}
		union.WriteString(" ORDER BY id DESC LIMIT 100")
		byHand := union.String()
		s.ratio(func(int) {
			var rows []shardedRow
			s.check(s.router.Latest(s.Context(), &rows, 100))
		}, func(int) {
			var rows []shardedRow
			s.check(s.db.Raw(byHand).Scan(&rows).Error)
		})
	})
}

func BenchmarkShardPointRead(b *testing.B) {
	eachShardBench(b, 64, 64_000, func(s *shardBench) {
		s.ratio(func(i int) {
			var row shardedRow
			id := s.ids[i%len(s.ids)]
			db, err := s.router.DB(s.Context(), &shardedRow{}, id)
			s.check(err)
			s.check(db.First(&row, id).Error)
		}, func(i int) {
			var row shardedRow
			id := s.ids[i%len(s.ids)]
			table := fmt.Sprintf("sharded_rows_%02d", id%64)
			s.check(s.db.WithContext(s.Context()).Table(table).First(&row, id).Error)
		})
	})
}

func BenchmarkShardCreate(b *testing.B) {
	eachShardBench(b, 16, 0, func(s *shardBench) {
		s.ratio(func(int) {
			s.check(s.router.Create(s.Context(), s.batch()))
		}, func(int) {
			rows := s.batch()
			plain := make([]benchRow, len(rows))
			for i, row := range rows {
				plain[i] = benchRow(row)
			}
			s.check(s.plain.WithContext(s.Context()).Create(&plain).Error)
		})
	})
}
