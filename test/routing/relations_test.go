package routing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRelations(t *testing.T) { run(t, shardRelationBehaviors()) }

// shardRelationBehaviors test how relations work within a shard, and that a relation to another
// shard is always an error.
func shardRelationBehaviors() []behavior {
	return []behavior{
		{Name: "children that are keyed like their parent are preloaded, and it with them", Run: preloadsBothWays},
		{Name: "nested preloads and preloads with conditions", Run: preloadsNested},
		{Name: "Joins of a relation within the shard", Run: joinsWithinShard},
		{Name: "a parent that may be on another shard is not preloaded, wherever it is", Run: preloadElsewhere},
		{Name: "Joins of a row that may be on another shard is refused", Run: joinsElsewhere},
		{Name: "children that may be on other shards are not preloaded in part", Run: childrenElsewhere},
		{Name: "many to many within the shard", Run: manyToManyOnShards},
		{Name: "association mode within the shard", Run: associationsOnShards},
		{Name: "associations are saved with their parent, all fields where that is asked for", Run: fullSaveOnShards},
		{Name: "rows that lead to each other have no foreign key in the way", Run: noForeignKeys},
	}
}

// withItems stores a trade with two items and two labels on each shard.
func (s *sharded) withItems() []trade {
	s.Helper()
	made := s.trades(1)
	for i := range made {
		made[i].Items = []tradeItem{{Name: "a"}, {Name: "b"}}
		made[i].Labels = []tradeLabel{{Name: "l"}, {Name: "m"}}
	}
	must(s.T, s.router.Create(s.Context(), made), "Create")
	return made
}

func preloadsBothWays(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		for _, row := range s.withItems() {
			var got trade
			must(s.T, s.on(&trade{}, row.ID).Preload("Items").Take(&got, row.ID).Error, "Preload")
			if len(got.Items) != 2 || got.Items[0].TradeID != row.ID {
				s.Errorf("the items are %v", got.Items)
			}
			must(s.T, s.on(&trade{}, row.ID).Preload("Items").Preload("Labels").First(&got).Error, "Preload of both")
			same(s.T, "labels", len(got.Labels), 2)
			var items []tradeItem
			must(s.T, s.on(&tradeItem{}, row.ID).Preload("Trade").Find(&items).Error, "Preload of the parent")
			for _, item := range items {
				if item.Trade == nil || item.Trade.Code != row.Code {
					s.Errorf("the trade of item %d is %+v", item.ID, item.Trade)
				}
			}
			same(s.T, "items", len(items), 2)
		}
	})
}

func preloadsNested(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		row := s.withItems()[3]
		var got []trade
		must(s.T, s.on(&trade{}, row.ID).Preload("Items.Trade.Labels").Preload("Items", "name = ?", "b").Find(&got).Error, "nested")
		if len(got) != 1 || len(got[0].Items) != 1 || got[0].Items[0].Trade == nil || len(got[0].Items[0].Trade.Labels) != 2 {
			s.Errorf("the rows are %+v", got)
		}
		latest := func(db *gorm.DB) *gorm.DB { return db.Order("id DESC").Limit(1) }
		var one trade
		must(s.T, s.on(&trade{}, row.ID).Preload("Items", latest).Take(&one).Error, "with a function")
		if len(one.Items) != 1 || one.Items[0].Name != "b" {
			s.Errorf("the items are %v", one.Items)
		}
	})
}

func joinsWithinShard(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		for _, row := range s.withItems() {
			db := s.on(&tradeItem{}, row.ID)
			var items []tradeItem
			must(s.T, db.Joins("Trade").Find(&items).Error, "Joins")
			same(s.T, "items", len(items), 2)
			for _, item := range items {
				if item.Trade == nil || item.Trade.ID != row.ID {
					s.Errorf("the trade of item %d is %+v", item.ID, item.Trade)
				}
			}
			must(s.T, db.InnerJoins("Trade", s.dbs[0].Where("1 = 0")).Find(&items).Error, "InnerJoins")
			same(s.T, "items of no trade", len(items), 0)
			must(s.T, db.Joins("Trade").Where(`"Trade"."code" = ?`, row.Code).Or("1 = 0").
				Session(&gorm.Session{DryRun: true}).Find(&items).Error, "a condition on it")
			var n int64
			must(s.T, db.Joins("Trade").Count(&n).Error, "Count")
			same(s.T, "items counted", n, 2)
			name, err := s.router.Table(&tradeItem{}, row.ID)
			must(s.T, err, "Table")
			must(s.T, s.on(&trade{}, row.ID).Joins(fmt.Sprintf("JOIN %s i ON i.trade_id = trades.id", name)).
				Where("i.name = ?", "a").Count(&n).Error, "a join of one's own")
			same(s.T, "trades with an item", n, 1)
		}
	})
}

