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

func TestHandles(t *testing.T) { run(t, shardGormBehaviors()) }

// shardGormBehaviors test that a handle of the router works like an ordinary handle.
func shardGormBehaviors() []behavior {
	return []behavior{
		{Name: "hooks run, and what they create through their handle is colocated", Run: hooksOnShards},
		{Name: "a hook that fails undoes the rows of all shards", Run: failingHookOnShards},
		{Name: "AfterFind runs, and reads through its handle", Run: afterFindOnShards},
		{Name: "scopes, soft delete and Unscoped", Run: scopesOnShards},
		{Name: "FirstOrCreate, FirstOrInit and Assign", Run: firstOrCreateOnShards},
		{Name: "FindInBatches walks the shard", Run: batchesOnShards},
		{Name: "Count, Pluck, Rows, Row, Scan, Distinct and Group", Run: readsOnShards},
		{Name: "SQL of one's own goes to the database of the shard", Run: rawOnShards},
		{Name: "DryRun and ToSQL name the table of the shard", Run: dryRunOnShards},
		{Name: "gorm.G, and sessions with a context of their own", Run: genericsOnShards},
		{Name: "a table that is a subquery within the shard, as LimitPerRecord of gorm.G makes one", Run: tablesOfSubqueries},
	}
}

// logged is a row with hooks that write and read other rows.
type logged struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name    string             `gorm:"size:40"`
	Entries []logEntry         `gorm:"foreignKey:LoggedID"`
	Seen    int64              `gorm:"-"`
}

type logEntry struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:LoggedID"`
	LoggedID snowflakeplugin.ID
	Text     string `gorm:"size:40"`
}

var errHook = errors.New("the hook says no")

func (l *logged) BeforeCreate(tx *gorm.DB) error {
	if l.Name == "bad" {
		return errHook
	}
	return tx.Create(&logEntry{LoggedID: l.ID, Text: "before"}).Error
}

func (l *logged) AfterCreate(tx *gorm.DB) error {
	if l.Name == "too bad" {
		return errHook
	}
	return tx.Create([]logEntry{{LoggedID: l.ID, Text: "after"}, {LoggedID: l.ID, Text: "after"}}).Error
}

func (l *logged) BeforeUpdate(tx *gorm.DB) error {
	return tx.Session(&gorm.Session{NewDB: true}).Create(&logEntry{LoggedID: l.ID, Text: "update"}).Error
}

func (l *logged) AfterFind(tx *gorm.DB) error {
	return tx.Model(&logEntry{}).Where("logged_id = ?", l.ID).Count(&l.Seen).Error
}

// eachLogged is eachSpread with a router for logged rows.
func eachLogged(t *testing.T, target dbtest.Target, fn func(s *sharded)) {
	t.Helper()
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		fn(newSharded(t, targets, nil, &logged{}, &logEntry{}))
	})
}

func hooksOnShards(t *testing.T, target dbtest.Target) {
	eachLogged(t, target, func(s *sharded) {
		rows := make([]logged, 8)
		must(s.T, s.router.Create(s.Context(), rows), "Create")
		s.hold("loggeds", 8)
		s.hold("log_entries", 24)
		for _, row := range rows {
			var entries []logEntry
			db := s.on(&logEntry{}, row.ID)
			must(s.T, db.Where("logged_id = ?", row.ID).Order("id").Find(&entries).Error, "read")
			if len(entries) != 3 || entries[0].Text != "before" || entries[2].Text != "after" {
				s.Errorf("row %d has the entries %v", row.ID, entries)
			}
			for _, e := range entries {
				same(s.T, "the shard of an entry", s.shard(e.ID), s.shard(row.ID))
			}
		}
		one := logged{Name: "one"}
		db := s.on(&logged{}, rows[2].ID)
		must(s.T, db.Create(&one).Error, "Create by a handle")
		same(s.T, "its shard", s.shard(one.ID), s.shard(rows[2].ID))
		must(s.T, db.Model(&one).Update("name", "changed").Error, "Update")
		s.hold("log_entries", 28)
		must(s.T, s.router.Transaction(s.Context(), one.ID, func(tx *snowflakeplugin.ShardTx) error {
			return tx.Create(&logged{Name: "in a transaction"})
		}), "Transaction")
		s.hold("log_entries", 31)
	})
}

func failingHookOnShards(t *testing.T, target dbtest.Target) {
	eachLogged(t, target, func(s *sharded) {
		for _, name := range []string{"bad", "too bad"} {
			for shard := range shards {
				var rows []logged
				for i := range shards {
					rows = append(rows, logged{ID: s.id(i)})
				}
				rows[shard].Name = name
				err := s.router.Create(s.Context(), rows)
				wantErr(s.T, err, errHook, name)
				says(s.T, err, fmt.Sprintf("shard %d", shard))
			}
		}
		s.hold("loggeds", 0)
		s.hold("log_entries", 0)
	})
}

