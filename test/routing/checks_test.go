package routing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

func TestConstraints(t *testing.T) { run(t, constraintBehaviors()) }

// constraintBehaviors test that the database itself refuses a row that nobody would find.
func constraintBehaviors() []behavior {
	return []behavior{
		{Name: "SQL without the router cannot store a row in the table of another shard", Run: plainSQLIsRefused},
		{Name: "no way of GORM moves a row to another shard", Run: gormCannotMoveRows},
		{Name: "a number of shards that is no power of two is masked", Run: maskedConstraints},
		{Name: "a column may have a check of the model beside that of the shard", Run: checksOfTheModel},
		{Name: "AutoMigrate may run again, and keeps the constraints when it changes a column", Run: migratesAgain},
		{Name: "tables from before have no constraint, and Check says how to add it", Run: tablesFromBefore},
		{Name: "rows that another tool has spread are refused, and not overlooked", Run: rowsOfAnotherTool},
		{Name: "tables of another number of shards are refused by their constraints", Run: tablesOfAnotherNumber},
		{Name: "rows without a parent may stay so", Run: rowsWithoutParent},
	}
}

// refusedByDatabase fails the test unless a constraint refused the statement.
func refusedByDatabase(t *testing.T, err error, doing string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", doing)
		return
	}
	// SQLite and MariaDB say CONSTRAINT, PostgreSQL and MySQL say check constraint.
	if text := strings.ToLower(err.Error()); !strings.Contains(text, "constraint") || !strings.Contains(text, "_shard_") {
		t.Errorf("%s: %v, want the constraint of the shard", doing, err)
	}
}

func plainSQLIsRefused(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		mine, other, parent := s.id(1), s.id(2), s.id(1)
		must(s.T, s.router.Create(s.Context(), &trade{ID: parent, Code: "x"}), "Create")
		must(s.T, s.router.Create(s.Context(), &tradeItem{ID: mine, TradeID: parent}), "Create")
		db := s.dbs[1%len(s.dbs)]
		q := func(name string) string { return db.Statement.Quote(name) }
		for doing, statement := range map[string]string{
			"INSERT of another shard's key": fmt.Sprintf("INSERT INTO %s (id, code) VALUES (%d, 'y')", q("trades_01"), other),
			"INSERT of zero":                fmt.Sprintf("INSERT INTO %s (id, code) VALUES (0, 'y')", q("trades_01")),
			"INSERT of a negative key":      fmt.Sprintf("INSERT INTO %s (id, code) VALUES (-3, 'y')", q("trades_01")),
			"UPDATE of the key":             fmt.Sprintf("UPDATE %s SET id = %d", q("trades_01"), other),
			"INSERT of a child elsewhere":   fmt.Sprintf("INSERT INTO %s (id, trade_id) VALUES (%d, %d)", q("trade_items_01"), s.id(1), other),
			"UPDATE of the parent":          fmt.Sprintf("UPDATE %s SET trade_id = %d", q("trade_items_01"), other),
			"UPDATE to a negative parent":   fmt.Sprintf("UPDATE %s SET trade_id = -3", q("trade_items_01")),
			"INSERT of a link": fmt.Sprintf("INSERT INTO %s (trade_id, trade_label_id) VALUES (%d, %d)",
				q("trade_label_links_01"), parent, other),
		} {
			refusedByDatabase(s.T, db.Session(&gorm.Session{NewDB: true}).Exec(statement).Error, doing)
		}
		s.hold("trades", 1)
	})
}

