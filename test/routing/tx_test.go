package routing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTransactions(t *testing.T) { run(t, shardTxBehaviors()) }

// shardTxBehaviors test transactions on one shard, and that they leave nothing behind.
func shardTxBehaviors() []behavior {
	return []behavior{
		{Name: "rolled-back work stays rolled back, with and without PrepareStmt", Run: rolledBackWithPrepareStmt},
		{Name: "a transaction has everything that is colocated with its row", Run: transactionHasTheShard},
		{Name: "a panic in a transaction rolls it back and goes on", Run: transactionPanics},
		{Name: "another shard inside of a transaction is refused", Run: transactionRefusesOthers},
		{Name: "no connection is left in use, whatever failed", Run: noConnectionLeaks},
	}
}

var errUndone = errors.New("undone")

func rolledBackWithPrepareStmt(t *testing.T, target dbtest.Target) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt %v", prepare), func(t *testing.T) {
			trades := newTrades
			if prepare {
				trades = preparedTrades
			}
			eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
				s := trades(t, targets...)
				kept := s.filled(1)
				for shard := range shards {
					undoOnShard(s, kept[shard])
				}
				s.hold("trades", shards)
				s.hold("trade_items", shards)
				var total int64
				must(t, sumOver(t.Context(), s.router, &trade{}, "Total", &total), "Sum")
				same(t, "the sum", total, 0+1+2+3)
			})
		})
	}
}

// undoOnShard changes and creates rows in every kind of transaction, rolls everything back, and
// leaves one item.
func undoOnShard(s *sharded, kept trade) {
	s.Helper()
	n := 0
	// The statements are the same each time, so prepared statements are used again.
	change := func(trades, items *gorm.DB) {
		n++
		trades, items = trades.Session(&gorm.Session{}), items.Session(&gorm.Session{})
		row := trade{Code: fmt.Sprintf("undone %d %d", s.shard(kept.ID), n), Items: []tradeItem{{Name: "undone"}}}
		must(s.T, trades.Create(&row).Error, "Create")
		must(s.T, trades.Where("id = ?", kept.ID).Update("total", 99).Error, "Update")
		must(s.T, items.Create(&tradeItem{TradeID: kept.ID, Name: "undone"}).Error, "Create")
		must(s.T, trades.Where("id = ?", kept.ID).Delete(&trade{}).Error, "Delete")
		wantErr(s.T, trades.Take(&trade{}, kept.ID).Error, gorm.ErrRecordNotFound, "a deleted row")
		must(s.T, trades.Take(&trade{}, row.ID).Error, "read what was created")
	}
	db := s.on(&trade{}, kept.ID)
	for range 2 {
		err := s.router.Transaction(s.Context(), kept.ID, func(tx *snowflakeplugin.ShardTx) error {
			trades, err := tx.DB(&trade{}, kept.ID)
			must(s.T, err, "DB")
			items, err := tx.DB(&tradeItem{}, kept.ID)
			must(s.T, err, "DB")
			change(trades, items)
			return errUndone
		})
		wantErr(s.T, err, errUndone, "Router.Transaction")

		wantErr(s.T, db.Transaction(func(tx *gorm.DB) error {
			change(tx, tx.Model(&tradeItem{}))
			return errUndone
		}), errUndone, "Transaction of a handle")

		tx := db.Begin()
		must(s.T, tx.Error, "Begin")
		change(tx.Model(&trade{}), tx.Model(&tradeItem{}))
		must(s.T, tx.Rollback().Error, "Rollback")

		wantErr(s.T, db.Session(&gorm.Session{PrepareStmt: true}).Transaction(func(tx *gorm.DB) error {
			change(tx, tx.Model(&tradeItem{}))
			return errUndone
		}), errUndone, "Transaction of a session that prepares")
	}
	// The savepoint is rolled back, but the transaction around it continues.
	must(s.T, s.router.Transaction(s.Context(), kept.ID, func(tx *snowflakeplugin.ShardTx) error {
		must(s.T, tx.Create(&tradeItem{TradeID: kept.ID, Name: "stays"}), "Create")
		wantErr(s.T, tx.Gorm().Transaction(func(inner *gorm.DB) error {
			change(inner.Model(&trade{}), inner.Model(&tradeItem{}))
			return errUndone
		}), errUndone, "nested")
		return nil
	}), "Transaction")
}

