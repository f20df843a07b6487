package routing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRoutes(t *testing.T) { run(t, shardRouteBehaviors()) }

// shardRouteBehaviors test to which shard statements go and which statements are refused.
func shardRouteBehaviors() []behavior {
	return []behavior{
		{Name: "a row is in the table and the database that its ID says, and nowhere else", Run: rowIsInItsShard},
		{Name: "OR, IN and NOT see every row of the shard", Run: conditionsLoseNothing},
		{Name: "a failed statement with the logger at Info is an error and no panic", Run: failedStatementIsLogged},
		{Name: "reads and writes that were not routed are refused", Run: unroutedIsRefused},
		{Name: "a subquery that was not routed is an error and not an empty list", Run: unroutedSubquery},
		{Name: "a handle for one shard refuses keys of another", Run: keyOfAnotherShard},
		{Name: "a handle for one model refuses another", Run: handleOfAnotherModel},
		{Name: "a handle stays on its shard in every session that is made of it", Run: handleInSessions},
		{Name: "a handle with the context of a handle for another shard is refused", Run: handleWithOtherContext},
		{Name: "a handle may be used again and again", Run: handleIsReusable},
		{Name: "an ID explains where its row is", Run: idExplains},
		{Name: "SQL of the application runs once, even if one of its tables is not there", Run: ownSQLRunsOnce},
	}
}

// The database has done the first statement when it does not find the table of the second one.
func ownSQLRunsOnce(t *testing.T, target dbtest.Target) {
	var options []dbtest.Option
	if target.Dialect == "mysql" {
		options = append(options, dbtest.DSNParam("multiStatements", "true"))
	}
	db := target.Open(t, nil, options...)
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 1, Databases: []*gorm.DB{db}}, &account{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	row := account{Email: "a"}
	must(t, r.Create(t.Context(), &row), "Create")
	must(t, db.Exec("CREATE TABLE visits (n integer)").Error, "a table")
	h, err := r.DB(t.Context(), &account{}, row.ID)
	must(t, err, "DB")
	const both = "INSERT INTO visits VALUES (1); INSERT INTO accounts_09 (id) VALUES (1)"
	for doing, err := range map[string]error{
		"Exec": h.Exec(both).Error, "Raw": h.Raw(both).Scan(&struct{}{}).Error,
	} {
		wantErr(t, err, nil, doing)
	}
	var n int64
	must(t, db.Table("visits").Count(&n).Error, "Count")
	if n > 2 {
		t.Errorf("two calls have stored %d rows", n)
	}
}

func rowIsInItsShard(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(3)
		for shard := range shards {
			var want []snowflakeplugin.ID
			for _, id := range idsOf(made) {
				if int(id%shards) == shard {
					want = append(want, id)
				}
			}
			if got := s.table(shard, "trades"); !slices.Equal(got, want) {
				s.Errorf("shard %d has %v, want %v", shard, got, want)
			}
			for i, db := range s.dbs {
				table := fmt.Sprintf("trades_%02d", shard)
				same(s.T, fmt.Sprintf("table %s in database %d", table, i), db.Migrator().HasTable(table), shard%len(s.dbs) == i)
			}
		}
		if s.dbs[0].Migrator().HasTable("trades") {
			s.Error("there is a table without a number")
		}
		name, err := s.router.Table(trade{}, made[3].ID)
		must(s.T, err, "Table")
		same(s.T, "Table", name, "trades_03")
	})
}

