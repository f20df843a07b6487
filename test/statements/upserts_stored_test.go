package statements_test

import (
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// storedColumnBehaviors test IDs that are not the key. An existing row keeps its own ID.
func storedColumnBehaviors() []behavior {
	return []behavior{
		{Name: "UpdateAll keeps a stored public ID and updates the rest",
			Run: storedUnderUpdateAll},
		{Name: "UpdateAll keeps the units of update times", Run: storedTimes},
		{Name: "UpdateAll still follows Select and Omit", Run: storedUnderSelectAndOmit},
		{Name: "UpdateAll with nothing else to update keeps the row", Run: storedAlone},
		{Name: "Save of a slice keeps stored public IDs", Run: storedUnderSave},
		{Name: "Save of a struct whose row is gone gives it a public ID", Run: storedUnderSaveOfOne},
		{Name: "FullSaveAssociations keeps stored public IDs", Run: storedUnderFullSave},
		{Name: "DoUpdates that names the public ID writes the fresh one", Run: storedUnlessNamed},
		{Name: "a public ID given by the user is written by UpdateAll", Run: storedUnlessGiven},
		{Name: "given and generated public IDs in one UpdateAll end as they are stored",
			Run: storedBesideGiven},
		{Name: "IDs of every kind of field are loaded from the row that is met",
			Run: storedInEveryKind},
	}
}

// openDocuments stores document 77 with the public ID 500, created and changed in 2020.
func openDocuments(t *testing.T, target dbtest.Target, cfg *gorm.Config) *gorm.DB {
	t.Helper()
	db := openAs(t, target, opening{cfg: cfg}, &folder{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug, title, created_at, updated_at, "+
		"updated_sec, updated_milli, updated_nano, revision) VALUES (77, 500, 'taken', 'old', "+
		"'2020-01-01 00:00:00', '2020-01-01 00:00:00', 1, 2, 3, 4)")
	return db
}

// onSlug updates all columns if the slug exists.
func onSlug() clause.OnConflict {
	return clause.OnConflict{Columns: onColumn("slug"), UpdateAll: true}
}

// checkStored checks document 77 against its row, and that the row kept its public ID.
func checkStored(t *testing.T, db *gorm.DB, d document, title string) {
	t.Helper()
	wantInt(t, "the ID in the struct", d.ID, 77)
	wantInt(t, "the public ID in the struct", d.PublicID, 500)
	wantInt(t, "the public ID in the row",
		plainOne[int64](t, db, "SELECT public_id FROM documents WHERE slug = 'taken'"), 500)
	got := plainOne[string](t, db, "SELECT title FROM documents WHERE id = 77")
	if got != title {
		t.Errorf("the title is %q, want %q", got, title)
	}
}

// checkFresh checks a document that had no conflict.
func checkFresh(t *testing.T, db *gorm.DB, d document) {
	t.Helper()
	wantStored(t, db, d.ID, "SELECT id FROM documents WHERE slug = ?", d.Slug)
	wantStored(t, db, d.PublicID, "SELECT public_id FROM documents WHERE slug = ?", d.Slug)
	if d.ID == d.PublicID {
		t.Errorf("both IDs are %d", d.ID)
	}
}

func storedUnderUpdateAll(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	one := document{Slug: "taken", Title: "first"}
	succeed(t, db.Clauses(onSlug()).Create(&one))
	checkStored(t, db, one, "first")

	all := []document{{Slug: "fresh", Title: "x"}, {Slug: "taken", Title: "second"}}
	succeed(t, db.Clauses(onSlug()).Create(&all))
	checkStored(t, db, all[1], "second")
	checkFresh(t, db, all[0])

	pointers := []*document{{Slug: "taken", Title: "third"}, {Slug: "fresher", Title: "x"}}
	succeed(t, db.Clauses(onSlug()).Create(&pointers))
	checkStored(t, db, *pointers[0], "third")
	checkFresh(t, db, *pointers[1])
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 3)
}

func storedTimes(t *testing.T, target dbtest.Target) {
	now := time.Date(2025, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	db := openDocuments(t, target, &gorm.Config{NowFunc: func() time.Time { return now }})
	d := document{Slug: "taken", Title: "new"}
	succeed(t, db.Clauses(onSlug()).Create(&d))
	checkStored(t, db, d, "new")
	for column, want := range map[string]int64{
		"updated_sec": now.Unix(), "updated_milli": now.UnixMilli(), "updated_nano": now.UnixNano(),
		"revision": 1, // a default that the program knows is an ordinary value
	} {
		wantInt(t, column, plainOne[int64](t, db, "SELECT "+column+" FROM documents"), want)
	}
	if at := plainOne[time.Time](t, db, "SELECT updated_at FROM documents"); !at.Equal(now) {
		t.Errorf("updated_at is %v, want %v", at, now)
	}
	if at := plainOne[time.Time](t, db, "SELECT created_at FROM documents"); at.Year() != 2020 &&
		at.Year() != 2019 { // in the zone of the server
		t.Errorf("created_at is %v, want that of the row", at)
	}
}

func storedUnderSelectAndOmit(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	omit := document{Slug: "taken", Title: "omitted"}
	succeed(t, db.Omit("Title").Clauses(onSlug()).Create(&omit))
	checkStored(t, db, omit, "old")
	pick := document{Slug: "taken", Title: "selected", UpdatedSec: 8}
	succeed(t, db.Select("Slug", "Title", "PublicID").Clauses(onSlug()).Create(&pick))
	checkStored(t, db, pick, "selected")
	// A column that is not sent has no ID, and none is generated for it.
	without := document{Slug: "taken", Title: "partly"}
	succeed(t, db.Select("Slug", "Title").Clauses(onSlug()).Create(&without))
	wantInt(t, "the ID", without.ID, 77)
	if id := without.PublicID; id != 0 && id != 500 {
		t.Errorf("the struct holds the public ID %d, which is no row's", id)
	}
	wantInt(t, "the public ID in the row",
		plainOne[int64](t, db, "SELECT public_id FROM documents WHERE id = 77"), 500)
}

// pass has no fields except its IDs.
type pass struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
}

func storedAlone(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &pass{})
	plainExec(t, db, "INSERT INTO passes (id, public_id) VALUES (77, 500)")
	all := []pass{{ID: 77}, {ID: 78}, {}}
	succeed(t, db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&all))
	wantInt(t, "the ID of the user", all[0].ID, 77)
	wantInt(t, "the public ID that was stored", all[0].PublicID, 500)
	for _, p := range all {
		wantStored(t, db, p.PublicID, "SELECT public_id FROM passes WHERE id = ?", p.ID)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM passes"), 3)
}

