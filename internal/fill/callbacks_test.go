package fill_test

import (
	"context"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func TestCallbacks(t *testing.T) { run(t, callbackBehaviors()) }

func callbackBehaviors() []behavior {
	return []behavior{
		{Name: "a row is filled before its INSERT whichever callback of GORM is removed or replaced", Run: removedCallbacks},
		{Name: "an upsert leaves no phantom whichever callback of GORM is removed", Run: removedCallbacksUpsert},
		{Name: "a callback of the application that empties the key stores nothing", Run: emptyingCallback},
		{Name: "a database without the INSERT of GORM is refused at Use", Run: noInsertCallback},
		{Name: "an INSERT of GORM that is removed after creates is missed", Run: insertRemovedLate},
		{Name: "hooks and callbacks see the context of the application itself", Run: ownContext},
		{Name: "a callback that replaces the context loses nothing", Run: replacedContext},
		{Name: "a context that is a nil pointer is the application's business", Run: nilPointerContext},
		{Name: "rows that hooks create are undone with the row around them", Run: hookRowsUndone},
		{Name: "hundreds of statements inside each other are told apart", Run: deepHooks},
	}
}

// item has a hook, a unique column and an association, so that every callback has something to do.
type item struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Code  string             `gorm:"size:40;uniqueIndex"`
	Parts []part
	hook  func(tx *gorm.DB) error
}

type part struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	ItemID snowflakeplugin.ID
	Name   string `gorm:"size:40;uniqueIndex"`
}

func (i *item) BeforeCreate(tx *gorm.DB) error {
	if i.hook == nil {
		return nil
	}
	return i.hook(tx)
}

var createCallbacks = []string{
	"gorm:begin_transaction", "gorm:before_create", "gorm:save_before_associations",
	"gorm:save_after_associations", "gorm:after_create", // without a commit nothing would be stored
	"snowflake:fill", "snowflake:enter", "snowflake:reconcile", "snowflake:reset",
}

// eachRemoval calls check on a handle whose application has removed or replaced a callback, before db.Use or
// after it. Some pairs are removed together. The handles share a database, and each finds it empty.
func eachRemoval(t *testing.T, target database, check func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	first := target.Open(t, nil)
	must(t, first.AutoMigrate(&item{}, &part{}, &account{}), "AutoMigrate")
	removals := [][]string{{"gorm:begin_transaction", "gorm:commit_or_rollback_transaction"},
		{"gorm:save_before_associations", "gorm:save_after_associations"},
		{"gorm:begin_transaction", "gorm:before_create", "gorm:save_before_associations"}}
	for _, name := range createCallbacks {
		removals = append(removals, []string{name})
	}
	nothing := func(*gorm.DB) {}
	for _, names := range removals {
		for way, change := range map[string]func(db *gorm.DB, name string) error{
			"removed":  func(db *gorm.DB, name string) error { return db.Callback().Create().Remove(name) },
			"replaced": func(db *gorm.DB, name string) error { return db.Callback().Create().Replace(name, nothing) },
		} {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s %s Use: %v", way, when, names), func(t *testing.T) {
					emptied(t, first, "parts", "items", "accounts")
					db := onSamePool(t, first)
					apply := func() {
						for _, name := range names {
							if db.Callback().Create().Get(name) != nil {
								must(t, change(db, name), way)
							}
						}
					}
					if when == "before" {
						apply()
					}
					must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
					if when == "after" {
						apply()
					}
					check(t, db)
				})
			}
		}
	}
}

func removedCallbacks(t *testing.T, target database) {
	eachRemoval(t, target, func(t *testing.T, db *gorm.DB) {
		one, two := item{Code: "one"}, []item{{Code: "two"}, {Code: "three"}}
		must(t, db.Create(&one).Error, "create")
		must(t, db.Create(&two).Error, "create a slice")
		for code, id := range map[string]snowflakeplugin.ID{"one": one.ID, "two": two[0].ID, "three": two[1].ID} {
			same(t, "the key of "+code,
				plainOne[int64](t, db, "SELECT id FROM items WHERE code = '"+code+"'"), id.Int64())
			if id == 0 {
				t.Errorf("%s has no key", code)
			}
		}
	})
}