func conditionsLoseNothing(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(6) // customers 0, 1, 2, 0, 1, 2 on each shard
		db := s.on(&trade{}, made[0].ID)
		for name, c := range map[string]struct {
			find func(db *gorm.DB) *gorm.DB
			want int64
		}{
			"OR":         {func(db *gorm.DB) *gorm.DB { return db.Where("customer = ? OR customer = ?", 1, 2) }, 4},
			"Or":         {func(db *gorm.DB) *gorm.DB { return db.Where("customer = ?", 1).Or("customer = ?", 2) }, 4},
			"IN":         {func(db *gorm.DB) *gorm.DB { return db.Where("customer IN ?", []int{0, 1}) }, 4},
			"map of IN":  {func(db *gorm.DB) *gorm.DB { return db.Where(map[string]any{"customer": []int{0, 1}}) }, 4},
			"Not":        {func(db *gorm.DB) *gorm.DB { return db.Not("customer = ?", 1) }, 4},
			"NOT":        {func(db *gorm.DB) *gorm.DB { return db.Where("NOT (customer = ?)", 1) }, 4},
			"key or not": {func(db *gorm.DB) *gorm.DB { return db.Where("id = ? OR customer = 1", made[0].ID) }, 3},
			"struct":     {func(db *gorm.DB) *gorm.DB { return db.Where(&trade{Customer: 2}) }, 2},
			"group": {func(db *gorm.DB) *gorm.DB {
				return db.Where(db.Where("customer = 1").Or("customer = 2")).Where("total >= 0")
			}, 4},
			"range": {func(db *gorm.DB) *gorm.DB { return db.Where("id >= ? AND id <= ?", made[0].ID, made[23].ID) }, 6},
			"none":  {func(db *gorm.DB) *gorm.DB { return db }, 6},
		} {
			var found []trade
			must(s.T, c.find(db).Find(&found).Error, name)
			same(s.T, name, int64(len(found)), c.want)
			var n int64
			must(s.T, c.find(db).Count(&n).Error, name)
			same(s.T, name+", counted", n, c.want)
			for _, one := range found {
				same(s.T, name+": the shard", s.shard(one.ID), s.shard(made[0].ID))
			}
		}
	})
}

func failedStatementIsLogged(t *testing.T, target dbtest.Target) {
	var text bytes.Buffer
	lines := log.New(&text, "", 0) // one for both databases, because its lock guards the text
	loud := func() *gorm.Config {
		return &gorm.Config{Logger: logger.New(lines, logger.Config{LogLevel: logger.Info})}
	}
	s := newSharded(t, []dbtest.Target{target, another(target)}, loud, tradeModels...)
	made := s.filled(1)
	text.Reset()
	db := s.on(&trade{}, made[0].ID)
	for name, err := range map[string]error{
		"UPDATE":        db.Where("no_such_column = 1").Update("total", 1).Error,
		"UPDATE of one": db.Model(&made[0]).Update("no_such_column", 1).Error,
		"SELECT":        db.Where("no_such_column = 1").Find(&[]trade{}).Error,
		"DELETE":        db.Where("no_such_column = 1").Delete(&trade{}).Error,
		"INSERT":        db.Create(&trade{Code: made[0].Code}).Error,
		"Rows":          failedRows(db.Where("no_such_column = 1")),
		"Row":           db.Where("no_such_column = 1").Select("id").Row().Err(),
		"Raw":           db.Raw("SELECT no_such_column FROM trades_00").Scan(&[]trade{}).Error,
		"Exec":          db.Exec("UPDATE trades_00 SET no_such_column = 1").Error,
		"unrouted":      s.dbs[0].Create(&trade{}).Error,
	} {
		wantErr(t, err, nil, name)
	}
	if got := text.String(); !strings.Contains(got, "no_such_column") || !strings.Contains(got, "trades_00") {
		t.Errorf("the log is:\n%s", got)
	}
	quiet := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("no_such_column = 1") })
	s.partial(quiet.Latest(t.Context(), &[]trade{}, 3), "Latest", 0, 1, 2, 3)
	_, err := quiet.Count(t.Context(), &trade{})
	s.partial(err, "Count", 0, 1, 2, 3)
}

func failedRows(db *gorm.DB) error {
	rows, err := db.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	return rows.Err()
}