func transactionHasTheShard(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		for shard, row := range made {
			must(s.T, s.router.Transaction(s.Context(), row.ID, func(tx *snowflakeplugin.ShardTx) error {
				same(s.T, "the shard", tx.Shard(), shard)
				next := trade{Code: fmt.Sprintf("next %d", shard), Items: []tradeItem{{Name: "a"}}}
				must(s.T, tx.Create(&next), "Create")
				same(s.T, "the shard of the new trade", s.shard(next.ID), shard)
				same(s.T, "the shard of its item", s.shard(next.Items[0].ID), shard)
				must(s.T, tx.Create([]*tradeItem{{TradeID: row.ID, Name: "b"}, {TradeID: next.ID, Name: "c"}}), "Create")
				var found []trade
				must(s.T, tx.Gorm().Preload("Items").Order("id").Find(&found).Error, "Find")
				if len(found) != 2 || len(found[0].Items) != 1 || len(found[1].Items) != 2 {
					s.Errorf("the transaction sees %+v", found)
				}
				db, err := tx.DB(&tradeItem{}, next.Items[0].ID)
				must(s.T, err, "DB")
				return db.Where("name = ?", "a").Update("name", "changed").Error
			}), "Transaction")
		}
		s.hold("trades", 2*shards)
		s.hold("trade_items", 3*shards)
		n, err := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("name = ?", "changed") }).
			Count(s.Context(), &tradeItem{})
		must(s.T, err, "Count")
		same(s.T, "items that were changed", n, shards)
	})
}

func transactionPanics(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		for _, row := range made {
			func() {
				defer func() { same(s.T, "the panic", fmt.Sprint(recover()), "it fell over") }()
				_ = s.router.Transaction(s.Context(), row.ID, func(tx *snowflakeplugin.ShardTx) error {
					must(s.T, tx.Create(&trade{Code: "undone"}), "Create")
					panic("it fell over")
				})
			}()
		}
		s.hold("trades", shards)
		s.idle()
	})
}

func transactionRefusesOthers(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		here, there := made[1], made[2]
		both := []snowflakeplugin.ID{here.ID, there.ID}
		must(s.T, s.router.Transaction(s.Context(), here.ID, func(tx *snowflakeplugin.ShardTx) error {
			inside := tx.Context()
			_, dbErr := tx.DB(&trade{}, there.ID)
			_, routerErr := s.router.DB(inside, &trade{}, there.ID)
			_, countErr := s.router.Count(inside, &trade{})
			var total int64
			for name, err := range map[string]error{
				"DB":                 dbErr,
				"DB of the router":   routerErr,
				"Count":              countErr,
				"Sum":                sumOver(inside, s.router, &trade{}, "Total", &total),
				"Create":             tx.Create(&trade{ID: there.ID + 1<<12, Code: "x"}),
				"Create of two":      tx.Create([]trade{{Code: "y"}, {ID: there.ID + 1<<12, Code: "x"}}),
				"Create of a child":  tx.Create(&tradeItem{TradeID: there.ID}),
				"First":              tx.Gorm().First(&trade{}, there.ID).Error,
				"Find":               tx.Gorm().Find(&[]trade{}, both).Error,
				"Save":               tx.Gorm().Save(&there).Error,
				"Delete":             tx.Gorm().Delete(&there).Error,
				"Create by router":   s.router.Create(inside, []trade{{ID: there.ID + 1<<12, Code: "x"}}),
				"Find by router":     s.router.Find(inside, &[]trade{}, both),
				"Latest by router":   s.router.Latest(inside, &[]trade{}, 2),
				"Each by router":     s.router.Each(inside, &trade{}, func(int, *gorm.DB) error { return nil }),
				"another context":    tx.Gorm().WithContext(context.Background()).First(&trade{}, there.ID).Error,
				"inner transaction":  s.router.Transaction(inside, there.ID, func(*snowflakeplugin.ShardTx) error { return nil }),
				"in a nested one":    tx.Gorm().Transaction(func(in *gorm.DB) error { return in.Delete(&there).Error }),
				"of a fresh session": tx.Gorm().Session(&gorm.Session{NewDB: true}).Delete(&there).Error,
			} {
				wantErr(s.T, err, snowflakeplugin.ErrCrossShard, name)
			}
			return nil
		}), "Transaction")
		s.hold("trades", shards)
		s.hold("trade_items", 0)
		var left []trade
		must(s.T, s.router.Find(s.Context(), &left, idsOf(made)), "Find")
	})
}