func afterFindOnShards(t *testing.T, target dbtest.Target) {
	eachLogged(t, target, func(s *sharded) {
		rows := make([]logged, 8)
		must(s.T, s.router.Create(s.Context(), rows), "Create")
		var ids []snowflakeplugin.ID
		for _, row := range rows {
			ids = append(ids, row.ID)
			var got logged
			must(s.T, s.on(&logged{}, row.ID).Take(&got, row.ID).Error, "Take")
			same(s.T, "what AfterFind has seen", got.Seen, 3)
		}
		var found []logged
		must(s.T, s.router.Find(s.Context(), &found, ids), "Find")
		for _, row := range found {
			same(s.T, "what AfterFind has seen under Find", row.Seen, 3)
		}
		// A page is one statement over all shards, so the handle of its AfterFind belongs to no
		// shard. A hook that needs a shard gets an error.
		err := s.router.Latest(s.Context(), &found, 3)
		wantErr(s.T, err, snowflakeplugin.ErrNotRouted, "Latest")
		same(s.T, "rows of a page that failed", len(found), 0)
	})
}

func scopesOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(6)
		db := s.on(&trade{}, made[1].ID)
		rich := func(db *gorm.DB) *gorm.DB { return db.Where("total > ?", 25) }
		of := func(customer int64) func(*gorm.DB) *gorm.DB {
			return func(db *gorm.DB) *gorm.DB { return db.Where("customer = ?", customer) }
		}
		var found []trade
		must(s.T, db.Scopes(rich, of(1)).Find(&found).Error, "Scopes")
		same(s.T, "rows", len(found), 1)

		must(s.T, db.Scopes(of(1)).Delete(&trade{}).Error, "Delete")
		must(s.T, db.Find(&found).Error, "Find")
		same(s.T, "rows after the delete", len(found), 4)
		must(s.T, db.Unscoped().Find(&found).Error, "Find, Unscoped")
		same(s.T, "rows, the deleted with them", len(found), 6)
		must(s.T, db.Where("customer = 1").Or("customer = 2").Find(&found).Error, "OR and the soft delete")
		same(s.T, "rows with OR", len(found), 2)
		must(s.T, db.Unscoped().Where("customer = 1").Update("deleted_at", nil).Error, "restore")
		must(s.T, db.Find(&found).Error, "Find")
		same(s.T, "rows after they were restored", len(found), 6)
		must(s.T, db.Unscoped().Scopes(of(1)).Delete(&trade{}).Error, "Delete for good")
		must(s.T, db.Unscoped().Find(&found).Error, "Find")
		same(s.T, "rows after they were deleted for good", len(found), 4)
		s.hold("trades", 6*shards-2)
		wantErr(s.T, db.Delete(&trade{}).Error, gorm.ErrMissingWhereClause, "Delete of everything")
		wantErr(s.T, db.Update("total", 0).Error, gorm.ErrMissingWhereClause, "Update of everything")
	})
}

func firstOrCreateOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		db := s.on(&trade{}, made[2].ID)
		var got trade
		tx := db.Where(trade{Code: made[2].Code}).FirstOrCreate(&got)
		must(s.T, tx.Error, "FirstOrCreate")
		same(s.T, "the row that was there", got.ID, made[2].ID)
		same(s.T, "rows affected", tx.RowsAffected, 0)
		var fresh trade
		tx = db.Where(trade{Code: "fresh"}).Attrs(trade{Customer: 3}).Assign(trade{Total: 9}).FirstOrCreate(&fresh)
		must(s.T, tx.Error, "FirstOrCreate")
		same(s.T, "the shard of the new row", s.shard(fresh.ID), 2)
		same(s.T, "rows affected", tx.RowsAffected, 1)
		var again trade
		must(s.T, db.Where(trade{Code: "fresh"}).Assign(trade{Total: 10}).FirstOrCreate(&again).Error, "FirstOrCreate")
		if again.ID != fresh.ID || again.Customer != 3 || again.Total != 10 {
			s.Errorf("the row is %+v", again)
		}
		var made2 trade
		must(s.T, db.Where(trade{Code: "nobody"}).FirstOrInit(&made2).Error, "FirstOrInit")
		if made2.ID != 0 || made2.Code != "nobody" {
			s.Errorf("FirstOrInit gives %+v", made2)
		}
		// A row on another shard is invisible here, and its key must not be used for a second row.
		wantErr(s.T, db.Where(trade{ID: made[1].ID}).FirstOrCreate(&trade{}).Error, snowflakeplugin.ErrCrossShard, "another")
		s.hold("trades", shards+1)
	})
}

func batchesOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(7)
		var seen []snowflakeplugin.ID
		var rows []trade
		tx := s.on(&trade{}, made[3].ID).Where("total >= 0").FindInBatches(&rows, 3, func(tx *gorm.DB, batch int) error {
			seen = append(seen, idsOf(rows)...)
			for i := range rows {
				rows[i].Total = int64(100 * batch)
			}
			return tx.Save(&rows).Error
		})
		must(s.T, tx.Error, "FindInBatches")
		same(s.T, "rows affected", tx.RowsAffected, 7)
		if !slices.Equal(seen, s.table(3, "trades")) {
			s.Errorf("the batches had %v", seen)
		}
		var total int64
		saved := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("total >= 100") })
		must(s.T, sumOver(s.Context(), saved, &trade{}, "Total", &total), "a sum")
		same(s.T, "the sum of what was saved", total, 3*100+3*200+300)
	})
}

func readsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(6) // on shard 2: totals 2, 12, 22, 32, 42, 52 of customers 0, 1, 2, 0, 1, 2
		db := s.on(&trade{}, made[2].ID)
		var n int64
		must(s.T, db.Distinct("customer").Count(&n).Error, "Distinct")
		same(s.T, "customers", n, 3)
		var totals []int64
		must(s.T, db.Where("customer = 2").Order("total DESC").Pluck("total", &totals).Error, "Pluck")
		if !slices.Equal(totals, []int64{52, 22}) {
			s.Errorf("Pluck found %v", totals)
		}
		rows, err := db.Select("id", "total").Where("customer = 1").Order("id").Rows()
		must(s.T, err, "Rows")
		defer rows.Close()
		var sum int64
		for rows.Next() {
			var one trade
			must(s.T, db.ScanRows(rows, &one), "ScanRows")
			same(s.T, "the shard", s.shard(one.ID), 2)
			sum += one.Total
		}
		must(s.T, rows.Err(), "Rows")
		same(s.T, "the sum", sum, 12+42)
		must(s.T, db.Select("sum(total)").Row().Scan(&sum), "Row")
		same(s.T, "the sum", sum, 2+12+22+32+42+52)
		var perCustomer []struct{ Customer, Total int64 }
		must(s.T, db.Select("customer, sum(total) AS total").Group("customer").Having("sum(total) > ?", 50).
			Order("customer").Scan(&perCustomer).Error, "Group")
		if len(perCustomer) != 2 || perCustomer[0].Total != 12+42 || perCustomer[1].Total != 22+52 {
			s.Errorf("by customer: %v", perCustomer)
		}
		var maps []map[string]any
		must(s.T, db.Where("customer = 0").Find(&maps).Error, "Find into maps")
		same(s.T, "maps", len(maps), 2)
		var brief []struct {
			ID   snowflakeplugin.ID
			Code string
		}
		must(s.T, db.Where("customer = 0").Order("id").Find(&brief).Error, "Find into another struct")
		if len(brief) != 2 || brief[0].Code != "2-0" {
			s.Errorf("the brief rows are %v", brief)
		}
		var last trade
		must(s.T, db.Last(&last).Error, "Last")
		same(s.T, "the last row", last.Total, 52)
		must(s.T, db.Clauses(clause.Locking{Strength: "UPDATE"}).First(&trade{}, made[2].ID).Error, "locked")
		wantErr(s.T, db.First(&trade{}, s.id(2)).Error, gorm.ErrRecordNotFound, "a row that is not there")
	})
}

func rawOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(2)
		for _, row := range made {
			name, err := s.router.Table(&trade{}, row.ID)
			must(s.T, err, "Table")
			db := s.on(&trade{}, row.ID)
			var got trade
			must(s.T, db.Raw("SELECT * FROM "+name+" WHERE id = ?", row.ID).Scan(&got).Error, "Raw")
			same(s.T, "the row", got.Code, row.Code)
			must(s.T, db.Exec("UPDATE "+name+" SET total = ? WHERE id = ?", 7, row.ID).Error, "Exec")
		}
		var total int64
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "total", &total), "Sum")
		same(s.T, "the sum", total, int64(7*len(made)))
	})
}