func unroutedIsRefused(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	// The base table exists, as in a program that began without shards.
	must(t, s.dbs[0].Exec("CREATE TABLE trades AS SELECT * FROM trades_00").Error, "make the base table")
	made, db := s.filled(1), s.dbs[0]
	var rows []trade
	var n int64
	for name, err := range map[string]error{
		"Create":         db.Create(&trade{Code: "x"}).Error,
		"Create of many": db.Create([]trade{{Code: "x"}}).Error,
		"Create of map":  db.Model(&trade{}).Create(map[string]any{"code": "x"}).Error,
		"with a key":     db.Create(&trade{ID: made[0].ID, Code: "x"}).Error,
		"a child":        db.Create(&tradeItem{TradeID: made[0].ID}).Error,
		"in batches":     db.CreateInBatches([]trade{{Code: "x"}}, 1).Error,
		"Save":           db.Save(&made[0]).Error,
		"Update":         db.Model(&made[0]).Update("total", 1).Error,
		"Update of all":  db.Model(&trade{}).Where("1 = 1").Update("total", 1).Error,
		"UpdateColumn":   db.Model(&trade{}).Where("1 = 1").UpdateColumn("total", 1).Error,
		"Delete":         db.Delete(&made[0]).Error,
		"Delete of all":  db.Where("1 = 1").Unscoped().Delete(&trade{}).Error,
		"First":          db.First(&trade{}).Error,
		"Find":           db.Find(&rows).Error,
		"Count":          db.Model(&trade{}).Count(&n).Error,
		"Pluck":          db.Model(&trade{}).Pluck("id", &[]int64{}).Error,
		"Rows":           failedRows(db.Model(&trade{})),
		"FirstOrCreate":  db.FirstOrCreate(&trade{}, trade{Code: "x"}).Error,
		"FindInBatches":  db.FindInBatches(&rows, 2, func(*gorm.DB, int) error { return nil }).Error,
		"the table":      db.Table("trades").Create(&trade{Code: "x"}).Error,
		"the table read": db.Table("trades").Find(&rows).Error,
		"an alias":       db.Table("trades AS t").Find(&rows).Error,
		"an alias of it": db.Table(db.Statement.Quote("trades") + " t").Find(&rows).Error,
		"association":    db.Model(&made[0]).Association("Items").Append(&tradeItem{Name: "x"}),
		"in a transaction": db.Transaction(func(tx *gorm.DB) error {
			return tx.Create(&trade{Code: "x"}).Error
		}),
		"with a context": db.WithContext(context.Background()).Create(&trade{Code: "x"}).Error,
		"generics":       gorm.G[trade](db).Create(t.Context(), &trade{Code: "x"}),
	} {
		wantErr(t, err, snowflakeplugin.ErrNotRouted, name)
		says(t, err, "trade", "_00", "_03")
	}
	same(t, "rows in the base table", countTable(t, db, "trades"), 0)
	s.hold("trades", shards)
	// The router does not check a table that the application names itself.
	var one trade
	must(t, db.Table("trades_01").Take(&one).Error, "a table by its name")
	same(t, "its row", one.ID, made[1].ID)
}

func countTable(t *testing.T, db *gorm.DB, name string) int64 {
	t.Helper()
	var n int64
	must(t, db.Table(name).Count(&n).Error, "count "+name)
	return n
}

func unroutedSubquery(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	made := s.filled(1)
	db := s.on(&trade{}, made[0].ID)
	base := s.dbs[0]
	for name, tx := range map[string]*gorm.DB{
		"IN":     db.Where("id IN (?)", base.Model(&tradeItem{}).Select("trade_id")),
		"NOT IN": db.Where("id NOT IN (?)", base.Model(&tradeItem{}).Select("trade_id")),
		"Not":    db.Not("id IN (?)", base.Model(&tradeItem{}).Select("trade_id")),
		"map":    db.Where(map[string]any{"id": base.Model(&tradeItem{}).Select("trade_id")}),
	} {
		wantErr(t, tx.Find(&[]trade{}).Error, nil, name)
	}
	must(t, s.router.Create(t.Context(), &tradeItem{TradeID: made[0].ID}), "Create")
	var found []trade
	items := s.on(&tradeItem{}, made[0].ID).Select("trade_id")
	must(t, db.Where("id IN (?)", items).Find(&found).Error, "a subquery on the same shard")
	if len(found) != 1 || found[0].ID != made[0].ID {
		t.Errorf("found %v, want the trade with an item", found)
	}
}

