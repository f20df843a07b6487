package resharding_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type importedOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:UserID"`
	UserID snowflakeplugin.ID
	Name   *string `gorm:"size:100"`
	Gone   gorm.DeletedAt
}

type importedItem struct {
	ID              snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:ImportedOrderID"`
	ImportedOrderID snowflakeplugin.ID
	Price           int64
}

// importVariable turns the test binary into a process that imports until it is killed.
const importVariable = "SNOWFLAKE_TEST_IMPORT"

// oldRows is how many orders each of the two old tables has, which is more than one chunk.
const oldRows = 600

// importer imports two old tables of orders, and the items of both.
type importer struct {
	*testing.T
	db     *gorm.DB
	router *snowflakeplugin.Router
}

func newImporter(t *testing.T, db *gorm.DB) importer {
	t.Helper()
	leased(t, db)
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}},
		&importedOrder{}, &importedItem{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	return importer{t, db, r}
}

// run imports what is not imported yet.
func (im importer) run() (stored int) {
	im.Helper()
	for table := range 2 {
		n, err := resharding.Import(im.Context(), im.router, &importedOrder{}, im.db.Table(fmt.Sprint("old_orders_", table)),
			im.db.Table("order_keys"))
		must(im.T, err, "Import of orders")
		stored += n
	}
	n, err := resharding.Import(im.Context(), im.router, &importedItem{}, im.db.Table("old_items AS i").
		Select("i.id, k.new AS imported_order_id, i.price").Joins("LEFT JOIN order_keys k ON k.old = i.order_id"),
		im.db.Table("item_keys"))
	must(im.T, err, "Import of items")
	return stored + n
}

// oldKey is a key as gorm.io/sharding makes it: the number of the table is the node, and the sequence is 0.
func oldKey(table, n int) int64 { return 1801234567890000000 + int64(n)<<22 + int64(table)<<12 }

func fillOldTables(t *testing.T, db *gorm.DB) {
	t.Helper()
	must(t, db.Exec("CREATE TABLE old_items (id bigint PRIMARY KEY, order_id bigint, price bigint)").Error, "a table")
	for table := range 2 {
		name := fmt.Sprint("old_orders_", table)
		must(t, db.Exec("CREATE TABLE "+name+" (id bigint PRIMARY KEY, user_id bigint, name varchar(100), gone timestamp NULL)").
			Error, "a table")
		var orders, items []string
		for n := range oldRows {
			what, gone := fmt.Sprintf("'order %d'", n), "NULL"
			if n%5 == 0 {
				what, gone = "NULL", "'2026-01-02 03:04:05'"
			}
			orders = append(orders, fmt.Sprintf("(%d, %d, %s, %s)", oldKey(table, n), 2*n+table+1, what, gone))
			items = append(items, fmt.Sprintf("(%d, %[1]d, %d)", oldKey(table, n), n))
		}
		must(t, db.Exec("INSERT INTO "+name+" VALUES "+strings.Join(orders, ",")).Error, "rows")
		must(t, db.Exec("INSERT INTO old_items VALUES "+strings.Join(items, ",")).Error, "rows")
	}
}

// holds fails the test unless each old row is there once, under the key that the map has for it.
func (im importer) holds() {
	im.Helper()
	for table, want := range map[string]int64{"order_keys": 2 * oldRows, "item_keys": 2 * oldRows} {
		var n int64
		must(im.T, im.db.Table(table).Count(&n).Error, "counting")
		same(im.T, table, n, want)
	}
	everything := im.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Unscoped() })
	for _, model := range []any{&importedOrder{}, &importedItem{}} {
		n, err := everything.Count(im.Context(), model)
		must(im.T, err, "Count")
		same(im.T, fmt.Sprintf("%T", model), n, int64(2*oldRows))
	}
	for table := range 2 {
		for n := 0; n < oldRows; n += 37 {
			var of, item resharding.NewKey
			must(im.T, im.db.Table("order_keys").Where("old = ?", oldKey(table, n)).Take(&of).Error, "the new key")
			must(im.T, im.db.Table("item_keys").Where("old = ?", oldKey(table, n)).Take(&item).Error, "the new key")
			db, err := im.router.DB(im.Context(), &importedOrder{}, snowflakeplugin.ID(2*n+table+1))
			must(im.T, err, "the shard of the user")
			var order importedOrder
			must(im.T, db.Unscoped().First(&order, of.New).Error, "the order")
			if int(order.UserID) != 2*n+table+1 || (order.Name == nil) != (n%5 == 0) || order.Gone.Valid != (n%5 == 0) {
				im.Errorf("order %d of table %d is %+v", n, table, order)
			}
			db, err = im.router.DB(im.Context(), &importedItem{}, of.New)
			must(im.T, err, "the shard of the order")
			var one importedItem
			must(im.T, db.First(&one, item.New).Error, "the item")
			if one.ImportedOrderID != of.New || one.Price != int64(n) {
				im.Errorf("the item of order %d of table %d is %+v", n, table, one)
			}
		}
	}
}

