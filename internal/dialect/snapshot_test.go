package dialect_test

import (
	"os"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// With innodb_snapshot_isolation, which is on by default since MariaDB 11.6, a transaction cannot change a
// row that somebody has changed since its snapshot. The server rolls the whole transaction back, so it may
// succeed if it is done again from its beginning.
func TestARowThatHasChangedSinceTheSnapshotIsBusy(t *testing.T) {
	t.Parallel()
	db := dbtest.Named("mariadb").Open(t, &gorm.Config{})
	const option = "SET SESSION innodb_snapshot_isolation = ON"
	if err := db.Exec(option).Error; dialect.State(err) == "1193" {
		t.Skipf("the server has no such variable: %v", err)
	}
	run := func(db *gorm.DB, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	number := func(db *gorm.DB, query string) (n int) {
		t.Helper()
		if err := db.Raw(query).Scan(&n).Error; err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	run(db, "CREATE TABLE items (id INT PRIMARY KEY, n INT)", "INSERT INTO items VALUES (1, 0)")
	err := db.Connection(func(one *gorm.DB) error {
		one = one.Session(&gorm.Session{}) // which does not keep the error of a statement
		run(one, option, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN")
		run(one, "INSERT INTO items VALUES (2, 0)")
		_ = number(one, "SELECT n FROM items WHERE id = 1") // takes the snapshot
		run(db, "UPDATE items SET n = 1 WHERE id = 1")
		err := one.Exec("UPDATE items SET n = n + 10 WHERE id = 1").Error
		if !dialect.Busy(err) || dialect.Locked(err) {
			t.Errorf("busy: %t, locked: %t: %v", dialect.Busy(err), dialect.Locked(err), err)
		}
		run(one, "COMMIT") // of nothing
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := number(db, "SELECT COUNT(*) FROM items"); n != 1 {
		t.Errorf("%d rows, want the first one alone", n)
	}
}