func dryRunOnShards(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	db := s.on(&trade{}, s.id(3))
	for name, build := range map[string]func(tx *gorm.DB) *gorm.DB{
		"Find":   func(tx *gorm.DB) *gorm.DB { return tx.Find(&[]trade{}) },
		"Create": func(tx *gorm.DB) *gorm.DB { return tx.Create(&trade{Code: "x"}) },
		"Update": func(tx *gorm.DB) *gorm.DB { return tx.Where("total = 1").Update("total", 2) },
		"Delete": func(tx *gorm.DB) *gorm.DB { return tx.Where("total = 1").Delete(&trade{}) },
	} {
		dry := build(db.Session(&gorm.Session{DryRun: true}))
		must(t, dry.Error, name)
		says(t, errors.New(dry.Statement.SQL.String()), "trades_03")
		says(t, errors.New(db.ToSQL(func(tx *gorm.DB) *gorm.DB { return build(tx.Model(&trade{})) })), "trades_03")
	}
	s.hold("trades", 0)

	db = target.Open(t, &gorm.Config{DryRun: true}) // as in a test that only looks at statements
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: s.router.Shards(), Databases: []*gorm.DB{db}}, tradeModels...)
	must(t, err, "NewRouter")
	db, err = router.DB(t.Context(), &trade{}, s.id(3))
	must(t, err, "DB")
	dry := db.Create(&trade{Code: "x"})
	must(t, dry.Error, "Create")
	says(t, errors.New(dry.Statement.SQL.String()), "trades_03")
}

// A handle keeps its shard for every context of a statement.
func genericsOnShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		ctx := s.Context()
		made := s.filled(6)
		db := s.on(&trade{}, made[1].ID)
		got, err := gorm.G[trade](db).Where("id = ?", made[1].ID).First(ctx)
		must(s.T, err, "First")
		same(s.T, "what was read", got.Code, made[1].Code)
		rows, err := gorm.G[trade](db).Where("id = ?", made[1].ID).Update(ctx, "code", "new")
		must(s.T, err, "Update")
		same(s.T, "rows that were updated", rows, 1)
		row := trade{Code: "more"}
		must(s.T, gorm.G[trade](db).Create(ctx, &row), "Create")
		shard, err := s.router.Shard(row.ID)
		must(s.T, err, "Shard")
		want, err := s.router.Shard(made[1].ID)
		must(s.T, err, "Shard")
		same(s.T, "the shard of a new row", shard, want)

		fresh := db.Session(&gorm.Session{NewDB: true, Context: ctx})
		must(s.T, fresh.Take(&got, made[1].ID).Error, "Take in a new session")
		same(s.T, "what was read then", got.Code, "new")
		wantErr(s.T, fresh.Take(&trade{}, made[2].ID).Error, snowflakeplugin.ErrCrossShard, "a row of another shard")

		must(s.T, s.router.Transaction(ctx, made[2].ID, func(tx *snowflakeplugin.ShardTx) error {
			_, err := gorm.G[trade](tx.Gorm()).Where("id = ?", made[2].ID).Update(ctx, "code", "newer")
			return err
		}), "Transaction")
		var last trade
		must(s.T, s.on(&trade{}, made[2].ID).Take(&last, made[2].ID).Error, "Take")
		same(s.T, "what was read in the end", last.Code, "newer")
	})
}

func tablesOfSubqueries(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.withItems()
		db := s.on(&trade{}, made[1].ID)
		var rows []trade
		for _, table := range []string{"(?) t", "(?) AS t"} {
			whole := s.on(&trade{}, made[1].ID).Model(&trade{}).Where("code = ?", made[1].Code)
			must(s.T, db.Unscoped().Table(table, whole).Preload("Items").Find(&rows).Error, table)
			if len(rows) != 1 || rows[0].ID != made[1].ID || len(rows[0].Items) != 2 {
				s.Errorf("%s has the rows %v", table, rows)
			}
			unrouted := s.dbs[1%len(s.dbs)].Model(&trade{}).Where("code = ?", made[1].Code)
			wantErr(s.T, db.Unscoped().Table(table, unrouted).Find(&rows).Error, nil, table+" without a route")
		}
		for _, table := range []string{"(?) t JOIN trades o ON o.id = t.id", "(?), trades", "(?),trades"} {
			whole := s.on(&trade{}, made[1].ID).Model(&trade{})
			wantErr(s.T, db.Unscoped().Table(table, whole).Find(&rows).Error, snowflakeplugin.ErrNotRouted, table)
		}
		own := gorm.Expr("SELECT * FROM trades")
		wantErr(s.T, db.Unscoped().Table("(?) t", own).Find(&rows).Error, snowflakeplugin.ErrNotRouted, "SQL of one's own")
		rows, err := gorm.G[trade](db).Preload("Items", func(items gorm.PreloadBuilder) error {
			items.LimitPerRecord(1).Order("name DESC")
			return nil
		}).Find(s.Context())
		must(s.T, err, "Preload")
		if len(rows) != 1 || len(rows[0].Items) != 1 || rows[0].Items[0].Name != "b" {
			s.Errorf("the last item of each row is in %v", rows)
		}
	})
}