func keyOfAnotherShard(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		here, there := made[0], made[1]
		db := s.on(&trade{}, here.ID)
		var one trade
		for name, err := range map[string]error{
			"First":         db.First(&one, there.ID).Error,
			"First, number": db.First(&one, int64(there.ID)).Error,
			"Take, both":    db.Take(&one, []snowflakeplugin.ID{here.ID, there.ID}).Error,
			"Find, struct":  db.Where(&trade{ID: there.ID}).Find(&[]trade{}).Error,
			"Find, map":     db.Where(map[string]any{"id": there.ID}).Find(&[]trade{}).Error,
			"Find by dest":  db.Take(&trade{ID: there.ID}).Error,
			"Create":        db.Create(&trade{ID: there.ID + 1<<12, Code: "x"}).Error,
			"Create of two": db.Create([]trade{{Code: "y"}, {ID: there.ID + 1<<12, Code: "x"}}).Error,
			"Create of map": db.Create(map[string]any{"id": there.ID + 1<<12, "code": "x"}).Error,
			"Save":          db.Save(&there).Error,
			"Updates":       db.Model(&there).Updates(map[string]any{"total": 1}).Error,
			"Updates, dest": db.Updates(&trade{ID: there.ID, Total: 7}).Error,
			"Delete":        db.Delete(&there).Error,
			"Delete by key": db.Delete(&trade{}, there.ID).Error,
			"FirstOrCreate": db.Where(trade{ID: there.ID}).FirstOrCreate(&trade{}).Error,
		} {
			wantErr(s.T, err, snowflakeplugin.ErrCrossShard, name)
		}
		same(s.T, "the first error's row", one.ID, 0)
		s.hold("trades", shards)
		var total int64
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "Total", &total), "Sum")
		same(s.T, "the sum of what was there", total, 0+1+2+3)
	})
}

func handleOfAnotherModel(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	made := s.filled(1)
	db := s.on(&trade{}, made[0].ID)
	for name, err := range map[string]error{
		"Create":         db.Create(&tradeItem{TradeID: made[0].ID}).Error,
		"Create of many": db.Create([]*tradeItem{{TradeID: made[0].ID}}).Error,
		"Find":           db.Find(&[]tradeItem{}).Error,
		"First":          db.First(&tradeItem{}).Error,
		"Save":           db.Save(&tradeItem{TradeID: made[0].ID}).Error,
		"Delete":         db.Delete(&tradeItem{ID: made[0].ID}).Error,
	} {
		wantErr(t, err, snowflakeplugin.ErrNotRouted, name)
		says(t, err, "bound to trade", "tradeItem")
	}
	s.hold("trade_items", 0)
	s.hold("trades", shards)
	var items []tradeItem
	must(t, db.Model(&tradeItem{}).Find(&items).Error, "another Model, on the same shard")
}

func handleInSessions(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(2)
		db := s.on(&trade{}, made[3].ID)
		type key struct{}
		for name, handle := range map[string]*gorm.DB{
			"Session":     db.Session(&gorm.Session{}),
			"NewDB":       db.Session(&gorm.Session{NewDB: true}).Model(&trade{}),
			"PrepareStmt": db.Session(&gorm.Session{PrepareStmt: true}),
			"WithContext": db.WithContext(context.WithValue(context.Background(), key{}, 1)),
			"Debug":       db.Session(&gorm.Session{Logger: logger.New(log.New(io.Discard, "", 0), logger.Config{})}),
			"SkipHooks":   db.Session(&gorm.Session{SkipHooks: true, QueryFields: true}),
			"Unscoped":    db.Unscoped(),
			"Set":         db.Set("own", 1),
		} {
			var ids []snowflakeplugin.ID
			must(s.T, handle.Order("id").Pluck("id", &ids).Error, name)
			if want := []snowflakeplugin.ID{made[3].ID, made[7].ID}; !slices.Equal(ids, want) {
				s.Errorf("%s found %v, want %v", name, ids, want)
			}
		}
		must(s.T, db.Transaction(func(tx *gorm.DB) error {
			row := trade{Code: "in a transaction"}
			must(s.T, tx.Create(&row).Error, "Create")
			same(s.T, "the shard of the row", s.shard(row.ID), 3)
			return tx.Transaction(func(tx *gorm.DB) error {
				return tx.Create(&trade{Code: "nested"}).Error
			})
		}), "Transaction")
		same(s.T, "rows on the shard", len(s.table(3, "trades")), 4)
		got, err := gorm.G[trade](db).Where("code = ?", "nested").First(s.Context())
		must(s.T, err, "generics")
		same(s.T, "the shard of what generics read", s.shard(got.ID), 3)
	})
}

