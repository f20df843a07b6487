package routing_test

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestQualified(t *testing.T) { run(t, qualifiedBehaviors()) }

// qualifiedBehaviors test text that names the table as the model does. No table of a shard has that name.
func qualifiedBehaviors() []behavior {
	return []behavior{
		{Name: "every statement of a handle knows the table by the name in the model", Run: qualifiedOnHandles},
		{Name: "reads of all shards know the table by the name in the model", Run: qualifiedOverShards},
		{Name: "a key of another shard after the name of the table is refused", Run: qualifiedKeys},
		{Name: "a statement that runs twice is routed twice", Run: qualifiedTwice},
		{Name: "an upsert that names the table says how to write it", Run: qualifiedUpserts},
		{Name: "a condition that names the table of the shard says how to write it", Run: qualifiedByShard},
	}
}

func qualifiedOnHandles(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(3)
		on, mine := s.on(&trade{}, made[0].ID), made[0].ID // made[0], made[4] and made[8], totals 0, 10 and 20
		var got []trade
		var total int64
		for name, err := range map[string]error{
			"Find":  on.Where("trades.total >= ?", 10).Order("trades.total DESC").Find(&got).Error,
			"Count": on.Where("trades.customer < ?", 2).Count(&total).Error,
		} {
			must(s.T, err, name)
		}
		same(s.T, "rows", len(got), 2)
		same(s.T, "the first", got[0].Total, 20)
		same(s.T, "rows counted", total, 2)
		must(s.T, on.Select("trades.*").Where("trades.id = ?", mine).Find(&got).Error, "Select")
		same(s.T, "rows", len(got), 1)
		same(s.T, "its code", got[0].Code, made[0].Code)
		must(s.T, on.Select("sum(trades.total)").Row().Scan(&total), "Row")
		same(s.T, "the sum", total, 30)
		var codes []string
		must(s.T, on.Where("trades.total > ?", 0).Pluck("trades.code", &codes).Error, "Pluck")
		same(s.T, "codes", len(codes), 2)
		inner := on.Select("trades.customer").Where("trades.total = ?", 20)
		must(s.T, on.Where("trades.customer IN (?)", inner).Find(&got).Error, "a subquery")
		same(s.T, "rows", len(got), 1)
		batches := 0
		must(s.T, on.Where("trades.total >= ?", 0).FindInBatches(&got, 2, func(*gorm.DB, int) error {
			batches++
			return nil
		}).Error, "FindInBatches")
		same(s.T, "batches", batches, 2)
		if on.Name() != "sqlite" {
			locking := clause.Locking{Strength: clause.LockingStrengthUpdate}
			if on.Name() == "postgres" {
				locking.Table = clause.Table{Name: clause.CurrentTable}
			}
			must(s.T, on.Clauses(locking).Where("trades.total = ?", 10).Take(&trade{}).Error, "FOR UPDATE")
		}

		tx := on.Where("trades.total = ?", 10).Updates(map[string]any{"customer": 77})
		must(s.T, tx.Error, "Updates")
		same(s.T, "rows updated", tx.RowsAffected, 1)
		tx = on.Where("trades.total = ?", 10).Update("total", gorm.Expr("trades.total + ?", 1))
		must(s.T, tx.Error, "Update by an expression")
		same(s.T, "rows updated", tx.RowsAffected, 1)
		saved := made[8]
		saved.Customer = 78
		must(s.T, on.Save(&saved).Error, "Save")
		must(s.T, on.Save(&trade{ID: s.id(0), Code: "saved", Total: 30}).Error, "Save of a new row")
		must(s.T, on.Where("trades.code = ?", "none").Attrs(trade{ID: s.id(0), Code: "none"}).
			FirstOrCreate(&trade{}).Error, "FirstOrCreate")
		must(s.T, on.Where("trades.customer IN ?", []int{77, 78}).Find(&got).Error, "Find")
		same(s.T, "rows updated", len(got), 2)
		tx = on.Where("trades.total > ?", 15).Delete(&trade{})
		must(s.T, tx.Error, "a soft delete")
		same(s.T, "rows marked", tx.RowsAffected, 2)
		tx = on.Unscoped().Where("trades.deleted_at IS NOT NULL").Delete(&trade{})
		must(s.T, tx.Error, "Delete")
		same(s.T, "rows deleted", tx.RowsAffected, 2)
		must(s.T, on.Delete(&made[0]).Error, "Delete of a row")
		must(s.T, on.Unscoped().Delete(&made[0]).Error, "Delete of a row for good")
		s.hold("trades", 3*shards-1)

		// The relation leads to other shards, and the condition does not.
		refunds := s.on(&refund{}, mine)
		must(s.T, refunds.Create(&refund{TradeID: mine}).Error, "Create")
		var back []refund
		must(s.T, refunds.Where("refunds.trade_id = ?", mine).Find(&back).Error, "Find by a reference")
		same(s.T, "refunds", len(back), 1)
		tx = refunds.Where("refunds.trade_id = ?", mine).Order("id").Limit(1)
		if refunds.Name() == "mysql" { // The others have no DELETE with a limit.
			says(s.T, tx.Delete(&refund{}).Error, "write the column without a table")
			tx = refunds.Where("trade_id = ?", mine).Order("id").Limit(1)
			must(s.T, tx.Delete(&refund{}).Error, "Delete with a limit")
		}
	})
}

func qualifiedOverShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made, ctx := s.filled(3), s.Context()
		some := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("trades.total >= ?", 10) })
		var got []trade
		must(s.T, some.Latest(ctx, &got, 5), "Latest")
		same(s.T, "rows of a page", len(got), 5)
		must(s.T, some.Before(ctx, &got, got[4].ID, 50), "Before")
		same(s.T, "rows of the next", len(got), 2*shards-5)
		n, err := some.Count(ctx, &trade{})
		must(s.T, err, "Count")
		same(s.T, "rows", n, 2*shards)
		err = some.Find(ctx, &got, idsOf(made))
		wantErr(s.T, err, gorm.ErrRecordNotFound, "Find")
		same(s.T, "rows found", len(got), 2*shards)
		must(s.T, s.router.Each(ctx, &trade{}, func(_ int, tx *gorm.DB) error {
			return tx.Where("trades.total < ?", 10).Delete(&trade{}).Error
		}), "Each")
		must(s.T, s.router.Transaction(ctx, made[0].ID, func(tx *snowflakeplugin.ShardTx) error {
			return tx.Gorm().Where("trades.total = ?", 10).Find(&got).Error
		}), "Transaction")
		same(s.T, "rows of the transaction", len(got), 1)
		n, err = s.router.Count(ctx, &trade{})
		must(s.T, err, "Count")
		same(s.T, "rows left", n, 2*shards)
	})
}

func qualifiedKeys(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		on := s.on(&trade{}, made[0].ID)
		var got []trade
		for name, tx := range map[string]*gorm.DB{
			"Find":   on.Where("trades.id = ?", made[1].ID).Find(&got),
			"IN":     on.Where("trades.id IN ?", []snowflakeplugin.ID{made[0].ID, made[1].ID}).Find(&got),
			"Update": on.Where("trades.id = ?", made[1].ID).Update("total", 1),
			"Delete": on.Where("trades.id = ?", made[1].ID).Delete(&trade{}),
		} {
			wantErr(s.T, tx.Error, snowflakeplugin.ErrCrossShard, name)
		}
	})
}

func qualifiedTwice(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(3)
		on := s.on(&trade{}, made[1].ID)
		var n int64
		var got []trade
		tx := on.Where("trades.total > ?", 10)
		must(s.T, tx.Count(&n).Error, "Count")
		must(s.T, tx.Find(&got).Error, "Find with the same statement")
		must(s.T, tx.Find(&got).Error, "Find once more")
		var labels []tradeLabel
		must(s.T, s.on(&tradeLabel{}, made[1].ID).Create(&tradeLabel{Name: "a"}).Error, "Create")
		other := s.on(&tradeItem{}, made[1].ID).Where("1 = 1")
		must(s.T, other.Find(&[]tradeItem{}).Error, "Find")
		must(s.T, other.Model(&tradeLabel{}).Find(&labels).Error, "Find of another model")
		same(s.T, "labels", len(labels), 1)
		same(s.T, "rows counted", n, 2)
		same(s.T, "rows", len(got), 2)
		tx = on.Where("trades.total > ?", 10)
		must(s.T, tx.Update("customer", 5).Error, "Update")
		tx = tx.Session(&gorm.Session{})
		must(s.T, tx.Update("customer", 6).Error, "Update by a session of the same statement")
		must(s.T, tx.Model(&trade{}).Where("trades.customer = ?", 6).Find(&got).Error, "Find after it")
		same(s.T, "rows", len(got), 2)
	})
}

func qualifiedByShard(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		on := s.on(&trade{}, s.filled(1)[2].ID)
		for name, err := range map[string]error{
			"Find":   on.Where("trades_02.total > ?", 1).Find(&[]trade{}).Error,
			"Update": on.Where("trades_02.total > ?", 1).Update("total", 5).Error,
		} {
			wantErr(s.T, err, nil, name)
			says(s.T, err, "called trades")
		}
	})
}

func qualifiedUpserts(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		row := trade{ID: made[2].ID, Code: made[2].Code, Total: 9}
		upsert := func(sum clause.Expr) error {
			again := row
			return s.on(&trade{}, row.ID).Clauses(clause.OnConflict{
				Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{"total": sum}),
			}).Create(&again).Error
		}
		err := upsert(gorm.Expr("trades.total + 1"))
		wantErr(s.T, err, nil, "an upsert")
		says(s.T, err, "trades_02", "write the column without a table", "clause.CurrentTable")
		must(s.T, upsert(gorm.Expr("? + 1", clause.Column{Table: clause.CurrentTable, Name: "total"})), "an upsert")
		var got trade
		must(s.T, s.on(&trade{}, row.ID).Take(&got, row.ID).Error, "Take")
		same(s.T, "the total", got.Total, made[2].Total+1)
	})
}
