package fill_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// TestOneCell looks at creates of one struct with one key, without hooks and associations. The plugin does
// less bookkeeping for them than for all others.
func TestOneCell(t *testing.T) {
	run(t, []behavior{
		{Name: "one struct is filled whichever callback is removed or replaced", Run: removedCallbacksOneCell},
		{Name: "an ID that is in no row is taken back", Run: oneCellTakenBack},
		{Name: "an ID that is in a row stays, and so does one of the application", Run: oneCellKept},
		{Name: "a conflict clause that a callback adds after the fill leaves no phantom", Run: lateConflict},
	})
}

func removedCallbacksOneCell(t *testing.T, target database) {
	eachRemoval(t, target, func(t *testing.T, db *gorm.DB) {
		for _, name := range []string{"one", "two"} {
			a := account{Email: name}
			must(t, db.Create(&a).Error, "create")
			accountStored(t, db, a)
			if a.ID == 0 {
				t.Errorf("%s has no key", name)
			}
		}
	})
}

func oneCellTakenBack(t *testing.T, target database) {
	for name, cfg := range map[string]*gorm.Config{
		"default transactions": {}, "none": {SkipDefaultTransaction: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, target, cfg, &account{})
			must(t, db.Create(&account{Email: takenEmail}).Error, "create the row in the way")
			fails, kept := account{Email: takenEmail}, account{ID: 7, Email: takenEmail}
			wantErr(t, db.Create(&fails).Error, nil, "create again")
			same(t, "the ID of the struct", fails.ID, 0)
			wantErr(t, db.Create(&kept).Error, nil, "create with a key")
			same(t, "the key of the application", kept.ID, 7)
			fails.Email = "free@example.com"
			must(t, db.Create(&fails).Error, "create at last")
			accountStored(t, db, fails)
		})
	}
}

// oneCellKept lets a callback of the application fail when the row is inserted. Only a transaction takes
// the row back then.
func oneCellKept(t *testing.T, target database) {
	errLate := errors.New("too late")
	for name, end := range map[string]string{
		"default transactions": "gorm:commit_or_rollback_transaction", "none": "snowflake:reset",
	} {
		t.Run(name, func(t *testing.T) {
			skip := name == "none"
			db := open(t, target, &gorm.Config{SkipDefaultTransaction: skip}, &account{})
			must(t, db.Callback().Create().After("snowflake:reconcile").Before(end).
				Register("test:late", func(db *gorm.DB) { _ = db.AddError(errLate) }), "register")
			a := account{Email: "a@example.com"}
			wantErr(t, db.Create(&a).Error, errLate, "create")
			if !skip {
				same(t, "the ID of a row that was rolled back", a.ID, 0)
				return
			}
			if a.ID == 0 {
				t.Fatal("the row is stored, and the struct has lost its ID")
			}
			accountStored(t, db, a)

			must(t, db.Callback().Create().After("snowflake:fill").Before("gorm:create").
				Register("test:own", func(db *gorm.DB) {
					if a, ok := db.Statement.Dest.(*account); ok {
						a.ID = 9
					}
					_ = db.AddError(errLate)
				}), "register")
			own := account{Email: "own@example.com"}
			wantErr(t, db.Create(&own).Error, errLate, "create with a callback that sets the key")
			same(t, "the key that the callback has set", own.ID, 9)
		})
	}
}

func lateConflict(t *testing.T, target database) {
	db := open(t, target, nil, &account{})
	first := account{Email: takenEmail}
	must(t, db.Create(&first).Error, "create")
	var filled snowflakeplugin.ID
	must(t, db.Callback().Create().After("snowflake:fill").Before("snowflake:before_insert").
		Register("test:conflict", func(db *gorm.DB) {
			if a, ok := db.Statement.Dest.(*account); ok {
				filled = a.ID
			}
			db.Statement.AddClause(doNothing())
		}), "register")
	again, other := account{Email: takenEmail}, account{Email: "other@example.com"}
	must(t, db.Create(&again).Error, "create again")
	same(t, "the ID of the struct that met a row", again.ID, first.ID)
	must(t, db.Create(&other).Error, "create another")
	same(t, "the ID of the struct that met none", other.ID, filled)
	accountStored(t, db, other)
}
