package resharding_test

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// addTrigger makes a trigger that notes what is done to the rows of a table.
func addTrigger(t *testing.T, db *gorm.DB, name, event, table string) {
	t.Helper()
	statement := "INSERT INTO audits (name) VALUES ('" + event + "')"
	begin := fmt.Sprintf("CREATE TRIGGER %s AFTER %s ON %s FOR EACH ROW ", name, event, table)
	var err error
	switch db.Name() {
	case "postgres":
		err = errors.Join(
			db.Exec("CREATE FUNCTION "+name+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+statement+
				"; RETURN NULL; END $$").Error,
			db.Exec(begin+"EXECUTE FUNCTION "+name+"()").Error)
	case "sqlite":
		err = db.Exec(begin + "BEGIN " + statement + "; END").Error
	default:
		err = db.Exec(begin + statement).Error
	}
	must(t, err, "a trigger")
}

func dropTrigger(t *testing.T, db *gorm.DB, name, table string) {
	t.Helper()
	statement := "DROP TRIGGER " + name
	if db.Name() == "postgres" {
		statement += " ON " + table
	}
	must(t, db.Exec(statement).Error, "DROP TRIGGER")
}

// Rows that only move would be noted as deleted or created.
func TestTriggersThatAMoveWouldSetOffAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 40, db)
		must(t, db.Exec("CREATE TABLE audits (name VARCHAR(20))").Error, "a table")
		const old, fresh = "doubled_orders_01", "doubled_orders_05"
		refused := func(err error, words ...string) {
			t.Helper()
			wantErr(t, err, snowflakeplugin.ErrSharding, fmt.Sprint(words))
			says(t, err, words...)
		}
		for _, event := range []string{"DELETE", "INSERT"} {
			addTrigger(t, db, "noting_"+event, event, old)
			_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
			refused(err, "noting_", event, old, "drop it first")
			dropTrigger(t, db, "noting_"+event, old)
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		addTrigger(t, db, "late", "DELETE", old)
		_, err := resharding.Cutover(t.Context())
		refused(err, "late", old)
		d.check(d.router, "after a Cutover that was refused")
		dropTrigger(t, db, "late", old)

		addTrigger(t, db, "noting_changes", "UPDATE", old)
		_, err = resharding.Cutover(t.Context())
		refused(err, "1 triggers on UPDATE", old, fresh)
		addTrigger(t, db, "noting_changes_too", "UPDATE", fresh)
		_, err = resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		d.check(d.router, "after Cutover")
		addTrigger(t, db, "coming_back", "INSERT", old)
		refused(resharding.Undo(t.Context()), "coming_back", old)
		d.check(d.router, "after an Undo that was refused")
		dropTrigger(t, db, "coming_back", old)
		must(t, resharding.Undo(t.Context()), "Undo")
		d.check(d.router, "after Undo")
		var notes int64
		must(t, db.Table("audits").Count(&notes).Error, "the notes")
		same(t, "notes", notes, 0)
	})
}

// A rule or a policy of PostgreSQL lets a statement leave rows out without an error.
func TestWhatHidesRowsFromAReshardingIsRefused(t *testing.T) {
	t.Parallel()
	db := dbtest.Named("postgres").Shared(t).Open(t, nil)
	d := newDoubled(t, 40, db)
	refused := func(words ...string) {
		t.Helper()
		_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, fmt.Sprint(words))
		says(t, err, words...)
	}
	must(t, db.Exec("CREATE RULE kept AS ON DELETE TO doubled_orders_02 DO INSTEAD NOTHING").Error, "a rule")
	refused("the rule kept", "doubled_orders_02", "drop it first")
	must(t, db.Exec("DROP RULE kept ON doubled_orders_02").Error, "DROP RULE")
	must(t, db.Exec("ALTER TABLE doubled_orders_02 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY").Error,
		"row-level security")
	var bypasses bool
	must(t, db.Raw("SELECT NOT row_security_active('doubled_orders_02')").Scan(&bypasses).Error, "the login")
	if !bypasses {
		refused("row-level security", "doubled_orders_02")
	}
	must(t, db.Exec("ALTER TABLE doubled_orders_02 DISABLE ROW LEVEL SECURITY").Error, "row-level security")
	_, err := d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
	must(t, err, "Cutover")
	d.check(d.router, "after Cutover")
}
