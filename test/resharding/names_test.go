package resharding_test

import (
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// strictest returns PostgreSQL, which tells capital letters apart and cuts long names off, and at night the other
// databases too.
func strictest() []dbtest.Target {
	return nightly.Pick(dbtest.ServersOf("postgres"), dbtest.Targets())
}

// Names of tables and columns may be any that the database takes.
func TestTablesAreSplitAndJoinedWhateverTheirNamesAre(t *testing.T) {
	t.Parallel()
	for name, naming := range map[string]func() schema.Namer{
		"capitals and signs": func() schema.Namer {
			return schema.NamingStrategy{TablePrefix: "my-shop-", NoLowerCase: true,
				NameReplacer: strings.NewReplacer("Amount", "Größe des 'Postens'", "OrderID", "a%d-b")}
		},
		"long": func() schema.Namer {
			return schema.NamingStrategy{TablePrefix: strings.Repeat("long_", 7), IdentifierMaxLength: 24}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, strictest(), func(t *testing.T, target dbtest.Target) {
				target = mayMakeTriggers(target.Shared(t))
				dsn := target.DSN(t)
				open := func() *gorm.DB { return target.OpenDSN(t, dsn, &gorm.Config{NamingStrategy: naming()}) }
				mover := startRouter(t, open())
				late := startRouter(t, open())
				orders := mover.create(100)
				late.finds(orders, "before")
				splitAndJoin(t, mover, late, orders)
				startRouter(t, open()).finds(orders, "in a new process")
			})
		})
	}
}

type longNamed struct {
	ID                       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	AColumnWithALongNameHere string             `gorm:"size:50;uniqueIndex:an_index_with_a_name_that_is_as_long_as_postgresql_lets_it_be"`
	Counted                  int                `gorm:"check:a_check_with_a_name_that_is_as_long_as_postgresql_lets_it_be_ok,counted >= 0"`
	AnotherLongNameForColumn string             `gorm:"size:50;index"`
}

// TableName is long, but no table on a shard is longer than the databases allow.
func (longNamed) TableName() string { return "a_table_with_a_name_that_is_nearly_as_long_as_it_may_be" }

// PostgreSQL cuts long names off without a word. Two shards would have one index then.
func TestIndexesAndChecksOfLongNamesAreOnAllShards(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, strictest(), func(t *testing.T, target dbtest.Target) {
		target = mayMakeTriggers(target.Shared(t))
		dsn := target.DSN(t)
		start := func() *snowflakeplugin.Router {
			db := target.OpenDSN(t, dsn, nil)
			leased(t, db)
			r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{db}}, &longNamed{})
			must(t, err, "NewRouter")
			must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
			return r
		}
		r := start()
		refuses := func(when string) {
			t.Helper()
			must(t, r.Check(t.Context()), when+": Check")
			for range 64 {
				row := &longNamed{AColumnWithALongNameHere: "the same"}
				must(t, r.Create(t.Context(), row), when+": Create")
				on, err := r.DB(t.Context(), &longNamed{}, row.ID)
				must(t, err, "DB")
				if on.Model(row).Update("counted", -1).Error == nil {
					t.Errorf("%s: no check is on the shard of %d", when, row.ID)
				}
				twin := &longNamed{ID: row.ID + 4096*16, AColumnWithALongNameHere: "the same"}
				if on.Create(twin).Error == nil {
					t.Errorf("%s: no unique index is on the shard of %d", when, row.ID)
				}
				must(t, on.Delete(row).Error, "Delete")
			}
		}
		refuses("at first")
		_, err := resharding.Split(t.Context(), r, shardOne, 2)
		must(t, err, "Split")
		must(t, resharding.Clean(t.Context(), r), "Clean")
		refuses("after a split")
		r = start()
		refuses("in a new process")
	})
}

type tooLong struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

func (tooLong) TableName() string { return strings.Repeat("long_", 12) + "name" }

func TestATableWhoseNameTheDatabaseWouldCutOffIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, strictest(), func(t *testing.T, target dbtest.Target) {
		db := target.Shared(t).Open(t, nil)
		leased(t, db)
		_, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{db}}, &tooLong{})
		if db.Name() == "sqlite" {
			must(t, err, "SQLite keeps any name")
			return
		}
		if err == nil || !strings.Contains(err.Error(), tooLong{}.TableName()+"_00 of shard 0 of 4 has too long a name") {
			t.Errorf("NewRouter: %v", err)
		}
	})
}
