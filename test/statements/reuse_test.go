package statements_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

var errTakenBack = errors.New("taken back")

func statementsInNestedTransactions(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	outer, inner := memberByID{Email: "outer"}, memberByID{Email: "inner"}
	var before snowflakeplugin.ID
	err := db.Transaction(func(tx *gorm.DB) error {
		succeed(t, tx.Create(&outer))
		err := tx.Transaction(func(tx *gorm.DB) error {
			succeed(t, tx.Create(&inner))
			before = inner.ID
			return errTakenBack
		})
		if !errors.Is(err, errTakenBack) {
			t.Errorf("error is %v", err)
		}
		wantInt(t, "the number of rows after the savepoint",
			plainOne[int64](t, tx, "SELECT count(*) FROM member_by_ids"), 1)
		return tx.Create(&inner).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	if before == 0 || inner.ID != before {
		t.Errorf("the ID was %d and is %d: a rollback by the user keeps it", before, inner.ID)
	}
	for _, m := range []memberByID{outer, inner} {
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 2)
}

func statementsBetweenSavepoints(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	tx := db.Begin()
	defer tx.Rollback()
	all := []memberByID{{Email: "a"}, {Email: "b"}}
	succeed(t, tx.SavePoint("halfway"))
	succeed(t, tx.Clauses(doNothing()).Create(&all))
	ids := []snowflakeplugin.ID{all[0].ID, all[1].ID}
	succeed(t, tx.RollbackTo("halfway"))
	wantInt(t, "the number of rows", plainOne[int64](t, tx, "SELECT count(*) FROM member_by_ids"), 0)
	succeed(t, tx.Clauses(doNothing()).Create(&all))
	succeed(t, tx.Commit())
	for i, m := range all {
		wantInt(t, "the ID", m.ID, ids[i])
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
}

// picky fails after its INSERT if its name is bad.
type picky struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
	Email    string             `gorm:"size:100;uniqueIndex"`
	Name     string             `gorm:"size:100"`
}

func (p *picky) AfterCreate(*gorm.DB) error {
	if p.Name == "bad" {
		return errTakenBack
	}
	return nil
}

// statementsReused uses one statement repeatedly, as a handle with clauses does.
func statementsReused(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &picky{})
	plainExec(t, db, "INSERT INTO pickies (id, public_id, email) VALUES (77, 500, 'alice')")
	tx := db.Clauses(doNothing())
	met, fresh := picky{Email: "alice"}, []picky{{Email: "bob"}, {Email: "carol"}}
	given, bad := picky{ID: 5, PublicID: 6, Email: "alice"}, picky{Email: "dave", Name: "bad"}

	succeed(t, tx.Create(&met))
	wantInt(t, "the ID of the first", met.ID, 77)
	// Later searches must not write to the first struct.
	met.ID, met.PublicID = 1, 2
	succeed(t, tx.Create(&fresh))
	bob := fresh[0]
	fresh[0] = picky{ID: 3, PublicID: 4}
	succeed(t, tx.Create(&given)) // nothing is generated for it
	wantInt(t, "the ID of the user", given.ID, 5)
	wantInt(t, "the public ID of the user", given.PublicID, 6)
	if err := tx.Create(&bad).Error; !errors.Is(err, errTakenBack) {
		t.Fatalf("error is %v", err)
	}
	if bad.ID != 0 || bad.PublicID != 0 {
		t.Errorf("%+v kept an ID of a row that was taken back", bad)
	}
	if met.ID != 1 || met.PublicID != 2 || fresh[0].ID != 3 || fresh[0].PublicID != 4 {
		t.Errorf("%+v or %+v was written to by a later create", met, fresh[0])
	}
	for _, p := range []picky{bob, fresh[1]} {
		wantStored(t, db, p.ID, "SELECT id FROM pickies WHERE email = ?", p.Email)
		wantStored(t, db, p.PublicID, "SELECT public_id FROM pickies WHERE email = ?", p.Email)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM pickies"), 3)
}

// statementsReusedAfterError continues with a handle that has failed. GORM then does nothing.
func statementsReusedAfterError(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &picky{})
	tx := db.Clauses(doNothing())
	good, bad, after := picky{Email: "a"}, picky{Email: "b", Name: "bad"}, picky{Email: "c"}
	succeed(t, tx.Create(&good))
	if err := tx.Create(&bad).Error; !errors.Is(err, errTakenBack) {
		t.Fatalf("error is %v", err)
	}
	if err := tx.Create(&after).Error; err == nil {
		t.Fatal("the handle forgot its error")
	}
	wantStored(t, db, good.ID, "SELECT id FROM pickies")
	if bad.ID != 0 || after.ID != 0 {
		t.Errorf("%+v or %+v has an ID that is in no row", bad, after)
	}
}

func statementsInASession(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &picky{})
	plainExec(t, db, "INSERT INTO pickies (id, public_id, email) VALUES (77, 500, 'alice')")
	session := db.Clauses(doNothing()).Session(&gorm.Session{})
	for range 2 {
		bad := []picky{{Email: "alice"}, {Email: "bob", Name: "bad"}}
		if err := session.Create(&bad).Error; !errors.Is(err, errTakenBack) {
			t.Fatalf("error is %v", err)
		}
		for _, p := range bad {
			if p.ID != 0 && p.ID != 77 || p.PublicID != 0 && p.PublicID != 500 {
				t.Errorf("%+v has an ID that is in no row", p)
			}
		}
		good := picky{Email: "alice"}
		succeed(t, session.Create(&good))
		wantInt(t, "the ID after an error", good.ID, 77)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM pickies"), 1)
}

type (
	bundle struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `snowflake:"true"`
		Label    string             `gorm:"size:50"`
	}
	// sealed has a public ID that is written only once.
	sealed struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `gorm:"<-:create" snowflake:"true"`
		Label    string             `gorm:"size:50"`
	}
)