func removedCallbacksUpsert(t *testing.T, target database) {
	eachRemoval(t, target, func(t *testing.T, db *gorm.DB) {
		if db.Callback().Create().Get("snowflake:reset") == nil && db.Callback().Create().Get("snowflake:reconcile") == nil {
			t.Skip("nothing of the plugin is left after the INSERT")
		}
		first := item{Code: "one"}
		must(t, db.Create(&first).Error, "create")
		again := item{Code: "one"}
		must(t, db.Clauses(doNothing()).Create(&again).Error, "create again")
		if again.ID != 0 && again.ID != first.ID {
			t.Errorf("the struct holds %d, the row has %d", again.ID, first.ID)
		}
	})
}

func emptyingCallback(t *testing.T, target database) {
	db := open(t, target, nil, &item{}, &part{})
	must(t, db.Callback().Create().After("snowflake:fill").Before("gorm:create").Register("test:empty", func(db *gorm.DB) {
		if it, ok := db.Statement.Dest.(*item); ok {
			it.ID = 0
		}
	}), "register")
	wantErr(t, db.Create(&item{Code: "one"}).Error, snowflakeplugin.ErrZeroKey, "create")
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM items"), 0)
}

func noInsertCallback(t *testing.T, target database) {
	db := target.Open(t, nil)
	must(t, db.Callback().Create().Remove("gorm:create"), "remove")
	err := db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
	wantErr(t, err, snowflakeplugin.ErrCallbacks, "Use")
	says(t, err, "gorm:create", "replace it")
}

// insertRemovedLate removes the INSERT when the plugin has seen it, together with whatever lets the plugin
// look again.
func insertRemovedLate(t *testing.T, target database) {
	for _, also := range []string{"snowflake:watch", "snowflake:fill", "gorm:begin_transaction", "snowflake:reset"} {
		db := open(t, target, nil, &item{}, &part{})
		must(t, db.Create(&item{Code: "one"}).Error, "create")
		must(t, db.Callback().Create().Remove(also), "remove "+also)
		must(t, db.Create(&item{Code: "two"}).Error, "create without "+also)
		must(t, db.Callback().Create().Remove("gorm:create"), "remove")
		for range 2 {
			err := db.Create(&item{Code: "three"}).Error
			wantErr(t, err, snowflakeplugin.ErrCallbacks, "create without the INSERT and "+also)
			says(t, err, "gorm:create", "replace it")
		}
	}
}

// webContext stands for the context type of a web framework.
type webContext struct{ context.Context }

func ownContext(t *testing.T, target database) {
	db := open(t, target, nil, &item{}, &part{})
	ctx := &webContext{t.Context()}
	seen := 0
	look := func(tx *gorm.DB) error {
		if tx.Statement.Context != context.Context(ctx) {
			return fmt.Errorf("the context is a %T", tx.Statement.Context)
		}
		seen++
		return nil
	}
	for name, anchor := range map[string]string{"early": "gorm:before_create", "late": "gorm:after_create"} {
		must(t, db.Callback().Create().Before(anchor).Register("test:"+name, func(db *gorm.DB) {
			_ = db.AddError(look(db))
		}), "register")
	}
	it := item{Code: "one", Parts: []part{{Name: "p"}, {Name: "q"}}, hook: look}
	must(t, db.WithContext(ctx).Create(&it).Error, "create")
	same(t, "looks", seen, 5)
}

func replacedContext(t *testing.T, target database) {
	db := open(t, target, nil, &item{}, &part{})
	must(t, db.Callback().Create().After("snowflake:fill").Before("gorm:create").Register("test:replace",
		func(db *gorm.DB) { db.Statement.Context = context.WithoutCancel(context.Background()) }), "register")
	first := item{Code: "one", Parts: []part{{Name: "p"}}}
	must(t, db.Create(&first).Error, "create")
	again := item{Code: "one"}
	must(t, db.Clauses(doNothing()).Create(&again).Error, "upsert")
	if again.ID != 0 && again.ID != first.ID {
		t.Errorf("the struct holds %d, the row has %d", again.ID, first.ID)
	}
	failing := item{Code: "one", Parts: []part{{Name: "r"}}}
	if err := db.Create(&failing).Error; err == nil {
		t.Fatal("a duplicate was stored")
	}
	same(t, "the key after a failure", failing.ID, 0)
	nested := item{Code: "two", Parts: []part{{Name: "s"}, {Name: "s", ItemID: 1}}}
	if err := db.Create(&nested).Error; err == nil {
		t.Skip("GORM lets duplicates of associations pass on this database")
	}
	same(t, "the key of the tree after a failure", nested.ID, 0)
	same(t, "the key of its part", nested.Parts[0].ID, 0)
}

