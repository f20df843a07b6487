package resharding_test

import (
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Each of the first reshardings makes the tables in which reshardings are recorded.
func TestTheFirstReshardingsMayBeginAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		target = mayMakeTriggers(target.Shared(t))
		for round := range nightly.Pick(1, 5) {
			t.Run(fmt.Sprint(round), func(t *testing.T) { splitAllAtOnce(t, target) })
		}
	})
}

func splitAllAtOnce(t *testing.T, target dbtest.Target) {
	t.Helper()
	dsn := target.DSN(t)
	var programs []*program
	for range splitFrom {
		programs = append(programs, startRouter(t, target.OpenDSN(t, dsn, nil)))
	}
	orders := programs[0].create(20)
	gate, errs := make(chan struct{}), make([]error, splitFrom)
	var all sync.WaitGroup
	for i, p := range programs {
		all.Go(func() {
			<-gate
			_, errs[i] = resharding.Split(t.Context(), p.router, resharding.Class{Residue: i, Modulus: splitFrom}, 2)
		})
	}
	close(gate)
	all.Wait()
	for i, p := range programs {
		must(t, errs[i], fmt.Sprintf("Split of shard %d", i))
		p.finds(orders, "afterwards")
	}
}

// A new version knows one more model, and another program splits a shard after it has made the tables of that.
func TestANewModelIsRecordedWithTheShardsOfTheOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		orders := mover.create(20)
		db := target.OpenDSN(t, dsn, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{db}},
			&splitOrder{}, &splitItem{}, &splitNote{}, snowflakeplugin.Broadcast(&splitTag{}))
		must(t, err, "NewRouter")
		done := false
		must(t, db.Callback().Query().Before("gorm:query").Register("split", func(tx *gorm.DB) {
			if !done && tx.Statement.Table == "snowflake_shards" && db.Migrator().HasTable("split_notes_03") {
				done = true
				_, err := resharding.Split(t.Context(), mover.router, shardOne, 2)
				must(t, err, "Split")
			}
		}), "a callback")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		same(t, "AutoMigrate was overtaken", done, true)
		must(t, r.Check(t.Context()), "Check")
		must(t, r.Create(t.Context(), make([]splitNote, 20)), "Create")
		_, err = resharding.Split(t.Context(), r, resharding.Class{Residue: 2, Modulus: splitFrom}, 2)
		must(t, err, "Split of all models")
		mover.finds(orders, "afterwards")
	})
}

type splitNote struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}