func preloadElsewhere(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		near := refund{ID: s.id(1), TradeID: made[1].ID}
		far := refund{ID: s.id(1), TradeID: made[2].ID}
		must(s.T, s.router.Create(s.Context(), []refund{near, far}), "Create")
		db := s.on(&refund{}, near.ID)
		wantErr(s.T, db.Preload("Trade").Take(&refund{}, near.ID).Error, snowflakeplugin.ErrCrossShard, "this shard")
		wantErr(s.T, db.Preload("Trade").Take(&refund{}, far.ID).Error, snowflakeplugin.ErrCrossShard, "another shard")
		wantErr(s.T, db.Preload("Trade").Find(&[]refund{}).Error, snowflakeplugin.ErrCrossShard, "one of both")
		wantErr(s.T, db.Model(&far).Association("Trade").Find(&trade{}), snowflakeplugin.ErrCrossShard, "Association")
		with := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Preload("Trade") })
		err := with.Find(s.Context(), &[]refund{}, []snowflakeplugin.ID{near.ID, far.ID})
		if partial := new(snowflakeplugin.PartialError); !errors.As(err, &partial) {
			s.Errorf("Find: %v, want a *PartialError", err)
		}
		wantErr(s.T, err, snowflakeplugin.ErrCrossShard, "Find")
	})
}

func joinsElsewhere(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		far := refund{ID: s.id(1), TradeID: made[2].ID}
		must(s.T, s.router.Create(s.Context(), &far), "Create")
		db := s.on(&refund{}, far.ID)
		for name, tx := range map[string]*gorm.DB{
			"Joins":      db.Joins("Trade"),
			"InnerJoins": db.InnerJoins("Trade"),
			"nested":     db.Joins("Trade.Items"),
		} {
			err := tx.Find(&[]refund{}).Error
			wantErr(s.T, err, snowflakeplugin.ErrCrossShard, name)
			says(s.T, err, "refund", "trade")
			var n int64
			wantErr(s.T, tx.Count(&n).Error, snowflakeplugin.ErrCrossShard, name+", counted")
		}
	})
}

// client has visits on all shards and colocated notes.
type client struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Visits []clientVisit      `gorm:"foreignKey:ClientID"`
	First  *clientVisit       `gorm:"foreignKey:ClientID"`
	Notes  []clientNote       `gorm:"foreignKey:ClientID"`
}

type clientVisit struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	ClientID snowflakeplugin.ID
}

type clientNote struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:ClientID"`
	ClientID snowflakeplugin.ID
	Remarks  []noteRemark `gorm:"foreignKey:NoteID"`
	// AboutID may refer to the note of another client.
	AboutID snowflakeplugin.ID
	About   []noteRemark `gorm:"foreignKey:ClientID;references:ClientID"`
}

// noteRemark is keyed like its note, which is keyed like the client.
type noteRemark struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:NoteID"`
	NoteID   snowflakeplugin.ID
	ClientID snowflakeplugin.ID
}

func childrenElsewhere(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &client{}, &clientVisit{}, &clientNote{}, &noteRemark{})
		c := client{ID: s.id(1), Notes: []clientNote{{Remarks: []noteRemark{{}, {}}}}}
		must(t, s.router.Create(t.Context(), &c), "Create")
		visits := []clientVisit{{ClientID: c.ID}, {ClientID: c.ID}, {ClientID: c.ID}, {ClientID: c.ID}}
		must(t, s.router.Create(t.Context(), visits), "Create")
		db := s.on(&client{}, c.ID)
		for name, err := range map[string]error{
			"Preload":          db.Preload("Visits").Find(&[]client{}).Error,
			"Preload of one":   db.Preload("First").Find(&[]client{}).Error,
			"Joins":            db.Joins("First").Find(&[]client{}).Error,
			"with a condition": db.Preload("Visits", "id > 0").Take(&client{}, c.ID).Error,
			"all associations": db.Preload(clause.Associations).Take(&client{}, c.ID).Error,
		} {
			wantErr(t, err, snowflakeplugin.ErrCrossShard, name)
			says(t, err, "client", "clientVisit")
		}
		var got client
		must(t, db.Preload("Notes.Remarks").Take(&got, c.ID).Error, "Preload")
		if len(got.Notes) != 1 || len(got.Notes[0].Remarks) != 2 {
			t.Errorf("the client is %+v", got)
		}
		var found []clientVisit
		must(t, s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("client_id = ?", c.ID) }).
			Latest(t.Context(), &found, 10), "Latest")
		same(t, "visits on all shards", len(found), 4)
	})
}

func manyToManyOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.withItems()
		for shard := range shards {
			links := fmt.Sprintf("trade_label_links_%02d", shard)
			same(s.T, "rows in "+links, countTable(s.T, s.dbs[shard%len(s.dbs)], links), 2)
		}
		row := made[1]
		db := s.on(&trade{}, row.ID)
		labels := db.Model(&row).Association("Labels")
		same(s.T, "labels", labels.Count(), 2)
		more := tradeLabel{Name: "n"}
		must(s.T, db.Model(&row).Association("Labels").Append(&more), "Append")
		same(s.T, "the shard of the new label", s.shard(more.ID), 1)
		same(s.T, "labels", db.Model(&row).Association("Labels").Count(), 3)
		must(s.T, db.Model(&row).Association("Labels").Delete(&more), "Delete")
		must(s.T, db.Model(&row).Association("Labels").Replace(&more), "Replace")
		var got trade
		must(s.T, db.Preload("Labels").Take(&got, row.ID).Error, "Preload")
		if len(got.Labels) != 1 || got.Labels[0].Name != "n" {
			s.Errorf("the labels are %v", got.Labels)
		}
		stranger := tradeLabel{ID: s.id(2), Name: "o"}
		must(s.T, s.router.Create(s.Context(), &stranger), "Create")
		wantErr(s.T, db.Model(&row).Association("Labels").Append(&stranger), snowflakeplugin.ErrCrossShard, "a label elsewhere")
		var found []tradeLabel
		must(s.T, db.Model(&made[1]).Association("Labels").Find(&found), "Find")
		same(s.T, "labels found", len(found), 1)
		must(s.T, db.Model(&row).Association("Labels").Clear(), "Clear")
		same(s.T, "labels", db.Model(&row).Association("Labels").Count(), 0)
		// The other shards have their own labels.
		rows := []trade{got} // the old content of the slice is not a condition
		must(s.T, s.on(&trade{}, made[2].ID).Preload("Labels").Find(&rows).Error, "Preload elsewhere")
		if len(rows) != 1 || len(rows[0].Labels) != 2 {
			s.Errorf("another trade is %+v", rows)
		}
	})
}

func associationsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		row := s.withItems()[2]
		db := s.on(&trade{}, row.ID)
		must(s.T, db.Model(&row).Association("Items").Append(&tradeItem{Name: "c"}, &tradeItem{Name: "d"}), "Append")
		same(s.T, "items", db.Model(&row).Association("Items").Count(), 4)
		for _, item := range row.Items {
			same(s.T, "the shard of an item", s.shard(item.ID), 2)
		}
		var found []tradeItem
		must(s.T, db.Model(&row).Association("Items").Find(&found, "name >= ?", "c"), "Find")
		same(s.T, "items found", len(found), 2)
		item := found[0]
		var parent trade
		must(s.T, s.on(&tradeItem{}, row.ID).Model(&item).Association("Trade").Find(&parent), "Find of the parent")
		same(s.T, "the parent", parent.ID, row.ID)
		must(s.T, db.Model(&row).Association("Items").Unscoped().Delete(&found), "Delete")
		same(s.T, "items", db.Model(&row).Association("Items").Count(), 2)
		must(s.T, db.Select("Items").Delete(&row).Error, "Delete with associations")
		same(s.T, "items in the table", len(s.table(2, "trade_items")), 0)
	})
}

func fullSaveOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		row := s.withItems()[3]
		db := s.on(&trade{}, row.ID)
		row.Items[0].Name = "changed"
		row.Items = append(row.Items, tradeItem{Name: "new"})
		must(s.T, db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&row).Error, "Updates")
		var names []string
		must(s.T, s.on(&tradeItem{}, row.ID).Order("id").Pluck("name", &names).Error, "Pluck")
		if !slices.Equal(names, []string{"changed", "b", "new"}) {
			s.Errorf("the items are %v", names)
		}
		row.Items = append(row.Items, tradeItem{Name: "left out"})
		must(s.T, db.Omit("Items").Save(&row).Error, "Save without associations")
		same(s.T, "items", len(s.table(3, "trade_items")), 3)
		// A parent is created together with its child.
		item := tradeItem{Name: "first", Trade: &trade{Code: "with the item"}}
		if err := s.on(&tradeItem{}, row.ID).Create(&item).Error; err != nil {
			s.Errorf("create with the parent: %v", err)
		}
		same(s.T, "the shard of the parent", s.shard(item.Trade.ID), 3)
		same(s.T, "the shard of the child", s.shard(item.ID), 3)
	})
}

func noForeignKeys(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		// A parent need not be stored before its child or in the same database.
		row := refund{ID: s.id(1), TradeID: s.id(2)}
		must(s.T, s.router.Create(s.Context(), &row), "Create")
		item := tradeItem{TradeID: s.id(3)}
		must(s.T, s.router.Create(s.Context(), &item), "Create of a child alone")
		err := s.router.Create(s.Context(), &refund{ID: s.id(1), Trade: &trade{ID: s.id(2), Code: "x"}})
		wantErr(s.T, err, snowflakeplugin.ErrCrossShard, "a parent that is given with a child elsewhere")
		if partial := new(snowflakeplugin.PartialError); errors.As(err, &partial) {
			s.Errorf("the error is %v, though nothing was stored", err)
		}
		s.hold("trades", 0)
	})
}
