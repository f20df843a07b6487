package resharding_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// starts returns how programs of several versions start on a database.
func starts(t *testing.T, target dbtest.Target) (dsn string, start func(models ...any) (*program, *gorm.DB)) {
	t.Helper()
	dsn = target.DSN(t)
	return dsn, func(models ...any) (*program, *gorm.DB) {
		db := target.OpenDSN(t, dsn, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{db}},
			append(models, snowflakeplugin.Broadcast(&splitTag{}))...)
		must(t, err, "NewRouter")
		return &program{t, r}, db
	}
}

// A program goes on although its AutoMigrate has failed. It has tables of a model that no other program knows.
func TestAModelWhoseAutoMigrateHasFailedKeepsOthersFromChangingShards(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		_, start := starts(t, target)
		before, _ := start(&splitOrder{}, &splitItem{})
		must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate")
		newer, db := start(&splitOrder{}, &splitItem{}, &splitNote{})
		must(t, db.Callback().Raw().Before("gorm:raw").Register("fail", func(tx *gorm.DB) {
			if strings.Contains(tx.Statement.SQL.String(), "split_notes_03") {
				_ = tx.AddError(errors.New("no more tables"))
			}
		}), "a callback")
		suite.Says(t, newer.router.AutoMigrate(t.Context()), "no more tables")
		stored := 0
		for range 4 * splitFrom {
			if newer.router.Create(t.Context(), &splitNote{}) == nil {
				stored++
			}
		}

		_, err := resharding.Split(t.Context(), before.router, shardOne, 2)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a split without the model")
		suite.Says(t, err, "split_notes", "by a program that has all models")
		again, _ := start(&splitOrder{}, &splitItem{}, &splitNote{})
		must(t, again.router.AutoMigrate(t.Context()), "AutoMigrate once more")
		_, err = resharding.Split(t.Context(), again.router, shardOne, 2)
		must(t, err, "a split with the model")
		n, err := newer.router.Count(t.Context(), &splitNote{})
		must(t, err, "Count")
		same(t, "notes", int(n), stored)
	})
}

// splitBare is splitOrder of a version before it had tags.
type splitBare struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"index:idx_split_name;size:100"`
	Items []splitItem        `gorm:"foreignKey:OrderID"`
}

func (splitBare) TableName() string { return "split_orders" }

// A new version knows one more relation, whose join table would stay behind.
func TestAProgramThatLacksAJoinTableChangesNoShard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		_, start := starts(t, target)
		before, _ := start(&splitBare{}, &splitItem{})
		must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate")
		newer, _ := start(&splitOrder{}, &splitItem{})
		must(t, newer.router.AutoMigrate(t.Context()), "AutoMigrate")
		tag, order := splitTag{Name: "a"}, splitOrder{}
		must(t, newer.router.Create(t.Context(), &tag), "Create")
		must(t, newer.router.Create(t.Context(), &order), "Create")
		order.Tags = []splitTag{tag}
		must(t, newer.handle(&splitOrder{}, order.ID).Omit("Tags.*").Save(&order).Error, "Save")
		_, err := resharding.Resize(t.Context(), before.router, 2*splitFrom)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a split without the join table")
		suite.Says(t, err, "split_order_tags", "by a program that has all models")
		_, err = resharding.Resize(t.Context(), newer.router, 2*splitFrom)
		must(t, err, "a split with the join table")
		var found splitOrder
		must(t, newer.handle(&splitOrder{}, order.ID).Preload("Tags").First(&found, order.ID).Error, "First")
		same(t, "tags", len(found.Tags), 1)
	})
}

// Where nothing is noted, as in tables that somebody has made by hand, the program that comes with the model finds
// what was left behind.
func TestAutoMigrateRefusesAModelWhoseRowsWereLeftBehind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn, start := starts(t, target)
		before, _ := start(&splitOrder{}, &splitItem{})
		must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate")
		admin := target.OpenDSN(t, dsn, nil)
		must(t, admin.Exec("CREATE TABLE split_notes_01 (id bigint PRIMARY KEY)").Error, "the table")
		must(t, admin.Exec("CREATE TABLE split_notes_03 (id bigint PRIMARY KEY)").Error, "the table")
		must(t, admin.Exec("INSERT INTO split_notes_03 VALUES (3)").Error, "the row")
		must(t, admin.Exec("CREATE TABLE split_notes_07 (id bigint PRIMARY KEY)").Error, "a table of no shard")
		must(t, admin.Exec("INSERT INTO split_notes_07 VALUES (7)").Error, "its row")
		for _, residue := range []int{1, 3} {
			_, err := resharding.Split(t.Context(), before.router, resharding.Class{Residue: residue, Modulus: splitFrom}, 2)
			must(t, err, "Split")
		}
		newer, _ := start(&splitOrder{}, &splitItem{}, &splitNote{})
		err := newer.router.AutoMigrate(t.Context())
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "AutoMigrate")
		suite.Says(t, err, "split_notes_03", "Router.Create")
		must(t, newer.router.Create(t.Context(), &splitNote{ID: 3}), "Create")
		must(t, admin.Exec("DROP TABLE split_notes_03").Error, "DROP TABLE")
		must(t, newer.router.AutoMigrate(t.Context()), "AutoMigrate afterwards")
		must(t, newer.router.Check(t.Context()), "Check")
	})
}

// Nothing can be left behind in a database that comes to the router, and there may be thousands of old tables.
func TestADatabaseThatIsAddedIsNotAskedForOldTables(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn, start := starts(t, target)
		before, _ := start(&splitOrder{}, &splitItem{})
		must(t, before.router.AutoMigrate(t.Context()), "AutoMigrate")
		_, err := resharding.Split(t.Context(), before.router, shardOne, 2)
		must(t, err, "Split")
		dbs := []*gorm.DB{target.OpenDSN(t, dsn, nil), target.OpenDSN(t, target.DSN(t), nil)}
		leased(t, dbs[0])
		must(t, dbs[1].Use(dbs[0].Plugins["snowflake"]), "Use")
		var asked []string
		must(t, dbs[1].Callback().Row().After("gorm:row").Register("note", func(tx *gorm.DB) {
			asked = append(asked, fmt.Sprint(tx.Statement.Vars...))
		}), "a callback")
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
			Shards: splitFrom, Databases: dbs, Place: func(int) int { return 0 },
		}, &splitOrder{}, &splitItem{}, snowflakeplugin.Broadcast(&splitTag{}))
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate with another database")
		for _, what := range asked {
			if strings.Contains(what, "split_orders_01") {
				t.Errorf("the new database was asked for %s", what)
			}
		}
		_, err = resharding.Move(t.Context(), r, resharding.Class{Residue: 1, Modulus: 2 * splitFrom}, 1)
		must(t, err, "Move")
	})
}
