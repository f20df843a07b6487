package statements_test

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// upsertsReturningAll lets GORM rebuild the slice from the returned rows. With DoNothing the
// existing rows are not returned, except on MariaDB. A struct stays unchanged.
func upsertsReturningAll(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{}, &memberByInt{})
	for _, c := range upsertClauses {
		t.Run(c.name, func(t *testing.T) {
			checkReturning(t, db.Clauses(clause.Returning{}, c.clause), byID)
			checkReturning(t, db.Clauses(clause.Returning{}, c.clause), byInt)
		})
	}
}

func upsertsReturningSome(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{}, &memberByInt{})
	for _, c := range upsertClauses {
		for _, column := range []string{"name", "id"} {
			t.Run(c.name+" returning "+column, func(t *testing.T) {
				returning := clause.Returning{Columns: onColumn(column)}
				checkReturning(t, db.Clauses(returning, c.clause), byID)
				checkReturning(t, db.Clauses(returning, c.clause), byInt)
			})
		}
	}
}

// checkReturning upserts a slice and a struct. Each element then holds the values of a single row.
func checkReturning[T any](t *testing.T, tx *gorm.DB, kind upsertKind[T]) {
	t.Helper()
	tx = tx.Session(&gorm.Session{})
	plain := tx.Session(&gorm.Session{NewDB: true})
	seed := "INSERT INTO " + kind.table + " (id, email, name) VALUES (77, 'alice', 'old'), (78, 'carol', 'old')"
	plainExec(t, plain, "DELETE FROM "+kind.table, seed)

	all := []T{kind.make("alice", "new"), kind.make("bob", "new"), kind.make("carol", "new")}
	succeed(t, tx.Create(&all))
	if len(all) == 0 {
		t.Error("nothing is left of the slice")
	}
	seen := map[string]bool{}
	for _, element := range all {
		seen[kind.email(element)] = true
		wantStored(t, plain, kind.key(element),
			"SELECT id FROM "+kind.table+" WHERE email = ?", kind.email(element))
	}
	if !seen["bob"] {
		t.Error("the new row is not in the slice")
	}
	wantInt(t, "the number of rows",
		plainOne[int64](t, plain, "SELECT count(*) FROM "+kind.table), 3)

	array := [2]*T{pointerTo(kind.make("eve", "new")), pointerTo(kind.make("alice", "new"))}
	succeed(t, tx.Create(&array))
	for _, element := range array {
		// GORM empties the elements of an array whose rows were not returned.
		if element != nil && kind.email(*element) != "" {
			wantStored(t, plain, kind.key(*element),
				"SELECT id FROM "+kind.table+" WHERE email = ?", kind.email(*element))
		}
	}

	met, fresh := kind.make("alice", "new"), kind.make("dave", "new")
	succeed(t, tx.Create(&met))
	wantInt(t, "the key of the row that was met", kind.key(met), 77)
	succeed(t, tx.Create(&fresh))
	wantStored(t, plain, kind.key(fresh), "SELECT id FROM "+kind.table+" WHERE email = 'dave'")
}
