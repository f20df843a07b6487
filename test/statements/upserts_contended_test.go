package statements_test

import (
	"database/sql"
	"errors"
	"math"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// contendedUpsertBehaviors test other connections that use the same rows.
func contendedUpsertBehaviors() []behavior {
	return []behavior{
		{Name: "REPEATABLE READ gives the ID of a row that the transaction cannot see",
			Only: []string{"mysql"}, Run: contendedUnderSnapshot},
		{Name: "REPEATABLE READ fails with 40001 and takes the IDs back",
			Only: []string{"postgres"}, Run: contendedUnderSerialization},
		{Name: "an upsert does not hold up the insert of a higher ID", Only: []string{"mysql"},
			Run: contendedInserts},
	}
}

// contendedUnderSnapshot lets another connection insert alice after the snapshot was taken.
func contendedUnderSnapshot(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{}, &language{}, &publisher{}, &book{})
	// With this variable on, a locking read of such a row returns an error instead.
	var strict []struct{ Value string }
	succeed(t, db.Raw("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&strict))
	refused := len(strict) == 1 && strict[0].Value == "ON" // MySQL has no such variable
	for _, c := range upsertClauses {
		t.Run(c.name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM member_by_ids")
			tx := db.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			defer tx.Rollback()
			wantInt(t, "the number of rows in the snapshot",
				plainOne[int64](t, tx, "SELECT count(*) FROM member_by_ids"), 0)
			plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (99, 'alice', 'old')")
			all := []memberByID{{Email: "alice", Name: "new"}, {Email: "bob", Name: "new"}}
			err := tx.Clauses(c.clause).Create(&all).Error
			if refused && err != nil {
				wantInt(t, "the ID after an error", all[0].ID, 0)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			succeed(t, tx.Commit())
			wantInt(t, "the ID of the row outside of the snapshot", all[0].ID, 99)
			wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ids WHERE email = 'bob'")
		})
	}
	t.Run("nested", func(t *testing.T) {
		tx := db.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		defer tx.Rollback()
		plainOne[int64](t, tx, "SELECT count(*) FROM languages")
		plainExec(t, db, "INSERT INTO languages (id, code) VALUES (77, 'zh')")
		b := book{Title: "one", Languages: []language{{Code: "zh"}}}
		err := tx.Create(&b).Error
		if refused && err != nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		succeed(t, tx.Commit())
		checkLanguages(t, db, b)
		wantInt(t, "the ID of zh", b.Languages[0].ID, 77)
	})
}

func contendedUnderSerialization(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	for _, c := range upsertClauses {
		t.Run(c.name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM member_by_ids")
			tx := db.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			defer tx.Rollback()
			plainOne[int64](t, tx, "SELECT count(*) FROM member_by_ids")
			plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (99, 'alice', 'old')")
			all := []memberByID{{Email: "alice"}, {Email: "bob", ID: 5}}
			err := tx.Clauses(c.clause).Create(&all).Error
			var state interface{ SQLState() string }
			if !errors.As(err, &state) || state.SQLState() != "40001" {
				t.Fatalf("error is %v, want SQLSTATE 40001", err)
			}
			wantInt(t, "the generated ID", all[0].ID, 0)
			wantInt(t, "the ID of the user", all[1].ID, 5)
			succeed(t, tx.Rollback())
			succeed(t, db.Clauses(c.clause).Create(&all)) // the retry of the application
			wantInt(t, "the ID after the retry", all[0].ID, 99)
			wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ids WHERE email = 'bob'")
		})
	}
}

// contendedInserts leaves a transaction open after an upsert and inserts on another connection. A
// lock on the gap at the end of the key would make the second connection wait and fail after a
// second. On MySQL the upsert itself takes that lock under REPEATABLE READ, whoever sends it, so the
// plugin must not be worse, and READ COMMITTED is the remedy.
func contendedInserts(t *testing.T, target dbtest.Target) {
	updates := clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"name"})}
	insert := "INSERT INTO member_by_ids (id, email, name) VALUES "
	plain := map[string]string{
		"that inserted":  insert + "(1000, 'bob', '') ON DUPLICATE KEY UPDATE id = id",
		"that met a row": insert + "(1000, 'alice', '') ON DUPLICATE KEY UPDATE id = id",
		"that did both": insert + "(1000, 'alice', ''), (1001, 'bob', '') " +
			"ON DUPLICATE KEY UPDATE name = VALUES(name)",
		"that met a row which is not found": "INSERT INTO badges (id, public_id, number) VALUES (1000, 1001, 'alice') " +
			"ON DUPLICATE KEY UPDATE id = id",
	}
	for name, upsert := range map[string]func(tx *gorm.DB) *gorm.DB{
		"that inserted": func(tx *gorm.DB) *gorm.DB {
			return tx.Clauses(doNothing()).Create(&memberByID{Email: "bob"})
		},
		"that met a row": func(tx *gorm.DB) *gorm.DB {
			return tx.Clauses(doNothing()).Create(&memberByID{Email: "alice"})
		},
		"that did both": func(tx *gorm.DB) *gorm.DB {
			return tx.Clauses(updates).Create(&[]memberByID{{Email: "alice"}, {Email: "bob"}})
		},
		"that met a row which is not found": func(tx *gorm.DB) *gorm.DB {
			return tx.Clauses(doNothing()).Create(&badge{Number: "alice"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			level := sql.LevelRepeatableRead
			byHand := func(tx *gorm.DB) *gorm.DB { return tx.Session(&gorm.Session{NewDB: true}).Exec(plain[name]) }
			if held := contendedInsert(t, target, level, byHand); held != nil {
				t.Logf("after plain SQL, another insert ends with: %v", held)
				if !target.IsMySQL(t) {
					t.Error("this server holds up inserts by itself; the documentation says it of MySQL only")
				}
				level = sql.LevelReadCommitted
				if err := contendedInsert(t, target, level, byHand); err != nil {
					t.Fatalf("READ COMMITTED is no remedy: %v", err)
				}
			}
			if err := contendedInsert(t, target, level, upsert); err != nil {
				t.Error(err)
			}
		})
	}
}

// contendedInsert returns the error of an insert that runs while a transaction of this isolation is
// open after an upsert.
func contendedInsert(
	t *testing.T, target dbtest.Target, level sql.IsolationLevel, upsert func(tx *gorm.DB) *gorm.DB,
) error {
	t.Helper()
	// This uses a separate table, because InnoDB locks more where rows were deleted.
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, nil)
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	must(t, db.AutoMigrate(&memberByID{}, &badge{}), "AutoMigrate")
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'alice')")
	other := target.OpenDSN(t, dsn, nil, dbtest.DSNParam("innodb_lock_wait_timeout", "1"))
	tx := db.Begin(&sql.TxOptions{Isolation: level})
	defer tx.Rollback()
	succeed(t, upsert(tx))
	if err := errors.Join(other.Create(&memberByID{ID: math.MaxInt64, Email: "zoe"}).Error,
		other.Create(&badge{ID: math.MaxInt64, PublicID: 1, Number: "zoe"}).Error); err != nil {
		return err
	}
	succeed(t, tx.Commit())
	wantInt(t, "the number of rows of zoe", plainOne[int64](t, db, "SELECT "+
		"(SELECT count(*) FROM member_by_ids WHERE email = 'zoe') + "+
		"(SELECT count(*) FROM badges WHERE number = 'zoe')"), 2)
	return nil
}