// nilContext works as a nil pointer, as some generated contexts do.
type nilContext struct{ context.Context }

func (c *nilContext) or() context.Context {
	if c == nil {
		return context.Background()
	}
	return c.Context
}

func (c *nilContext) Err() error            { return c.or().Err() }
func (c *nilContext) Done() <-chan struct{} { return c.or().Done() }

func (c *nilContext) Value(any) any { panic("the plugin asked a nil context for a value") }

func nilPointerContext(t *testing.T, target database) {
	db := open(t, target, nil, &item{}, &part{})
	it := item{Code: "one"}
	var none *nilContext
	err := db.Session(&gorm.Session{DryRun: true, SkipDefaultTransaction: true, SkipHooks: true}).WithContext(none).
		Omit("Parts").Create(&it).Error
	must(t, err, "create under a nil pointer")
	if it.ID == 0 {
		t.Error("the key was not filled")
	}
}

func hookRowsUndone(t *testing.T, target database) {
	db := open(t, target, nil, &item{}, &part{})
	inner, deeper := &part{Name: "inner"}, &item{Code: "deeper", Parts: []part{{Name: "deepest"}}}
	outer := item{Code: "outer", Parts: []part{{Name: "fine"}}, hook: func(tx *gorm.DB) error {
		if err := tx.Create(deeper).Error; err != nil {
			return err
		}
		inner.ItemID = deeper.ID
		return tx.Create(inner).Error
	}}
	boom := fmt.Errorf("boom")
	must(t, db.Callback().Create().Before("gorm:commit_or_rollback_transaction").Register("test:fail", func(db *gorm.DB) {
		if it, ok := db.Statement.Dest.(*item); ok && it.Code == "outer" {
			_ = db.AddError(boom)
		}
	}), "register")
	err := db.Create(&outer).Error
	if err != boom { //nolint:errorlint // nothing else may have failed
		t.Fatalf("create: %v", err)
	}
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM items"), 0)
	if outer.ID != 0 || outer.Parts[0].ID != 0 || inner.ID != 0 || deeper.ID != 0 || deeper.Parts[0].ID != 0 {
		t.Errorf("IDs of rows that are not there: %d, %d, %d, %d, %d",
			outer.ID, outer.Parts[0].ID, inner.ID, deeper.ID, deeper.Parts[0].ID)
	}
	must(t, db.Callback().Create().Remove("test:fail"), "remove")
	must(t, db.Create(&outer).Error, "create again")
	same(t, "items", plainOne[int64](t, db, "SELECT COUNT(*) FROM items"), 2)
	same(t, "parts", plainOne[int64](t, db, "SELECT COUNT(*) FROM parts"), 3)
}

// deepHooks makes more statements at a time than the plugin has slots for.
func deepHooks(t *testing.T, target database) {
	const depth = 600
	db := open(t, target, nil, &item{}, &part{})
	boom := fmt.Errorf("boom")
	for turn, fail := range []error{boom, nil, boom} {
		items := make([]*item, depth)
		for i := range items {
			items[i] = &item{Code: fmt.Sprint(turn, "-", i)}
			items[i].hook = func(tx *gorm.DB) error {
				if items[i].ID == 0 {
					return fmt.Errorf("row %d has no ID in its hook", i)
				}
				if i+1 == depth {
					return fail
				}
				refused := &item{Code: "refused", hook: func(*gorm.DB) error { return boom }}
				if err := tx.Session(&gorm.Session{}).Create(refused).Error; err != boom || refused.ID != 0 { //nolint:errorlint // as below
					return fmt.Errorf("refused: %w, and its ID is %d", err, refused.ID)
				}
				return tx.Create(items[i+1]).Error
			}
		}
		err := db.Create(items[0]).Error
		if err != fail { //nolint:errorlint // nothing else may have failed
			t.Fatalf("create: %v", err)
		}
		for i, item := range items {
			if kept := item.ID != 0; kept == (fail != nil) {
				t.Fatalf("turn %d: row %d of a transaction that ended in %v has the ID %d", turn, i, fail, item.ID)
			}
		}
	}
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM items"), depth)
}