// Processes are killed at one create after the other, and each one goes on where the one before has ended.
func TestAnImportThatIsKilledGoesOnAndStoresEachRowOnce(t *testing.T) {
	if spec := os.Getenv(importVariable); spec != "" {
		importUntilKilled(t, strings.Split(spec, "\n"))
		return
	}
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		fillOldTables(t, db)
		im := newImporter(t, db)
		for _, creates := range []int{1, 2, 3, 4, 6} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()[:strings.IndexByte(t.Name(), '/')]+"$",
				"-test.v")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d", importVariable, target.Name, dsn, creates))
			if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("a process that imports: %v\n%s", err, said)
			}
		}
		if stored := im.run(); stored == 0 || stored == 4*oldRows {
			t.Errorf("the last run has stored %d rows", stored)
		}
		im.holds()
		same(t, "rows of another run", im.run(), 0)
		im.holds()
	})
}

// importUntilKilled is the process.
func importUntilKilled(t *testing.T, words []string) {
	t.Helper()
	db := mayMakeTriggers(dbtest.Named(words[0])).OpenDSN(t, words[1], nil)
	im := newImporter(t, db)
	creates := 0
	must(t, db.Callback().Create().Before("gorm:create").Register("kill", func(tx *gorm.DB) {
		if tx.Statement.Table == "snowflake_shards" {
			return
		}
		if creates++; fmt.Sprint(creates) == words[2] {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL), "kill")
			select {}
		}
	}), "a callback")
	im.run()
}

// What would be stored otherwise than it is, or would be left out, is refused.
func TestAnImportRefusesWhatItWouldChange(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		im := newImporter(t, db)
		must(t, db.Exec("CREATE TABLE wider (id bigint PRIMARY KEY, user_id bigint, name varchar(100), note varchar(9))").Error,
			"a table")
		must(t, db.Exec("INSERT INTO wider VALUES (1, 2, 'a', 'b'), (2, 0, 'c', 'd')").Error, "rows")
		run := func(rows *gorm.DB) error {
			_, err := resharding.Import(t.Context(), im.router, &importedOrder{}, rows, db.Table("order_keys"))
			return err
		}
		err := run(db.Table("wider"))
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Import of an unknown column")
		suite.Says(t, err, "note", "leave it out")
		err = run(db.Table("wider").Select("id", "user_id", "name"))
		if err == nil || !strings.Contains(err.Error(), "UserID") {
			t.Errorf("Import of a row without a parent: %v", err)
		}
		wider := func() *gorm.DB { return db.Table("wider").Select("id", "user_id", "name").Where("user_id > 0") }
		for _, rows := range []*gorm.DB{wider().Limit(1), wider().Offset(1), db.Raw("SELECT id, user_id FROM wider")} {
			err := run(rows)
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Import of some rows")
			suite.Says(t, err, "Where")
		}
		err = run(wider().Or("name = ?", "a"))
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Import by Or")
		suite.Says(t, err, "Or", "one Where")
		must(t, run(wider()), "Import")
		must(t, db.Exec("INSERT INTO wider SELECT id + 1000, user_id, name, note FROM wider WHERE user_id > 0").Error, "more rows")
		must(t, db.Exec("INSERT INTO wider VALUES (3, 2, 'z', 'b')").Error, "a row")
		var many []map[string]any
		for i := range 600 {
			many = append(many, map[string]any{"id": 2000 + i, "user_id": 2, "name": fmt.Sprint("m", 999-i)})
		}
		must(t, db.Table("wider").Create(many).Error, "many rows")
		must(t, run(wider().Order("name")), "Import in another order")
		n, err := im.router.Count(t.Context(), &importedOrder{})
		must(t, err, "Count")
		same(t, "rows", n, int64(603))
	})
}