func gormCannotMoveRows(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		row := trade{ID: s.id(1), Code: "x", Items: []tradeItem{{Name: "a"}}}
		must(s.T, s.router.Create(s.Context(), &row), "Create")
		item, other := row.Items[0], s.id(2)
		// GORM writes new values into a model, even if the statement fails.
		key, its := func() *trade { return &trade{ID: row.ID} }, func() *tradeItem { return &tradeItem{ID: item.ID} }
		changed := item
		changed.TradeID = other
		renamed := row
		renamed.ID, renamed.Items = other, nil
		orders, items := s.on(&trade{}, row.ID), s.on(&tradeItem{}, row.ID)
		type values = map[string]any
		for doing, err := range map[string]error{
			"Update of the key":               orders.Where("code = ?", "x").Update("id", other).Error,
			"Update of the key by its field":  orders.Where("code = ?", "x").Update("ID", other).Error,
			"Update of a row's key":           orders.Model(key()).Update("id", other).Error,
			"UpdateColumn of the key":         orders.Model(key()).UpdateColumn("id", other).Error,
			"Updates by a map":                orders.Model(key()).Updates(values{"id": other, "code": "y"}).Error,
			"Updates by a row":                orders.Where("code = ?", "x").Select("*").Updates(&renamed).Error,
			"Save of a row of another shard":  orders.Save(&renamed).Error,
			"Update of the parent":            items.Where("name = ?", "a").Update("trade_id", other).Error,
			"Update of the parent by a map":   items.Model(its()).Updates(values{"TradeID": other}).Error,
			"Update of the parent by a row":   items.Model(its()).Updates(tradeItem{TradeID: other}).Error,
			"UpdateColumns of the parent":     items.Model(its()).UpdateColumns(values{"trade_id": other}).Error,
			"Save with another parent":        items.Save(&changed).Error,
			"Create with another parent":      items.Create(&tradeItem{ID: s.id(1), TradeID: other}).Error,
			"an upsert that sets the parent":  items.Clauses(setOnConflict("trade_id", other)).Create(&tradeItem{ID: item.ID, TradeID: row.ID}).Error,
			"an upsert that sets the key":     orders.Clauses(setOnConflict("id", other)).Create(&trade{ID: row.ID, Code: "z"}).Error,
			"an expression":                   orders.Where("code = ?", "x").Update("id", gorm.Expr("id + ?", 1)).Error,
			"an expression for the parent":    items.Where("name = ?", "a").Update("trade_id", gorm.Expr("trade_id + 1")).Error,
			"a key of zero":                   orders.Where("code = ?", "x").Update("id", 0).Error,
			"a negative key":                  orders.Where("code = ?", "x").Update("id", -7).Error,
			"FirstOrCreate with another key":  orders.Where(values{"code": "new"}).Attrs(values{"id": other}).FirstOrCreate(&trade{}).Error,
			"CreateInBatches with other keys": orders.CreateInBatches([]trade{{ID: other, Code: "n"}}, 1).Error,
		} {
			if err == nil {
				s.Errorf("%s: no error", doing)
			}
		}
		same(s.T, "trades on the shard", fmt.Sprint(s.table(1, "trades")), fmt.Sprint([]snowflakeplugin.ID{row.ID}))
		parent := suite.PlainOne[int64](s.T, s.dbs[1%len(s.dbs)], "SELECT trade_id FROM trade_items_01")
		same(s.T, "the parent of the item", snowflakeplugin.ID(parent), row.ID)
		s.hold("trades", 1)
		s.hold("trade_items", 1)
	})
}

func setOnConflict(column string, value any) clause.OnConflict {
	return clause.OnConflict{
		Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{column: value}),
	}
}

func maskedConstraints(t *testing.T, target dbtest.Target) {
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), snowflakeplugin.WithShards(3))
	db := target.Open(t, nil)
	must(t, db.Use(plugin), "Use")
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: 3, Databases: []*gorm.DB{db},
	}, &bookcase{}, &caseBook{})
	must(t, err, "NewRouter")
	must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
	rows := make([]bookcase, 48)
	for i := range rows {
		rows[i].Books = []caseBook{{}}
	}
	must(t, router.Create(t.Context(), rows), "Create")
	n, err := router.Count(t.Context(), &caseBook{})
	must(t, err, "Count")
	same(t, "books", n, 48)
	// 4096 is on shard 0 by the mask, and on 1 by the plain remainder.
	plain := db.Session(&gorm.Session{NewDB: true})
	insert := func(table string) error {
		return plain.Exec("INSERT INTO " + table + " (id, name) VALUES (4096, 'm')").Error
	}
	must(t, insert("bookcases_00"), "INSERT of the masked shard")
	refusedByDatabase(t, insert("bookcases_01"), "INSERT of the plain one")
}

// priced has checks of its own on the columns that the router checks.
type priced struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey;check:chk_priced_id,id <> 5" snowflake:"like:ListID"`
	ListID snowflakeplugin.ID `gorm:"check:list_id <> 9"`
	Price  int64              `gorm:"check:chk_priced_price,price >= 0"`
}

func checksOfTheModel(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target}, nil, &priced{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate again")
	list := s.id(1)
	row := priced{ListID: list, Price: 3}
	must(t, s.router.Create(t.Context(), &row), "Create")
	wantErr(t, s.on(&priced{}, list).Model(&row).Update("price", -1).Error, nil, "the check of the model")
	plain := s.dbs[0].Session(&gorm.Session{NewDB: true})
	wantErr(t, plain.Exec("INSERT INTO priceds_01 (id, list_id, price) VALUES (5, 1, 1)").Error, nil, "the model's check of the key")
	wantErr(t, plain.Exec("INSERT INTO priceds_01 (id, list_id, price) VALUES (1, 9, 1)").Error, nil, "the model's check of the list")
	refusedByDatabase(t, plain.Exec("INSERT INTO priceds_01 (id, list_id, price) VALUES (2, 1, 1)").Error, "another key")
	refusedByDatabase(t, plain.Exec("INSERT INTO priceds_01 (id, list_id, price) VALUES (1, 2, 1)").Error, "another list")
}

