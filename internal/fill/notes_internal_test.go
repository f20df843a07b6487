package fill

import (
	"context"
	"database/sql"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// A statement in a transaction goes to the database of that, which database/sql does not tell. Should a version
// of Go keep the pool elsewhere, this test says so.
//
//nolint:paralleltest // It counts allocations.
func TestThePoolOfEveryKindOfHandleIsFound(t *testing.T) {
	for name, prepared := range map[string]bool{"plain": false, "prepared": true} {
		db := dbtest.Named("sqlite").Open(t, &gorm.Config{PrepareStmt: prepared})
		want, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		n := NewNotes(func(context.Context, string, *sql.DB, bool) error { return nil })
		check := func(what string, pool gorm.ConnPool) {
			t.Helper()
			if got, pinned := n.poolOf(pool); got != want || pinned != (what != "handle") {
				t.Errorf("%s, %s: the pool of a %T is %p, pinned %t, want %p", name, what, pool, got, pinned, want)
			}
			if allocations := testing.AllocsPerRun(10, func() { n.poolOf(pool) }); allocations != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, allocations)
			}
		}
		check("handle", db.Statement.ConnPool)
		err = db.Transaction(func(tx *gorm.DB) error {
			check("transaction", tx.Statement.ConnPool)
			return nil
		})
		if err == nil {
			err = db.Connection(func(tx *gorm.DB) error {
				check("connection", tx.Statement.ConnPool)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
