package statements_test

import (
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// keyUpsertBehaviors test which key causes the conflict.
func keyUpsertBehaviors() []behavior {
	indexed := []string{"sqlite", "postgres"} // conditions on indexes and on updates
	return []behavior{
		{Name: "DoUpdates with a condition never gives two structs one ID", Only: indexed,
			Run: upsertsWithACondition},
		{Name: "a soft-deleted row that is met gives its ID", Run: upsertsMeetDeletedRows},
		{Name: "a row met through a case-insensitive collation gives its ID",
			Only: []string{"mysql"}, Run: upsertsMeetThroughCollation},
		{Name: "two unique keys that meet two rows give the ID of one of them",
			Run: upsertsMeetTwoRows},
		{Name: "a row met by the second key gives its ID", Run: upsertsMeetBySecondKey},
		{Name: "a NULL in a key meets nothing", Run: upsertsWithNullKeys},
		{Name: "duplicates inside one DoNothing get the ID of the one row",
			Run: upsertsOfDuplicates},
		{Name: "duplicates inside one DoUpdates get the ID of the one row, or an error and none",
			Run: upsertsUpdatingDuplicates},
		{Name: "a constraint named as the target gives the existing ID", Only: []string{"postgres"},
			Run: upsertsOnAConstraint},
		{Name: "a constraint that the model does not know leaves zero",
			Only: []string{"postgres"}, Run: upsertsOnAnUnknownConstraint},
		{Name: "a unique key that the model does not know leaves the stored ID or zero",
			Run: upsertsOnAnUnknownKey},
		{Name: "a target that two rows share leaves zero", Only: []string{"mysql"},
			Run: upsertsOnASharedTarget},
		{Name: "an expression as the target leaves the stored ID or zero", Only: indexed,
			Run: upsertsOnAnExpression},
		{Name: "a partial index never gives the ID of a dead row", Only: indexed,
			Run: upsertsOnAPartialIndex},
		{Name: "a partial index that is not named never gives the ID of a dead row", Only: indexed,
			Run: upsertsOnAnUnnamedPartialIndex},
		{Name: "an update that changes the key itself leaves the stored ID or zero",
			Run: upsertsThatMoveTheKey},
		{Name: "an ID given by the user stays, whatever row is met", Run: upsertsWithOwnIDs},
		{Name: "keys of several columns, odd names and other types find their rows",
			Run: upsertsOnOddKeys},
		{Name: "a key that the database gives does not lead to another row",
			Run: upsertsBesideADatabaseKey},
		{Name: "a composite key whose other column is rounded keeps the ID of its row",
			Run: upsertsWithRoundedKeys},
		{Name: "another table than the model's is the one that is searched",
			Run: upsertsIntoAnotherTable},
	}
}

// upsertsWithACondition updates only some of the conflicting rows. RETURNING returns only those
// rows, and GORM reads them by position.
func upsertsWithACondition(t *testing.T, target dbtest.Target) {
	conflict := onEmail()
	conflict.Where = clause.Where{Exprs: []clause.Expression{
		clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: "name"}, Value: "open"},
	}}
	for name, unprepared := range map[string]bool{"prepared": false, "without Prepare": true} {
		db := openAs(t, target, opening{unprepared: unprepared}, &memberByInt{})
		for returning, tx := range map[string]*gorm.DB{
			"returning nothing":  db.Clauses(conflict),
			"returning the key":  db.Clauses(conflict, clause.Returning{Columns: onColumn("id")}),
			"returning the name": db.Clauses(conflict, clause.Returning{Columns: onColumn("name")}),
		} {
			t.Run(name+" "+returning, func(t *testing.T) {
				plainExec(t, db, "DELETE FROM member_by_ints",
					"INSERT INTO member_by_ints (id, email, name) VALUES "+
						"(11, 'alice', 'locked'), (12, 'bob', 'open'), (13, 'carol', 'locked')")
				all := []memberByInt{{Email: "alice", Name: "new"}, {Email: "bob", Name: "new"},
					{Email: "carol", Name: "new"}, {Email: "dave", Name: "new"}}
				succeed(t, tx.Create(&all))
				for i, want := range []int64{11, 12, 13} {
					wantInt(t, "the key of "+all[i].Email, all[i].ID, want)
				}
				wantStored(t, db, all[3].ID, "SELECT id FROM member_by_ints WHERE email = 'dave'")
				wantInt(t, "the number of rows that kept their name", plainOne[int64](t, db,
					"SELECT count(*) FROM member_by_ints WHERE name = 'locked'"), 2)
			})
		}
	}
}