// A context that came from another handle, as it does in a hook, must not lead to that handle's shard.
func handleWithOtherContext(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(2)
		here, there := made[0], made[1]
		ctx := s.on(&trade{}, there.ID).Statement.Context
		mixed := func() *gorm.DB {
			return s.on(&trade{}, here.ID).WithContext(ctx) //nolint:contextcheck // that of another handle is the point
		}
		var rows []trade
		var n int64
		row := trade{ID: s.id(s.shard(here.ID)), Code: "mixed"}
		for what, err := range map[string]error{
			"Find":     mixed().Find(&rows).Error,
			"Count":    mixed().Count(&n).Error,
			"Create":   mixed().Create(&row).Error,
			"Update":   mixed().Where("id = ?", here.ID).Update("total", 99).Error,
			"Delete":   mixed().Where("id = ?", here.ID).Delete(&trade{}).Error,
			"generics": gorm.G[trade](s.on(&trade{}, here.ID)).Create(ctx, &trade{Code: "mixed"}),
			"in a transaction of the other shard": s.router.Transaction(s.Context(), there.ID,
				func(tx *snowflakeplugin.ShardTx) error {
					return s.on(&trade{}, here.ID).WithContext(tx.Context()).Find(&rows).Error
				}),
		} {
			wantErr(s.T, err, snowflakeplugin.ErrCrossShard, what)
			says(s.T, err, "context")
		}
		s.hold("trades", len(made))
		same(s.T, "the same shard", mixed().WithContext(s.on(&trade{}, here.ID).Statement.Context).
			First(&trade{}, here.ID).Error, nil)
	})
}

func handleIsReusable(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	made := s.filled(2)
	db := s.on(&trade{}, made[1].ID)
	for range 3 {
		var rows []trade
		must(t, db.Where("code = ?", "1-1").Find(&rows).Error, "a condition")
		same(t, "rows", len(rows), 1)
		must(t, db.Find(&rows).Error, "no condition")
		same(t, "rows", len(rows), 2)
		wantErr(t, db.First(&trade{}, made[0].ID).Error, snowflakeplugin.ErrCrossShard, "an error")
	}
	// A struct is a condition here, as everywhere in GORM.
	mine := s.on(&made[1], made[1].ID)
	must(t, mine.Update("total", 77).Error, "update through the row")
	var totals []int64
	must(t, db.Order("id").Pluck("total", &totals).Error, "Pluck")
	if !slices.Equal(totals, []int64{77, 11}) {
		t.Errorf("the totals are %v", totals)
	}
}

func idExplains(t *testing.T, target dbtest.Target) {
	s := twoKinds(t, target)
	id := s.id(3)
	said, err := s.router.Explain(id)
	must(t, err, "Explain")
	made, err := id.Time(generator.Default())
	must(t, err, "Time")
	says(t, errors.New(said), id.String(), "shard 3", "database 1 ("+another(target).Dialect+")", "on node 1",
		"table trades_03 or trade_items_03 or trade_labels_03 or refunds_03", made.Format("2006-01-02T15:04:05"))
}
