package fill

import (
	"context"
	"slices"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A statement in a transaction goes to the database of that, which database/sql does not tell. Should a version
// of Go keep the pool elsewhere, this test says so.
//
//nolint:paralleltest // It counts allocations.
func TestThePoolOfEveryKindOfHandleIsFound(t *testing.T) {
	for name, prepared := range map[string]bool{"plain": false, "prepared": true} {
		db := dbtest.Named("sqlite").Open(t, &gorm.Config{PrepareStmt: prepared})
		want, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		n := NewNotes(func(context.Context, Destination) ([]string, error) { return nil, nil }, nil)
		check := func(what string, pool gorm.ConnPool) {
			t.Helper()
			if got, pinned := n.poolOf(pool); got != want || pinned != (what != "handle") {
				t.Errorf("%s, %s: the pool of a %T is %p, pinned %t, want %p", name, what, pool, got, pinned, want)
			}
			if allocations := testing.AllocsPerRun(10, func() { n.poolOf(pool) }); allocations != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, allocations)
			}
		}
		check("handle", db.Statement.ConnPool)
		err = db.Transaction(func(tx *gorm.DB) error {
			check("transaction", tx.Statement.ConnPool)
			return nil
		})
		if err == nil {
			err = db.Connection(func(tx *gorm.DB) error {
				check("connection", tx.Statement.ConnPool)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkNotes measures what a look at the notes takes of a create, and reports its part of GORM's own time for
// a row in memory. The create is that of a database whose note is there.
func BenchmarkNotes(b *testing.B) {
	const some = 1000
	type row struct {
		ID   int64 `gorm:"primaryKey;autoIncrement:false"`
		Name string
	}
	for name, prepared := range map[string]bool{"plain": false, "prepared": true} {
		db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{PrepareStmt: prepared, Logger: logger.Discard})
		if err != nil {
			b.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			b.Fatal(err)
		}
		pool.SetMaxOpenConns(1) // a second connection would be a second database
		b.Cleanup(func() { _ = pool.Close() })
		if err := db.AutoMigrate(&row{}); err != nil {
			b.Fatal(err)
		}
		n := NewNotes(func(context.Context, Destination) ([]string, error) { return nil, nil }, nil)
		n.Add(pool, "")
		plan := &Plan{}
		var last int64
		measure := func(b *testing.B, tx *gorm.DB) {
			b.Helper()
			times := make([]time.Duration, 2000)
			for i := range times {
				last++
				began := time.Now()
				if err := tx.Create(&row{ID: last, Name: "name"}).Error; err != nil {
					b.Fatal(err)
				}
				times[i] = time.Since(began)
			}
			slices.Sort(times)
			handle := tx.Session(&gorm.Session{}).WithContext(context.Background())
			if err := handle.Statement.Parse(&row{}); err != nil { // as a create does before
				b.Fatal(err)
			}
			looks := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				for range some {
					if err := n.ensure(handle, plan); err != nil {
						b.Fatal(err)
					}
				}
				looks = append(looks, time.Since(began))
			}
			slices.Sort(looks)
			look := float64(looks[len(looks)/2]) / some
			b.ReportMetric(look, "ns/look")
			b.ReportMetric(100*look/float64(times[len(times)/2]), "%of-create")
			b.ReportMetric(0, "ns/op")
		}
		b.Run(name+"/outside of a transaction", func(b *testing.B) { measure(b, db) })
		b.Run(name+"/inside of a transaction", func(b *testing.B) {
			tx := db.Begin()
			measure(b, tx)
			if err := tx.Rollback().Error; err != nil {
				b.Fatal(err)
			}
		})
	}
}
