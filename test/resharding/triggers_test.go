package resharding_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
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
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 40, db)
		must(t, db.Exec("CREATE TABLE audits (name VARCHAR(20))").Error, "a table")
		const old, fresh = "doubled_orders_01", "doubled_orders_03"
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
		refused(err, "triggers on UPDATE of the table "+old+": 1", fresh+": 0")
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

// The name of a trigger of SQLite may consist of the words by which its event is known, and comments may have them
// as well.
func TestATriggerIsKnownByItsEventAndNotByItsName(t *testing.T) {
	t.Parallel()
	db := named("sqlite").Open(t, nil)
	d := newDoubled(t, 40, db)
	must(t, db.Exec("CREATE TABLE audits (name VARCHAR(20))").Error, "a table")
	for _, begin := range []string{
		`"log update on orders" AFTER DELETE`, `"x update of y" DELETE`, "[update on] BEFORE DELETE",
		"'an ''update on x' AFTER DELETE", "`update on` AFTER DELETE", "plain -- not update on rows\n AFTER DELETE",
		"update_of /* update on rows */ AFTER DELETE", "plain AFTER INSERT",
	} {
		must(t, db.Exec("CREATE TRIGGER "+begin+" ON doubled_orders_01 BEGIN "+
			"INSERT INTO audits (name) VALUES ('update on'); END").Error, begin)
		_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, begin)
		says(t, err, "doubled_orders_01", "drop it first")
		var name string
		must(t, db.Raw("SELECT name FROM sqlite_master WHERE type = 'trigger'").Scan(&name).Error, begin)
		must(t, db.Exec("DROP TRIGGER "+db.Statement.Quote(name)).Error, begin)
	}
	for _, begin := range []string{`"a delete on b" AFTER UPDATE OF name`, "plain UPDATE", "[x] BEFORE UPDATE"} {
		must(t, db.Exec("CREATE TRIGGER "+begin+" ON doubled_orders_01 BEGIN SELECT 1; END").Error, begin)
	}
	_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
	wantErr(t, err, snowflakeplugin.ErrSharding, "Reshard")
	says(t, err, "triggers on UPDATE of the table doubled_orders_01: 3")
}

// A rule or a policy of PostgreSQL lets a statement leave rows out without an error.
func TestWhatHidesRowsFromAReshardingIsRefused(t *testing.T) {
	t.Parallel()
	target := named("postgres").Shared(t)
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, nil)
	d := newDoubled(t, 40, db)
	refused := func(words ...string) {
		t.Helper()
		_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, fmt.Sprint(words))
		says(t, err, words...)
	}
	must(t, db.Exec("CREATE RULE kept AS ON DELETE TO doubled_orders_01 DO INSTEAD NOTHING").Error, "a rule")
	refused("the rule kept", "doubled_orders_01", "drop it first")
	must(t, db.Exec("DROP RULE kept ON doubled_orders_01").Error, "DROP RULE")
	// With it, PostgreSQL inserts nothing that comes with ON CONFLICT, as copies do.
	must(t, db.Exec("CREATE RULE changed AS ON UPDATE TO doubled_orders_01 DO ALSO SELECT 1").Error, "a rule")
	refused("the rule changed", "doubled_orders_01", "drop it first")
	must(t, db.Exec("DROP RULE changed ON doubled_orders_01").Error, "DROP RULE")
	t.Run("row-level security", func(t *testing.T) {
		role := withRole(t, db, dsn)
		must(t, db.Exec("ALTER TABLE doubled_orders_01 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY").Error,
			"row-level security")
		narrow := target.OpenDSN(t, role, nil)
		must(t, narrow.Use(db.Plugins["snowflake"]), "Use")
		rows := &doubled{T: t, dbs: []*gorm.DB{narrow}}
		_, err := rows.open(doubledFrom).Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "with row-level security")
		says(t, err, "row-level security", "doubled_orders_01")
		must(t, db.Exec("ALTER TABLE doubled_orders_01 DISABLE ROW LEVEL SECURITY").Error, "row-level security")
	})
	_, err := d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
	must(t, err, "Cutover")
	d.check(d.router, "after Cutover")
}

// withRole returns the DSN for a role of its own, which may use all tables and is subject to the policies. The
// test is skipped if the login may not make roles.
func withRole(t *testing.T, db *gorm.DB, dsn string) string {
	t.Helper()
	role := "snowflakerole_" + strings.ToLower(rand.Text())
	if err := db.Exec("CREATE ROLE " + role).Error; err != nil {
		t.Skipf("the login of the tests may not create roles: %v", err)
	}
	t.Cleanup(func() {
		must(t, db.Exec("DROP OWNED BY "+role).Error, "what the role has")
		must(t, db.Exec("DROP ROLE "+role).Error, "DROP ROLE")
	})
	var schema string
	must(t, db.Raw("SELECT quote_ident(current_schema())").Scan(&schema).Error, "the schema")
	must(t, db.Exec("GRANT "+role+" TO CURRENT_USER").Error, "GRANT")
	for _, grant := range []string{"ALL ON SCHEMA ", "ALL ON ALL TABLES IN SCHEMA "} {
		must(t, db.Exec("GRANT "+grant+schema+" TO "+role).Error, "GRANT")
	}
	if !strings.Contains(dsn, "://") {
		return dsn + " role=" + role
	}
	address, err := url.Parse(dsn)
	must(t, err, "the DSN")
	query := address.Query()
	query.Set("role", role)
	address.RawQuery = query.Encode()
	return address.String()
}