func upsertsMeetDeletedRows(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &mailbox{})
	plainExec(t, db, "INSERT INTO mailboxes (id, address, deleted_at) VALUES "+
		"(77, 'dead', '2020-01-01 00:00:00')")
	one, all := mailbox{Address: "dead"}, []mailbox{{Address: "dead"}, {Address: "alive"}}
	succeed(t, db.Clauses(doNothing()).Create(&one))
	succeed(t, db.Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID of the struct", one.ID, 77)
	wantInt(t, "the ID in the slice", all[0].ID, 77)
	wantStored(t, db, all[1].ID, "SELECT id FROM mailboxes WHERE address = 'alive'")
	if deleted := plainRows[int64](t, db, "SELECT id FROM mailboxes WHERE deleted_at IS NOT NULL"); len(
		deleted) != 1 || deleted[0] != 77 {
		t.Errorf("deleted rows are %d, want 77 alone", deleted)
	}
}

func upsertsMeetThroughCollation(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (77, 'Foo', 'old')")
	for _, c := range upsertClauses {
		all := []memberByID{{Email: "foo", Name: "new"}, {Email: c.name, Name: "new"}}
		succeed(t, db.Clauses(c.clause).Create(&all))
		wantInt(t, "the ID of foo", all[0].ID, 77)
		wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ids WHERE email = ?", c.name)
	}
}

func upsertsMeetTwoRows(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &contact{})
	plainExec(t, db, "INSERT INTO contacts (id, email, phone, name) VALUES "+
		"(71, 'alice', '1', 'old'), (72, 'bob', '2', 'old')")
	between := contact{Email: "alice", Phone: pointerTo("2"), Name: "new"}
	succeed(t, db.Clauses(doNothing()).Create(&between))
	wantInt(t, "the ID, that of the first key", between.ID, 71)
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM contacts"), 2)
	wantInt(t, "the number of old rows",
		plainOne[int64](t, db, "SELECT count(*) FROM contacts WHERE name = 'old'"), 2)
}

func upsertsMeetBySecondKey(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &contact{})
	plainExec(t, db, "INSERT INTO contacts (id, email, phone, name) VALUES (71, 'alice', '1', 'old')")
	for _, c := range []clause.OnConflict{
		doNothing(),
		{Columns: onColumn("phone"), DoNothing: true},
		{Columns: onColumn("phone"), DoUpdates: clause.AssignmentColumns([]string{"name"})},
		{Columns: onColumn("phone"), UpdateAll: true},
	} {
		all := []contact{
			{Email: "moved", Phone: pointerTo("1"), Name: "new"},
			{Email: "other", Phone: pointerTo("9"), Name: "new"},
		}
		succeed(t, db.Clauses(c).Create(&all))
		wantInt(t, "the ID of the row with phone 1", all[0].ID, 71)
		wantStored(t, db, all[1].ID, "SELECT id FROM contacts WHERE phone = '9'")
		plainExec(t, db, "DELETE FROM contacts WHERE phone = '9'")
	}
	email := plainOne[string](t, db, "SELECT email FROM contacts WHERE id = 71")
	if email != "moved" {
		t.Errorf("UpdateAll left the email %q", email)
	}
}

func upsertsWithNullKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &contact{})
	plainExec(t, db, "INSERT INTO contacts (id, email, phone) VALUES (71, 'alice', NULL)")
	all := []contact{{Email: "bob"}, {Email: "alice"}, {Email: "carol"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID of alice", all[1].ID, 71)
	for _, c := range all {
		wantStored(t, db, c.ID, "SELECT id FROM contacts WHERE email = ?", c.Email)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM contacts"), 3)
}

func upsertsOfDuplicates(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	all := []*memberByID{{Email: "alice", Name: "1"}, {Email: "bob"}, {Email: "alice", Name: "2"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	for _, m := range all {
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
	if name := plainOne[string](t, db, "SELECT name FROM member_by_ids WHERE email = 'alice'"); name != "1" {
		t.Errorf("the name is %q, want that of the first", name)
	}
}

func upsertsUpdatingDuplicates(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	all := []*memberByID{{Email: "alice", Name: "1"}, {Email: "bob"}, {Email: "alice", Name: "2"}}
	err := db.Clauses(onEmail()).Create(&all).Error
	if target.Dialect == "postgres" { // "cannot affect row a second time"
		if err == nil || all[0].ID != 0 || all[1].ID != 0 || all[2].ID != 0 {
			t.Errorf("IDs are %d, %d, %d with %v; want an error and none",
				all[0].ID, all[1].ID, all[2].ID, err)
		}
		wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 0)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
	if name := plainOne[string](t, db, "SELECT name FROM member_by_ids WHERE email = 'alice'"); name != "2" {
		t.Errorf("the name is %q, want that of the last", name)
	}
}

// upsertsWithOwnIDs conflicts with row 5 although its element has the key 9. The plugin must not
// correct the user's key, but it must correct the public ID.
func upsertsWithOwnIDs(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (5, 500, 'taken')")
	all := []document{{ID: 9, Slug: "taken"}, {ID: 10, Slug: "free"}, {Slug: "other", PublicID: 600}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID that the user gave", all[0].ID, 9)
	wantInt(t, "the public ID of the row that was met", all[0].PublicID, 500)
	wantStored(t, db, all[1].ID, "SELECT id FROM documents WHERE slug = 'free'")
	wantStored(t, db, all[1].PublicID, "SELECT public_id FROM documents WHERE id = 10")
	wantStored(t, db, all[2].ID, "SELECT id FROM documents WHERE slug = 'other'")
	wantInt(t, "the public ID that the user gave", all[2].PublicID, 600)
	wantInt(t, "its row's", plainOne[int64](t, db,
		"SELECT public_id FROM documents WHERE slug = 'other'"), 600)
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 3)
}

// upsertsThatMoveTheKey search for a row whose key was changed by the update.
func upsertsThatMoveTheKey(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (77, 'alice', 'old')")
	all := []memberByID{{Email: "alice"}, {Email: "bob"}}
	succeed(t, db.Clauses(clause.OnConflict{Columns: onColumn("email"),
		DoUpdates: clause.Assignments(map[string]any{"email": "moved"})}).Create(&all))
	if id := all[0].ID; id != 0 && id != 77 {
		t.Errorf("the struct holds %d, which is no row's", id)
	}
	wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ids WHERE email = 'bob'")
	wantInt(t, "the row that moved", plainOne[int64](t, db,
		"SELECT id FROM member_by_ids WHERE email = 'moved'"), 77)
}

func upsertsIntoAnotherTable(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	if err := db.Table("guests").AutoMigrate(&memberByID{}); err != nil {
		t.Fatal(err)
	}
	plainExec(t, db, "INSERT INTO member_by_ids (id, email) VALUES (77, 'alice'), (78, 'bob')",
		"INSERT INTO guests (id, email) VALUES (87, 'alice')")
	all := []memberByID{{Email: "alice"}, {Email: "bob"}}
	succeed(t, db.Table("guests").Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID of alice the guest", all[0].ID, 87)
	wantStored(t, db, all[1].ID, "SELECT id FROM guests WHERE email = 'bob'")
	wantInt(t, "the number of members", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 2)
}

type (
	// visit has a key of an ID and a time, which partitioned tables need, and a unique key.
	visit struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
		At    time.Time          `gorm:"primaryKey"`
		Token string             `gorm:"size:100;uniqueIndex"`
	}
	// reading has no other key and belongs to a sensor.
	reading struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
		At       time.Time          `gorm:"primaryKey"`
		SensorID snowflakeplugin.ID
		Label    string `gorm:"size:50"`
	}
	sensor struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Readings []reading
	}
)

// upsertsWithRoundedKeys use a time with more digits than the databases store.
func upsertsWithRoundedKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &visit{}, &sensor{}, &reading{})
	at := time.Date(2025, 3, 1, 12, 0, 0, 123456789, time.UTC)
	all := []visit{{At: at, Token: "one"}, {At: at, Token: "two"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	again := []visit{{At: at, Token: "two"}, {At: at, Token: "three"}}
	succeed(t, db.Clauses(doNothing()).Create(&again))
	for _, v := range append(all, again...) {
		wantStored(t, db, v.ID, "SELECT id FROM visits WHERE token = ?", v.Token)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM visits"), 3)

	readings := []reading{{At: at, Label: "a"}, {At: at, Label: "b"}}
	s := sensor{Readings: readings}
	succeed(t, db.Create(&s))
	alone := []reading{{At: at, Label: "c", SensorID: s.ID}, {At: at, Label: "d", SensorID: s.ID}}
	succeed(t, db.Clauses(doNothing()).Create(&alone))
	for _, r := range append(s.Readings, alone...) {
		wantStored(t, db, r.ID, "SELECT id FROM readings WHERE label = ?", r.Label)
	}
	wantInt(t, "the number of readings", plainOne[int64](t, db, "SELECT count(*) FROM readings"), 4)
}