func storedUnderSave(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	all := []document{{ID: 77, Slug: "taken", Title: "saved"}, {Slug: "fresh"}, {ID: 78, Slug: "given"}}
	succeed(t, db.Save(&all))
	checkStored(t, db, all[0], "saved")
	checkFresh(t, db, all[1])
	checkFresh(t, db, all[2])
	wantInt(t, "the ID of the user", all[2].ID, 78)
}

func storedUnderSaveOfOne(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	gone := document{ID: 9, Slug: "gone"} // UPDATE finds no row, then INSERT ON CONFLICT follows
	succeed(t, db.Save(&gone))
	wantInt(t, "the ID of the user", gone.ID, 9)
	checkFresh(t, db, gone)
	fresh := document{Slug: "fresh"}
	succeed(t, db.Save(&fresh))
	checkFresh(t, db, fresh)
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 3)
}

func storedUnderFullSave(t *testing.T, target dbtest.Target) {
	for name, save := range map[string]func(*gorm.DB, *folder) *gorm.DB{
		"Create":  func(tx *gorm.DB, f *folder) *gorm.DB { return tx.Create(f) },
		"Save":    func(tx *gorm.DB, f *folder) *gorm.DB { return tx.Save(f) },
		"Updates": func(tx *gorm.DB, f *folder) *gorm.DB { return tx.Updates(f) },
	} {
		t.Run(name, func(t *testing.T) {
			db := openDocuments(t, target, nil)
			f := folder{Name: "f"}
			if name != "Create" {
				succeed(t, db.Create(&f))
			}
			f.Documents = []document{{ID: 77, Slug: "taken", Title: "full"}, {Slug: "fresh"}}
			succeed(t, save(db.Session(&gorm.Session{FullSaveAssociations: true}), &f))
			checkStored(t, db, f.Documents[0], "full")
			checkFresh(t, db, f.Documents[1])
			for _, owner := range plainRows[int64](t, db, "SELECT folder_id FROM documents") {
				wantInt(t, "the foreign key", owner, f.ID)
			}
			wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 2)
		})
	}
}

