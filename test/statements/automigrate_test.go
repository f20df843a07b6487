package statements_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAutoMigrateAlone(t *testing.T) {
	run(t, []behavior{
		{Name: "it makes plain keys, in related models as well, and join tables as before", Everywhere: true,
			Run: autoMigrateRelations},
		{Name: "it alters nothing the second time", Everywhere: true, Run: autoMigrateAgain},
		{Name: "a struct without the tag cannot store a row in such a table", Everywhere: true,
			Run: untaggedOnATaggedTable},
		{Name: "a model with a tag at fault gets no table", Run: autoMigrateOfAFault},
		{Name: "CreateTable and AddColumn of the migrator know the tags", Everywhere: true, Run: createTableAlone},
		{Name: "without the dialector, the plugin migrates", Everywhere: true, Run: withoutDialector},
		{Name: "Prepare follows relations", Run: prepareRelations},
	})
}

// The models of a shop are reached from one of them.
type (
	shop struct {
		ID       uint        `gorm:"primaryKey" snowflake:"true"`
		Name     string      `gorm:"size:50"`
		Shelves  []shelf     // has many
		Address  shopAddress // has one
		OwnerID  uint
		Owner    shopOwner // belongs to
		Partners []partner `gorm:"many2many:shop_partners"`
	}
	shelf struct {
		ID     int64 `gorm:"primaryKey" snowflake:"true"`
		ShopID uint
		Name   string `gorm:"size:50"`
		Boxes  []shelfBox
	}
	shelfBox struct {
		ID      uint64 `gorm:"primaryKey;autoIncrement" snowflake:"true"`
		ShelfID int64
		Name    string `gorm:"size:50"`
	}
	shopAddress struct {
		ID     int `gorm:"primaryKey" snowflake:"true"`
		ShopID uint
		Street string `gorm:"size:50"`
	}
	shopOwner struct {
		ID   uint   `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50;uniqueIndex"`
	}
	partner struct {
		ID   int64  `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50"`
	}
)

// shopModels are those that GORM has to be told: it makes the tables of owners, partners and the join table
// because they are related to a shop.
func shopModels() []any { return []any{&shop{}, &shelf{}, &shelfBox{}, &shopAddress{}} }

// unmigrated returns a handle of a new database that uses the plugin and has no tables.
func unmigrated(t *testing.T, target dbtest.Target, opts ...snowflakeplugin.Option) (*gorm.DB, *snowflakeplugin.Plugin) {
	t.Helper()
	db := target.Open(t, nil)
	plugin := snowflakeplugin.New(append(opts, snowflakeplugin.WithNode(1))...)
	must(t, db.Use(plugin), "Use")
	return db, plugin
}

// fullShop has a row in each of the tables.
func fullShop() *shop {
	return &shop{
		Name: "s", Shelves: []shelf{{Name: "a", Boxes: []shelfBox{{Name: "b"}}}}, Address: shopAddress{Street: "c"},
		Owner: shopOwner{Name: "d"}, Partners: []partner{{Name: "e"}},
	}
}

func autoMigrateRelations(t *testing.T, target dbtest.Target) {
	db, _ := unmigrated(t, target)
	must(t, db.AutoMigrate(shopModels()...), "AutoMigrate")
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
	s := fullShop()
	succeed(t, db.Create(s))
	for query, id := range map[string]int64{
		"SELECT id FROM shops":                         int64(s.ID),
		"SELECT id FROM shelves":                       s.Shelves[0].ID,
		"SELECT shelf_id FROM shelf_boxes":             s.Shelves[0].ID,
		"SELECT id FROM shelf_boxes":                   int64(s.Shelves[0].Boxes[0].ID),
		"SELECT id FROM shop_addresses":                int64(s.Address.ID),
		"SELECT id FROM shop_owners":                   int64(s.Owner.ID),
		"SELECT owner_id FROM shops":                   int64(s.Owner.ID),
		"SELECT id FROM partners":                      s.Partners[0].ID,
		"SELECT shop_id FROM shop_partners":            int64(s.ID),
		"SELECT partner_id FROM shop_partners":         s.Partners[0].ID,
		"SELECT count(*) + 1048576 FROM shop_partners": 1<<20 + 1,
	} {
		wantStored(t, db, id, query)
		if id < 1<<20 {
			t.Errorf("%s: %d is none of the plugin's", query, id)
		}
	}
}

func autoMigrateAgain(t *testing.T, target dbtest.Target) {
	dsn, recorder := target.DSN(t), dbtest.NewRecorder()
	for round := range 2 { // the second handle parses everything again
		db := target.OpenDSN(t, dsn, &gorm.Config{Logger: recorder})
		must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(int64(round)))), "Use")
		for again := range 2 {
			recorder.Reset()
			must(t, db.AutoMigrate(append(shopModels(), &memberByInt{}, &keyUint64{})...), "AutoMigrate")
			if round+again > 0 {
				onlyReads(t, recorder)
			}
			if again == 0 {
				succeed(t, db.Create(&shop{Owner: shopOwner{Name: strings.Repeat("x", round+1)}}))
			}
		}
	}
}