// Two connections for each database are enough for every call. The calls are repeated many times,
// so a connection that was not returned would be noticed.
func noConnectionLeaks(t *testing.T, target dbtest.Target) {
	s := twoKinds(t, target)
	for _, db := range s.dbs {
		pool, err := db.DB()
		must(t, err, "the pool")
		before := pool.Stats().MaxOpenConnections
		pool.SetMaxOpenConns(2)
		t.Cleanup(func() { pool.SetMaxOpenConns(before) })
	}
	made := s.filled(2)
	broken := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("no_such_column = 1") })
	for round := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		over, end := context.WithCancel(ctx)
		end()
		id := made[round].ID
		var total int64
		for name, err := range map[string]error{
			"Create":       s.router.Create(ctx, []trade{{ID: made[0].ID, Code: "x"}, {Code: "y"}, {Code: "z"}}),
			"Create, over": s.router.Create(over, s.trades(1)),
			"Find":         broken.Find(ctx, &[]trade{}, idsOf(made)),
			"Find, over":   s.router.Find(over, &[]trade{}, idsOf(made)),
			"Latest":       broken.Latest(ctx, &[]trade{}, 3),
			"Latest, over": s.router.Latest(over, &[]trade{}, 3),
			"Sum":          sumOver(ctx, broken, &trade{}, "total", &total),
			"Sum, over":    sumOver(over, s.router, &trade{}, "total", &total),
			"Each": s.router.Each(ctx, &trade{}, func(_ int, tx *gorm.DB) error {
				return tx.Transaction(func(tx *gorm.DB) error {
					if err := tx.First(&trade{}).Error; err != nil {
						return err
					}
					panic("it fell over")
				})
			}),
			"Transaction": s.router.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
				return tx.Gorm().Where("no_such_column = 1").Find(&[]trade{}).Error
			}),
			"Transaction that is over": canceled(ctx, s.router, id),
			"a statement":              s.on(&trade{}, id).Where("no_such_column = 1").Find(&[]trade{}).Error,
			"rows":                     failedRows(s.on(&trade{}, id).Where("no_such_column = 1")),
			"unrouted":                 s.dbs[0].Transaction(func(tx *gorm.DB) error { return tx.Create(&trade{}).Error }),
		} {
			wantErr(t, err, nil, name)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s waited for a connection: %v", name, err)
			}
		}
		cancel()
		s.settle()
	}
	must(t, s.router.Create(t.Context(), []trade{{Code: "works"}}), "Create at the end")
}

// canceled ends the context in the middle of a transaction.
func canceled(ctx context.Context, r *snowflakeplugin.Router, id snowflakeplugin.ID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return r.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
		cancel()
		return tx.Gorm().First(&trade{}).Error
	})
}

// settle waits for connections that database/sql returns on another goroutine after a context has
// ended. It fails the test if they are not returned.
func (s *sharded) settle() {
	s.Helper()
	for range 500 {
		busy := 0
		for _, db := range s.dbs {
			pool, err := db.DB()
			must(s.T, err, "the pool")
			busy += pool.Stats().InUse
		}
		if busy == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.idle()
}