func storedUnlessNamed(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	all := []document{{Slug: "taken", Title: "new"}, {Slug: "fresh"}}
	succeed(t, db.Clauses(clause.OnConflict{Columns: onColumn("slug"),
		DoUpdates: clause.AssignmentColumns([]string{"public_id"})}).Create(&all))
	wantInt(t, "the ID", all[0].ID, 77)
	wantStored(t, db, all[0].PublicID, "SELECT public_id FROM documents WHERE id = 77")
	if all[0].PublicID == 500 {
		t.Error("the public ID is still 500: what the user wrote did not happen")
	}
	checkFresh(t, db, all[1])
}

func storedUnlessGiven(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	one := document{Slug: "taken", PublicID: 900}
	succeed(t, db.Clauses(onSlug()).Create(&one))
	wantInt(t, "the ID", one.ID, 77)
	wantInt(t, "the public ID of the user", one.PublicID, 900)
	wantInt(t, "the public ID in the row",
		plainOne[int64](t, db, "SELECT public_id FROM documents WHERE id = 77"), 900)
}

// storedBesideGiven uses one statement for a public ID of the user and a generated one. Both rows
// have the same clause. Whatever happens, each struct must agree with its row.
func storedBesideGiven(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (78, 600, 'second')")
	all := []document{{Slug: "taken", PublicID: 900}, {Slug: "second"}, {Slug: "third"}}
	if err := db.Clauses(onSlug()).Create(&all).Error; err != nil {
		wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 2)
		return // a refusal is correct, too
	}
	wantInt(t, "the first ID", all[0].ID, 77)
	wantInt(t, "the second ID", all[1].ID, 78)
	wantInt(t, "the public ID that was not given", all[1].PublicID, 600)
	for _, d := range all {
		wantStored(t, db, d.ID, "SELECT id FROM documents WHERE slug = ?", d.Slug)
		wantStored(t, db, d.PublicID, "SELECT public_id FROM documents WHERE slug = ?", d.Slug)
	}
}

// storedInEveryKind conflicts with a row that has all IDs and with a row that has none, and adds a
// new row.
func storedInEveryKind(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	old := everyKind{Slug: "full"}
	succeed(t, db.Create(&old))
	plainExec(t, db, "INSERT INTO every_kinds (id, slug, defaulted) VALUES (77, 'empty', 0)")
	for _, c := range []clause.OnConflict{doNothing(), onSlug()} {
		all := []everyKind{{Slug: "empty"}, {Slug: "fresh"}, {Slug: "full"}}
		succeed(t, db.Clauses(c).Create(&all))
		wantInt(t, "the ID of the empty row", all[0].ID, 77)
		checkKinds(t, db, all[0])
		checkKinds(t, db, all[1])
		checkKinds(t, db, all[2])
		wantInt(t, "the ID of the full row", all[2].ID, old.ID)
		for i, id := range kindIDs(all[2]) {
			wantInt(t, kindColumns[i], id, kindIDs(old)[i])
		}
		for i, id := range kindIDs(all[0]) {
			wantInt(t, kindColumns[i]+" of the row that has none", id, 0)
		}
		plainExec(t, db, "DELETE FROM every_kinds WHERE slug = 'fresh'")
	}
}