// frozenShelf is a shelf as a migration of the application has written it down, without the tag.
type frozenShelf struct {
	ID   int64
	Name string `gorm:"size:50"`
}

func (frozenShelf) TableName() string { return "shelves" }

func untaggedOnATaggedTable(t *testing.T, target dbtest.Target) {
	db, _ := unmigrated(t, target)
	must(t, db.AutoMigrate(shopModels()...), "AutoMigrate")
	for what, tx := range map[string]*gorm.DB{
		"a struct":        db.Create(&frozenShelf{Name: "a"}),
		"a map":           db.Table("shelves").Create(map[string]any{"name": "b"}),
		"maps of a model": db.Model(&frozenShelf{}).Create([]map[string]any{{"name": "c"}}),
		"SQL":             db.Exec("INSERT INTO shelves (name) VALUES ('d')"),
	} {
		if tx.Error == nil {
			t.Errorf("%s was stored without a key of the plugin", what)
		}
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM shelves"), 0)
}

type faultyShelf struct {
	ID    int64 `gorm:"primaryKey" snowflake:"yes, please"`
	Books []faultyBook
}

type faultyBook struct {
	ID            int32 `gorm:"primaryKey" snowflake:"true"`
	FaultyShelfID int64
}

func autoMigrateOfAFault(t *testing.T, target dbtest.Target) {
	db, plugin := unmigrated(t, target)
	must(t, db.AutoMigrate(&memberByInt{}), "AutoMigrate of a model without a fault")
	for what, err := range map[string]error{
		"AutoMigrate": db.AutoMigrate(&memberByInt{}, &faultyShelf{}), "CreateTable": db.Migrator().CreateTable(&faultyShelf{}),
		"the plugin's": plugin.AutoMigrate(db, &faultyShelf{}), "AddColumn": db.Migrator().AddColumn(&faultyBook{}, "ID"),
	} {
		if !errors.Is(err, snowflakeplugin.ErrInvalidField) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if db.Migrator().HasTable("faulty_shelves") || db.Migrator().HasTable("faulty_books") {
		t.Error("there is a table")
	}
}

func createTableAlone(t *testing.T, target dbtest.Target) {
	db, _ := unmigrated(t, target)
	must(t, db.Migrator().CreateTable(&memberByInt{}), "CreateTable")
	must(t, db.Table("archive").Migrator().CreateTable(&memberByInt{}), "CreateTable of another name")
	plainExec(t, db, "CREATE TABLE tickets_of_old (name varchar(50))")
	must(t, db.Table("tickets_of_old").AutoMigrate(&everyKindOfKey{}), "AutoMigrate of a table that lacks a column")
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
	one, other := memberByInt{Email: "a"}, memberByInt{Email: "b"}
	succeed(t, db.Create(&one))
	succeed(t, db.Table("archive").Create(&other))
	wantStored(t, db, one.ID, "SELECT id FROM member_by_ints")
	wantStored(t, db, other.ID, "SELECT id FROM archive")
	refusesNull(t, db, "tickets_of_old", "name", "a")
}

// everyKindOfKey has a number that is filled and is not the primary key.
type everyKindOfKey struct {
	Name string `gorm:"primaryKey;size:50"`
	ID   int64  `gorm:"not null" snowflake:"true"`
}

func withoutDialector(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	before := db.Dialector
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), snowflakeplugin.WithoutDialector())
	must(t, db.Use(plugin), "Use")
	must(t, plugin.AutoMigrate(db, shopModels()...), "AutoMigrate of the plugin")
	must(t, plugin.AutoMigrate(db.Table("archive"), &memberByInt{}), "AutoMigrate of another table")
	if db.Dialector != before {
		t.Errorf("the dialector is a %T", db.Dialector)
	}
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
	s := fullShop()
	succeed(t, db.Create(s))
	wantStored(t, db, int64(s.Shelves[0].Boxes[0].ID), "SELECT id FROM shelf_boxes")
	refusesNull(t, db, "archive", "email", "a")
}

func prepareRelations(t *testing.T, target dbtest.Target) {
	db, plugin := unmigrated(t, target, snowflakeplugin.WithoutDialector())
	must(t, plugin.Prepare(db, &shop{}), "Prepare")
	must(t, db.AutoMigrate(shopModels()...), "AutoMigrate of GORM")
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
	type holder struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		ShelfID int64
		Shelf   faultyShelf
	}
	err := plugin.Prepare(db, &holder{})
	if !errors.Is(err, snowflakeplugin.ErrInvalidField) || strings.Count(err.Error(), "faultyShelf.ID") != 1 ||
		strings.Count(err.Error(), "faultyBook.ID") != 1 {
		t.Errorf("Prepare of a model that leads to two faults: %v", err)
	}
}
