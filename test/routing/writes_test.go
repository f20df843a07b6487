package routing_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestWrites(t *testing.T) { run(t, shardWriteBehaviors()) }

// shardWriteBehaviors test what a handle of the router writes.
func shardWriteBehaviors() []behavior {
	return []behavior{
		{Name: "what a handle creates without an ID gets one on its shard, in every shape", Run: createsOnShards},
		{Name: "maps are created on the shard", Run: mapsOnShards},
		{Name: "Save, Updates, UpdateColumn and Delete", Run: updatesOnShards},
		{Name: "upserts meet the rows of the shard", Run: upsertsOnShards},
		{Name: "a failed create leaves no ID behind", Run: failedCreateOnShards},
	}
}

func createsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		total := 0
		for shard := range shards {
			db := s.on(&trade{}, s.id(shard))
			one := trade{Code: fmt.Sprint("one ", shard)}
			must(s.T, db.Create(&one).Error, "Create")
			many := []trade{{Code: fmt.Sprint("a", shard)}, {ID: s.id(shard), Code: fmt.Sprint("b", shard)}, {Code: fmt.Sprint("c", shard)}}
			must(s.T, db.Create(&many).Error, "Create of many")
			batches := make([]*trade, 25)
			for i := range batches {
				batches[i] = &trade{Code: fmt.Sprintf("batch %d %d", shard, i), Items: []tradeItem{{Name: "x"}}}
			}
			must(s.T, db.CreateInBatches(batches, 4).Error, "CreateInBatches")
			saved := trade{Code: fmt.Sprint("saved ", shard)}
			must(s.T, db.Save(&saved).Error, "Save of a new row")
			ids := append(idsOf(many), one.ID, saved.ID)
			for _, row := range batches {
				ids = append(ids, row.ID, row.Items[0].ID)
			}
			for _, id := range ids {
				same(s.T, "the shard of a new row", s.shard(id), shard)
			}
			total += 30
			s.hold("trades", total)
		}
		s.hold("trade_items", 25*shards)
	})
}

func mapsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		parent := s.filled(1)[1]
		db := s.on(&trade{}, parent.ID)
		one := map[string]any{"code": "m1", "total": 5}
		must(s.T, db.Create(one).Error, "a map")
		must(s.T, db.Create(&[]map[string]any{{"Code": "m2"}, {"Code": "m3", "ID": s.id(1)}}).Error, "maps")
		ids := s.table(1, "trades")
		same(s.T, "rows on the shard", len(ids), 4)
		for _, id := range ids {
			same(s.T, "the shard of a map's row", s.shard(id), 1)
		}
		items := s.on(&tradeItem{}, parent.ID)
		must(s.T, items.Create(map[string]any{"trade_id": parent.ID, "name": "m"}).Error, "a map of a child")
		same(s.T, "items on the shard", len(s.table(1, "trade_items")), 1)
		must(s.T, s.router.Transaction(s.Context(), parent.ID, func(tx *snowflakeplugin.ShardTx) error {
			return tx.Gorm().Model(&trade{}).Create(map[string]any{"code": "m4"}).Error
		}), "Transaction")
		same(s.T, "rows on the shard", len(s.table(1, "trades")), 5)
		wantErr(s.T, db.Create(map[string]any{"code": "m5", "id": s.id(0)}).Error, snowflakeplugin.ErrCrossShard, "another shard")
		s.hold("trades", shards+4)
	})
}

func updatesOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(3)
		row := made[6] // the second row on shard 2
		db := s.on(&trade{}, row.ID)
		row.Total, row.Items = 1000, []tradeItem{{Name: "new"}}
		must(s.T, db.Save(&row).Error, "Save")
		same(s.T, "the shard of the new item", s.shard(row.Items[0].ID), 2)
		must(s.T, db.Model(&made[2]).Updates(trade{Customer: 50}).Error, "Updates")
		must(s.T, db.Model(&made[2]).Updates(map[string]any{"total": gorm.Expr("total + ?", 100)}).Error, "Updates")
		must(s.T, db.Model(&made[10]).UpdateColumn("code", "changed").Error, "UpdateColumn")
		must(s.T, db.Select("customer").Updates(&trade{ID: made[10].ID, Customer: 51, Total: 99}).Error, "Select, Updates")
		var got []trade
		must(s.T, db.Order("id").Find(&got).Error, "Find")
		if len(got) != 3 || got[0].Customer != 50 || got[0].Total != 102 || got[1].Total != 1000 ||
			got[2].Code != "changed" || got[2].Customer != 51 || got[2].Total != 22 {
			s.Errorf("the rows are %+v", got)
		}
		tx := db.Where("customer >= ?", 50).Update("total", 0)
		must(s.T, tx.Error, "Update")
		same(s.T, "rows affected", tx.RowsAffected, 2)
		tx = db.Delete(&trade{}, []snowflakeplugin.ID{made[2].ID, made[6].ID})
		must(s.T, tx.Error, "Delete")
		same(s.T, "rows affected", tx.RowsAffected, 2)
		n, err := s.router.Count(s.Context(), &trade{})
		must(s.T, err, "Count")
		same(s.T, "rows left", n, 3*shards-2)
	})
}

func upsertsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		there := s.filled(1)[3]
		db := s.on(&trade{}, there.ID)
		onCode := []clause.Column{{Name: "code"}}
		met := trade{Code: there.Code, Total: 77}
		must(s.T, db.Clauses(clause.OnConflict{Columns: onCode, DoNothing: true}).Create(&met).Error, "DoNothing")
		same(s.T, "the ID after DoNothing", met.ID, there.ID)
		rows := []trade{{Code: "new", Total: 1}, {Code: there.Code, Total: 88}}
		must(s.T, db.Clauses(clause.OnConflict{Columns: onCode, UpdateAll: true}).Create(&rows).Error, "UpdateAll")
		same(s.T, "the ID after UpdateAll", rows[1].ID, there.ID)
		same(s.T, "the shard of the new row", s.shard(rows[0].ID), 3)
		update := clause.OnConflict{Columns: onCode, DoUpdates: clause.AssignmentColumns([]string{"total"})}
		one := trade{Code: there.Code, Total: 99}
		must(s.T, db.Clauses(update).Create(&one).Error, "DoUpdates")
		same(s.T, "the ID after DoUpdates", one.ID, there.ID)
		var got trade
		must(s.T, db.Take(&got, there.ID).Error, "Take")
		same(s.T, "the total", got.Total, 99)
		s.hold("trades", shards+1)
		// The index belongs to one shard, so the same code may exist on another shard.
		other := trade{ID: s.id(0), Code: "new"}
		must(s.T, s.router.Create(s.Context(), &other), "the same code on another shard")
	})
}

func failedCreateOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		there := s.filled(1)[0]
		row := trade{Code: there.Code, Items: []tradeItem{{Name: "x"}}, Labels: []tradeLabel{{Name: "y"}}}
		db := s.on(&trade{}, there.ID)
		wantErr(s.T, db.Create(&row).Error, nil, "Create of a duplicate")
		if row.ID != 0 || row.Items[0].ID != 0 || row.Labels[0].ID != 0 {
			s.Errorf("after the error the IDs are %d, %d and %d", row.ID, row.Items[0].ID, row.Labels[0].ID)
		}
		row.Code = "mended"
		must(s.T, db.Create(&row).Error, "Create again")
		same(s.T, "the shard of the item", s.shard(row.Items[0].ID), 0)
		s.hold("trade_items", 1)
		// After a failed Create of the router, the row keeps its ID. Its items must not have IDs
		// without a row.
		lost := []trade{{Code: there.Code, ID: s.id(0), Items: []tradeItem{{Name: "x"}}}, {Code: "fine", ID: s.id(1), Items: []tradeItem{{Name: "x"}}}}
		wantErr(s.T, s.router.Create(s.Context(), lost), nil, "Create of a duplicate by the router")
		lost[0].Code = "fine, too"
		must(s.T, s.router.Create(s.Context(), lost), "Create again by the router")
		s.hold("trade_items", 3)
		s.hold("trades", shards+3)
		var found []trade
		with := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Preload("Items") })
		must(s.T, with.Find(s.Context(), &found, idsOf(lost)), "Find")
		for _, row := range found {
			same(s.T, "items of a row", len(row.Items), 1)
		}
	})
}
