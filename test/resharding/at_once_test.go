package resharding_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
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

// A new version knows one more model, and another program splits a shard before it makes the tables of that.
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
			if !done && tx.Statement.Table == "snowflake_models" {
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

// An older version splits a shard, after a newer one has made the tables of a model that it does not know, or before its
// cutover. The tables of that model would stay behind, and the newer version could not use any shard.
func TestAProgramThatLacksAModelChangesNoShard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, step := range []string{"", "compare"} {
			dsns := []string{target.DSN(t), target.DSN(t)}
			open := func() (dbs []*gorm.DB) {
				return []*gorm.DB{target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil)}
			}
			before := startRouter(t, open()...)
			orders := before.create(20)
			var newer *snowflakeplugin.Router
			notes := make([]splitNote, 20)
			start := func() {
				dbs := open()
				leased(t, dbs[0])
				must(t, dbs[1].Use(dbs[0].Plugins["snowflake"]), "Use")
				var err error
				newer, err = snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
					Shards: splitFrom, Databases: dbs, Place: func(int) int { return 0 },
				}, &splitOrder{}, &splitItem{}, &splitNote{}, snowflakeplugin.Broadcast(&splitTag{}))
				must(t, err, "NewRouter")
				must(t, newer.AutoMigrate(t.Context()), "AutoMigrate")
				must(t, newer.Create(t.Context(), notes), "Create")
			}
			settings := once(step, start)
			if step == "" {
				start()
			}
			_, err := settings.Split(t.Context(), before.router, shardOne, 2, nightly.Pick(0, 1), 0)
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a split without the model")
			suite.Says(t, err, "split_notes", "by a program that has all models")
			before.finds(orders, "in the older version")
			must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate of the older version")
			if step != "" {
				suite.WantErr(t, resharding.Resume(t.Context(), before.router), snowflakeplugin.ErrSharding, "Resume")
				err = resharding.Resume(t.Context(), newer)
				suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Resume with another model")
				suite.Says(t, err, "split_orders,split_order_tags,split_items", "begin again")
				must(t, resharding.Drop(t.Context(), newer), "Drop")
			}
			_, err = resharding.Split(t.Context(), newer, shardOne, 2)
			must(t, err, "a split with the model")
			before.finds(orders, "afterwards")
			var found []splitNote
			must(t, newer.Latest(t.Context(), &found, 100), "Latest")
			same(t, "notes", len(found), len(notes))
			must(t, newer.Check(t.Context()), "Check")
			must(t, resharding.Clean(t.Context(), newer), "Clean")
		}
	})
}

// Tables are numbered in the journal by the order of who has begun. A program that lacks one must not even drop the
// job: triggers would be left on that.
func TestAnInterruptedSplitIsGoneOnWithByTheSameModelsInAnyOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		withModels := func(models ...any) *program {
			db := target.OpenDSN(t, dsn, nil)
			leased(t, db)
			r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{db}},
				append(models, snowflakeplugin.Broadcast(&splitTag{}))...)
			must(t, err, "NewRouter")
			return &program{t, r}
		}
		first := withModels(&splitOrder{}, &splitItem{}, &splitNote{})
		must(t, first.router.AutoMigrate(t.Context()), "AutoMigrate")
		orders := first.create(20)
		first.interrupt("drain")
		older, other := withModels(&splitItem{}, &splitOrder{}), withModels(&splitNote{}, &splitItem{}, &splitOrder{})
		for name, err := range map[string]error{
			"Resume": resharding.Resume(t.Context(), older.router), "Drop": resharding.Drop(t.Context(), older.router),
		} {
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, name+" without a model")
			suite.Says(t, err, "split_notes", "all models")
		}
		orders = append(orders, first.create(20)...)
		must(t, resharding.Resume(t.Context(), other.router), "Resume in another order")
		must(t, resharding.Resume(t.Context(), first.router), "Resume of what is over")
		must(t, resharding.Clean(t.Context(), other.router), "Clean")
		first.finds(orders, "after the split")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := once("compare", cancel).Join(ctx, first.router, shardOne, 0)
		suite.WantErr(t, err, context.Canceled, "a join that is interrupted")
		must(t, resharding.Drop(t.Context(), other.router), "Drop in another order")
		first.finds(append(orders, first.create(20)...), "afterwards")
	})
}

type splitNote struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

// A new version makes the tables of one more model while another program is between the two databases of its cutover.
func TestAModelThatComesWithinACutoverGetsTheShardsOfAfterwards(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		start := starter(t, target)
		before, _ := start()
		must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate")
		current, err := before.router.Inner().Adopt(t.Context())
		must(t, err, "the map")
		change, err := current.Move(shardmap.Class(shardOne), 0)
		must(t, err, "the move")
		newer, dbs := start(&splitNote{})
		closed, over := false, false
		must(t, dbs[0].Callback().Query().Before("gorm:query").Register("move", func(tx *gorm.DB) {
			_, inside := tx.Statement.ConnPool.(gorm.TxCommitter)
			switch table := tx.Statement.Table; {
			case !closed && table == "snowflake_models":
				closed = true
				must(t, change.Close(t.Context()), "Close")
			case closed && !over && !inside && table == "snowflake_shards":
				over = true
				must(t, change.Replace(t.Context(), nil), "Replace")
				must(t, change.Open(t.Context()), "Open")
			}
		}), "a callback")
		must(t, newer.router.AutoMigrate(t.Context()), "AutoMigrate")
		same(t, "AutoMigrate was overtaken", over, true)
		must(t, newer.router.Create(t.Context(), make([]splitNote, 20)), "Create")
		must(t, newer.router.Check(t.Context()), "Check")
		again, _ := start(&splitNote{})
		n, err := again.router.Count(t.Context(), &splitNote{})
		must(t, err, "Count")
		same(t, "notes", n, 20)
	})
}

// starter returns how programs start whose shards are all in the second of two databases.
func starter(t *testing.T, target dbtest.Target) (start func(models ...any) (*program, []*gorm.DB)) {
	t.Helper()
	dsns := []string{target.DSN(t), target.DSN(t)}
	return func(models ...any) (*program, []*gorm.DB) {
		dbs := []*gorm.DB{target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil)}
		leased(t, dbs[0])
		must(t, dbs[1].Use(dbs[0].Plugins["snowflake"]), "Use")
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
			Shards: splitFrom, Databases: dbs, Place: func(int) int { return 1 },
		}, append(models, &splitOrder{}, &splitItem{}, snowflakeplugin.Broadcast(&splitTag{}))...)
		must(t, err, "NewRouter")
		return &program{t, r}, dbs
	}
}