func migratesAgain(t *testing.T, target dbtest.Target) {
	dsn, plugin := target.DSN(t), snowflakeplugin.New(snowflakeplugin.WithNode(1))
	s := routerAt(t, target, dsn, plugin, &narrowNote{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	must(t, s.router.Create(t.Context(), &narrowNote{ID: s.id(1), Text: "a"}), "Create")
	// A new version of the program has another model. GORM rebuilds tables for that on SQLite.
	next := routerAt(t, target, dsn, plugin, &wideNote{})
	for range 2 {
		must(t, next.router.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, next.router.Check(t.Context()), "Check")
	}
	db := s.dbs[0].Session(&gorm.Session{NewDB: true})
	must(t, db.Table("notes_01").Migrator().AlterColumn(&wideNote{}, "Text"), "AlterColumn")
	must(t, next.router.Check(t.Context()), "Check")
	refusedByDatabase(t, db.Exec("INSERT INTO notes_01 (id, text) VALUES (2, 'b')").Error, "after the change")
	must(t, db.Exec("INSERT INTO notes_01 (id, text) VALUES (1, 'b')").Error, "INSERT")
}

// routerAt returns a router on a database that others use as well. It does not create the tables.
func routerAt(
	t *testing.T, target dbtest.Target, dsn string, plugin *snowflakeplugin.Plugin, models ...any,
) *sharded {
	t.Helper()
	s, err := tryRouterAt(t, target, dsn, plugin, shards, models...)
	must(t, err, "NewRouter")
	return s
}

// tryRouterAt is routerAt for a program that may be refused.
func tryRouterAt(
	t *testing.T, target dbtest.Target, dsn string, plugin *snowflakeplugin.Plugin, n int, models ...any,
) (s *sharded, err error) {
	t.Helper()
	s = &sharded{T: t, plugin: plugin, dbs: []*gorm.DB{target.OpenDSN(t, dsn, nil)}}
	must(t, s.dbs[0].Use(plugin), "Use")
	s.router, err = snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: n, Databases: s.dbs}, models...)
	return s, err
}

// narrowNote and wideNote are two versions of a model.
type narrowNote struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text string             `gorm:"size:20"`
}

func (narrowNote) TableName() string { return "notes" }

type wideNote struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text string             `gorm:"size:200"`
	More *int64
}

func (wideNote) TableName() string { return "notes" }

func tablesFromBefore(t *testing.T, target dbtest.Target) {
	s := newShardedOf(t, []dbtest.Target{target}, nil, shards, &tradeItem{})
	db := s.dbs[0].Session(&gorm.Session{NewDB: true})
	for shard := range shards {
		q := db.Statement.Quote
		must(t, db.Exec(fmt.Sprintf("CREATE TABLE %s (%s bigint PRIMARY KEY, %s bigint, %s varchar(40))",
			q(fmt.Sprintf("trade_items_%02d", shard)), q("id"), q("trade_id"), q("name"))).Error, "CREATE TABLE")
	}
	must(t, db.Exec("INSERT INTO trade_items_02 VALUES (2, 2, 'a')").Error, "INSERT")
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	// An empty table gets the constraints at once, and a table with rows on PostgreSQL.
	refusedByDatabase(t, db.Exec("INSERT INTO trade_items_01 VALUES (2, 1, 'a')").Error, "in an empty table")
	err := s.router.Check(t.Context())
	found := drifts(err)
	if len(found) != 2 {
		t.Fatalf("Check: %v, want the two constraints of trade_items_02", err)
	}
	if target.Dialect == "postgres" {
		refusedByDatabase(t, db.Exec("INSERT INTO trade_items_02 VALUES (3, 2, 'a')").Error, "in a table with rows")
	}
	for _, d := range found {
		table, what, _ := strings.Cut(d, ": ")
		same(t, "the table", table, "trade_items_02")
		if target.Dialect == "sqlite" {
			says(t, err, "rebuild the table with CONSTRAINT")
			continue
		}
		_, statement, _ := strings.Cut(what, ": ")
		must(t, db.Exec(statement).Error, statement)
	}
	if target.Dialect == "sqlite" {
		var text string
		must(t, db.Raw("SELECT sql FROM sqlite_master WHERE name = 'trade_items_02'").Scan(&text).Error, "the statement")
		for _, d := range found {
			_, definition, _ := strings.Cut(d, "rebuild the table with ")
			text = strings.TrimSuffix(text, ")") + ", " + definition + ")"
		}
		// This is the way that the manual of SQLite describes, and docs/sharding-reference.md.
		suite.PlainExec(t, db, strings.Replace(text, "trade_items_02", "rebuilt", 1),
			"INSERT INTO rebuilt SELECT * FROM trade_items_02", "DROP TABLE trade_items_02",
			"ALTER TABLE rebuilt RENAME TO trade_items_02")
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate for the indexes")
	}
	must(t, s.router.Check(t.Context()), "Check afterwards")
	refusedByDatabase(t, db.Exec("INSERT INTO trade_items_02 VALUES (3, 2, 'a')").Error, "another key")
	refusedByDatabase(t, db.Exec("INSERT INTO trade_items_02 VALUES (6, 3, 'a')").Error, "another parent")
	must(t, db.Exec("INSERT INTO trade_items_02 VALUES (6, 2, 'a')").Error, "INSERT")
}