// statementsOfSave fixes what happens to a field that is not the key: Save writes every column,
// including a zero, as an UPDATE does. A field with <-:create keeps its value.
func statementsOfSave(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &bundle{}, &sealed{})
	open, shut := bundle{Label: "old"}, sealed{Label: "old"}
	succeed(t, db.Create(&open))
	succeed(t, db.Create(&shut))
	publicID := shut.PublicID
	wantStored(t, db, open.PublicID, "SELECT public_id FROM bundles")
	wantStored(t, db, shut.PublicID, "SELECT public_id FROM sealeds")

	succeed(t, db.Save(&bundle{ID: open.ID, Label: "new"}))
	succeed(t, db.Save(&sealed{ID: shut.ID, Label: "new"}))
	wantInt(t, "the public ID that was saved as 0",
		plainOne[int64](t, db, "SELECT public_id FROM bundles WHERE label = 'new'"), 0)
	wantInt(t, "the public ID that is written once",
		plainOne[int64](t, db, "SELECT public_id FROM sealeds WHERE label = 'new'"), publicID)

	all := []sealed{{ID: shut.ID, Label: "newer"}, {Label: "fresh"}}
	succeed(t, db.Save(&all))
	for _, s := range all {
		wantStored(t, db, s.PublicID, "SELECT public_id FROM sealeds WHERE id = ?", s.ID)
	}
	wantInt(t, "the public ID after an upsert",
		plainOne[int64](t, db, "SELECT public_id FROM sealeds WHERE label = 'newer'"), publicID)
}

// statementsOfUnchangedSave gets a count of zero rows on MySQL, where GORM continues with an
// upsert.
func statementsOfUnchangedSave(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &bundle{})
	plainExec(t, db, "INSERT INTO bundles (id, public_id, label) VALUES (77, 0, 'same'), (78, 500, 'same')")
	zero, set := bundle{ID: 77, Label: "same"}, bundle{ID: 78, PublicID: 500, Label: "same"}
	succeed(t, db.Save(&zero))
	succeed(t, db.Save(&set))
	wantInt(t, "the public ID in the struct", zero.PublicID, 0)
	wantInt(t, "the public ID in the row",
		plainOne[int64](t, db, "SELECT public_id FROM bundles WHERE id = 77"), 0)
	wantInt(t, "the public ID that is set", set.PublicID, 500)
	wantInt(t, "its row's",
		plainOne[int64](t, db, "SELECT public_id FROM bundles WHERE id = 78"), 500)
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM bundles"), 2)
}
