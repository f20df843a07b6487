package fill_test

import (
	"fmt"
	"slices"
	"testing"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestCallbacksTable(t *testing.T) {
	run(t, []behavior{{
		Name: "a row is filled before its INSERT or refused, whichever two callbacks are removed or replaced",
		Run:  callbacksTable,
	}})
}

// The callbacks of a create that an application may meddle with.
const (
	createBegin  = "gorm:begin_transaction"
	createInsert = "gorm:create"
	createCommit = "gorm:commit_or_rollback_transaction"
)

// ours and gorms are the callbacks of the plugin and of GORM.
func ours() []string {
	return []string{
		"snowflake:watch", "snowflake:fill", "snowflake:enter", "snowflake:before_insert", "snowflake:reconcile",
		"snowflake:reset",
	}
}

func gorms() []string {
	return []string{
		createBegin, "gorm:before_create", "gorm:save_before_associations", createInsert,
		"gorm:save_after_associations", "gorm:after_create", createCommit,
	}
}

// ways of meddling with a callback. An INSERT is always replaced by one that inserts, and one of them is
// removed and put back under another name.
func ways() map[string]func(db *gorm.DB, name string) error {
	return map[string]func(db *gorm.DB, name string) error{
		"removed": func(db *gorm.DB, name string) error { return db.Callback().Create().Remove(name) },
		"replaced": func(db *gorm.DB, name string) error {
			with := func(*gorm.DB) {}
			if name == createInsert {
				with = db.Callback().Create().Get(name)
			}
			return db.Callback().Create().Replace(name, with)
		},
		"renamed": func(db *gorm.DB, name string) error {
			insert := db.Callback().Create().Get(name)
			if err := db.Callback().Create().Remove(name); err != nil {
				return err
			}
			for _, next := range []string{"gorm:save_after_associations", "gorm:after_create", createCommit} {
				if db.Callback().Create().Get(next) != nil {
					return db.Callback().Create().Before(next).Register("application:insert", insert)
				}
			}
			return db.Callback().Create().Register("application:insert", insert)
		},
	}
}

// meddling is what an application does to one callback.
type meddling struct{ name, way string }

// meddlings lists what can be done to each callback, and then to each two.
func meddlings() [][]meddling {
	var single []meddling
	for _, name := range append(gorms(), ours()...) {
		for _, way := range []string{"removed", "replaced", "renamed"} {
			if way != "renamed" || name == createInsert {
				single = append(single, meddling{name, way})
			}
		}
	}
	var all [][]meddling
	for i, a := range single {
		all = append(all, []meddling{a})
		for _, b := range single[i+1:] {
			if a.name != b.name {
				all = append(all, []meddling{a, b})
			}
		}
	}
	return slices.DeleteFunc(all, func(both []meddling) bool {
		// A transaction that nobody ends stores nothing, and keeps its connection.
		touches := func(name string) bool {
			return slices.ContainsFunc(both, func(m meddling) bool { return m.name == name })
		}
		return touches(createCommit) && !touches(createBegin)
	})
}

// numbered has keys of which the type does not know that they are IDs.
type numbered struct {
	ID   int64  `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
	Code string `gorm:"size:40;uniqueIndex"`
}

func callbacksTable(t *testing.T, target database) {
	first := target.Open(t, nil, dbtest.MaxOpenConns(1))
	must(t, first.AutoMigrate(&item{}, &part{}, &numbered{}), "AutoMigrate")
	refused := 0
	for i, both := range meddlings() {
		for _, when := range []string{"before", "after"} {
			what := fmt.Sprintf("%v %s Use", both, when)
			db, err := meddled(onSamePool(t, first), both, when == "before")
			if err != nil {
				// GORM cannot order these callbacks, or Use has refused the database. Both tell the
				// application, but the second must keep the rows out as well.
				refused++
			}
			code := fmt.Sprintf("%d%s", i, when)
			one, two := numbered{Code: code}, []item{{Code: code + "a"}, {Code: code + "b"}}
			if err := db.Create(&one).Error; err != nil {
				one.ID = 0
				refused++
			}
			if err := db.Create(&two).Error; err != nil {
				two[0].ID, two[1].ID = 0, 0
				refused++
			}
			for _, row := range []struct {
				table, code string
				id          int64
			}{
				{"numbereds", code, one.ID},
				{"items", two[0].Code, two[0].ID.Int64()}, {"items", two[1].Code, two[1].ID.Int64()},
			} {
				stored := plainRows[int64](t, first, "SELECT id FROM "+row.table+" WHERE code = '"+row.code+"'")
				switch {
				case len(stored) == 1 && stored[0] == row.id && row.id != 0:
				case len(stored) == 0 && row.id == 0:
				default:
					t.Errorf("%s: %s has %v, the struct has %d", what, row.table, stored, row.id)
				}
			}
		}
	}
	if rows := plainOne[int64](t, first, "SELECT COUNT(*) FROM items"); rows < int64(len(meddlings())) {
		t.Errorf("only %d rows were stored, and %d creates refused: the table says nothing", rows, refused)
	}
}

// meddled is the handle of an application that does something to the callbacks, and uses the plugin.
func meddled(db *gorm.DB, all []meddling, before bool) (*gorm.DB, error) {
	meddle := func() error {
		for _, m := range all {
			if db.Callback().Create().Get(m.name) == nil {
				continue
			}
			if err := ways()[m.way](db, m.name); err != nil {
				return err
			}
		}
		return nil
	}
	use := func() error { return db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))) }
	steps := []func() error{use, meddle}
	if before {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return db, err
		}
	}
	return db, nil
}

// onSamePool returns another handle with the pool of a handle, and with callbacks of its own.
func onSamePool(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	var dialector gorm.Dialector
	switch d := db.Dialector.(type) {
	case *sqlite.Dialector:
		dialector = &sqlite.Dialector{Conn: db.ConnPool}
	case *postgres.Dialector:
		config := *d.Config
		config.Conn = db.ConnPool
		dialector = postgres.New(config)
	case *mysql.Dialector:
		config := *d.Config
		config.Conn = db.ConnPool
		dialector = mysql.New(config)
	default:
		t.Fatalf("another dialector: %T", d)
	}
	again, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	must(t, err, "open again")
	return again
}