// rowsOfAnotherTool has tables with the names of the router's, whose rows are spread by another column, as
// gorm.io/sharding does it. A hit for one row of four would look like an answer.
func rowsOfAnotherTool(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	filled := target.OpenDSN(t, dsn, nil)
	for shard := range shards {
		table := fmt.Sprintf("trade_items_%02d", shard)
		must(t, filled.Exec(fmt.Sprintf("CREATE TABLE %s (id bigint PRIMARY KEY, trade_id bigint, name varchar(40))",
			table)).Error, "CREATE TABLE")
		for user := range 10 {
			id := shards*(user+1) + (shard+user)%shards
			must(t, filled.Exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, 0, 'a')", table, id)).Error, "INSERT")
		}
	}
	refused := func(doing string, err error) {
		t.Helper()
		wantErr(t, err, snowflakeplugin.ErrSharding, doing)
		says(t, err, "trade_items_0", "has a row with", "does not belong to shard", "Another program or tool")
	}
	start := func() error {
		_, err := tryRouterAt(t, target, dsn, snowflakeplugin.New(snowflakeplugin.WithNode(1)), shards, &tradeItem{})
		return err
	}
	refused("NewRouter", start())
	says(t, start(), "sharding: table trade_items_0")
	// One row among many that are right is found as well, by AutoMigrate also if it comes later.
	for shard := range shards {
		table := fmt.Sprintf("trade_items_%02d", shard)
		must(t, filled.Exec(fmt.Sprintf("DELETE FROM %s WHERE id %% %d <> %d", table, shards, shard)).Error, "DELETE")
	}
	s := routerAt(t, target, dsn, snowflakeplugin.New(snowflakeplugin.WithNode(1)), &tradeItem{})
	must(t, filled.Exec("INSERT INTO trade_items_02 VALUES (21, 0, 'a')").Error, "INSERT")
	refused("NewRouter for one wrong row", start())
	refused("AutoMigrate of one wrong row", s.router.AutoMigrate(t.Context()))
	must(t, filled.Exec("DELETE FROM trade_items_02 WHERE id = 21").Error, "DELETE")
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate of right rows")
	n, err := s.router.Count(t.Context(), &tradeItem{})
	must(t, err, "Count")
	if n == 0 {
		t.Error("the right rows are not found")
	}
}

func tablesOfAnotherNumber(t *testing.T, target dbtest.Target) {
	dsn, plugin := target.DSN(t), snowflakeplugin.New(snowflakeplugin.WithNode(1))
	s := routerAt(t, target, dsn, plugin, &refund{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	suite.PlainExec(t, s.dbs[0], "DROP TABLE snowflake_shards") // as in a backup without it
	_, err := tryRouterAt(t, target, dsn, plugin, 2, &refund{})
	wantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter")
	says(t, err, "refunds_00", "shard 0 of 4", "shard 0 of 2", "Shards")
}

func rowsWithoutParent(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	row := s.withItems()[3]
	db := s.on(&trade{}, row.ID)
	must(t, db.Model(&row).Association("Items").Delete(&row.Items[0]), "Delete, which sets the parent to NULL")
	var left []tradeItem
	must(t, s.on(&tradeItem{}, row.ID).Order("id").Find(&left).Error, "Find")
	same(t, "items", len(left), 2)
	left[1].TradeID = 0
	must(t, s.on(&tradeItem{}, row.ID).Save(&left[1]).Error, "Save without a parent")
	slices.SortFunc(left, func(a, b tradeItem) int { return int(a.TradeID - b.TradeID) })
	same(t, "items of the trade", db.Model(&row).Association("Items").Count(), 0)
}
