package statements_test

import (
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// wayBehaviors test less common kinds of upserts.
func wayBehaviors() []behavior {
	return []behavior{
		{Name: "the generics API upserts as well", Run: waysWithGenerics},
		{Name: "a hook may add the clause", Run: waysByHooks},
		{Name: "INSERT IGNORE leaves the stored ID or zero", Only: []string{"sqlite", "mysql"},
			Run: waysToIgnore},
		{Name: "a key column that is not sent leads to no row", Run: waysWithoutKeyColumns},
		{Name: "columns that the database fills do not move the IDs", Run: waysWithDefaults},
		{Name: "a table may be named with its schema", Run: waysToQualifiedTables},
		{Name: "a nil element is an error of GORM's", Run: waysWithNilElements},
		{Name: "the same pointer twice is one row", Run: waysWithOnePointer},
		{Name: "a child saved with its parent keeps its public ID", Run: waysOfChildren},
		{Name: "Save of a slice still moves the update times", Run: waysOfTrackedTimes},
	}
}

func waysWithGenerics(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	for _, c := range upsertClauses {
		t.Run(c.name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM member_by_ids", "INSERT INTO member_by_ids "+
				"(id, email, name) VALUES (77, 'alice', 'old'), (78, 'carol', 'old')")
			one := memberByID{Email: "alice", Name: "new"}
			must(t, gorm.G[memberByID](db, c.clause).Create(t.Context(), &one), "Create")
			all := []memberByID{{Email: "bob", Name: "new"}, {Email: "carol", Name: "new"}}
			must(t, gorm.G[memberByID](db, c.clause).CreateInBatches(t.Context(), &all, 1), "CreateInBatches")
			checkMembers(t, db, byID, append(all, one), c.updates)
		})
	}
}

// quiet is inserted if it does not exist, whoever creates it.
type quiet struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100;uniqueIndex"`
}

func (*quiet) BeforeCreate(tx *gorm.DB) error {
	tx.Statement.AddClause(clause.OnConflict{DoNothing: true})
	return nil
}

func waysByHooks(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &quiet{})
	plainExec(t, db, "INSERT INTO quiets (id, email) VALUES (77, 'alice')")
	one, all := quiet{Email: "alice"}, []quiet{{Email: "bob"}, {Email: "alice"}}
	succeed(t, db.Create(&one))
	succeed(t, db.Create(&all))
	wantInt(t, "the ID of the struct", one.ID, 77)
	wantInt(t, "the ID in the slice", all[1].ID, 77)
	wantStored(t, db, all[0].ID, "SELECT id FROM quiets WHERE email = 'bob'")
}

func waysToIgnore(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (77, 'alice', 'old')")
	ignore := clause.Insert{Modifier: map[string]string{"sqlite": "OR IGNORE", "mysql": "IGNORE"}[target.Dialect]}
	one, all := memberByID{Email: "alice"}, []memberByID{{Email: "bob"}, {Email: "alice"}}
	succeed(t, db.Clauses(ignore).Create(&one))
	succeed(t, db.Clauses(ignore).Create(&all))
	for _, m := range []memberByID{one, all[1]} {
		if m.ID != 0 && m.ID != 77 {
			t.Errorf("the struct holds %d, which is no row's", m.ID)
		}
	}
	wantStored(t, db, all[0].ID, "SELECT id FROM member_by_ids WHERE email = 'bob'")
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 2)
}

// waysWithoutKeyColumns has alice in the struct but does not send her. The conflicting row is
// bob's.
func waysWithoutKeyColumns(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &contact{})
	plainExec(t, db, "INSERT INTO contacts (id, email, phone) VALUES (71, 'alice', '1'), (72, 'bob', '2')")
	for name, tx := range map[string]*gorm.DB{
		"Omit":   db.Omit("Email"),
		"Select": db.Select("Phone", "Name"),
	} {
		t.Run(name, func(t *testing.T) {
			met := contact{Email: "alice", Phone: pointerTo("2")}
			succeed(t, tx.Clauses(doNothing()).Create(&met))
			if met.ID != 0 && met.ID != 72 {
				t.Errorf("the struct holds %d; the row that it met is 72", met.ID)
			}
		})
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM contacts"), 2)
}

// drafted has a column whose value only the database knows, so GORM reads it back.
type drafted struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100;uniqueIndex"`
	State []byte             `gorm:"type:varchar(20);default:'draft'"` // GORM reads no default into bytes itself
}

func waysWithDefaults(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &drafted{})
	for _, c := range []clause.OnConflict{
		doNothing(),
		{Columns: onColumn("email"), DoNothing: true},
		{Columns: onColumn("email"), UpdateAll: true},
	} {
		plainExec(t, db, "DELETE FROM drafteds",
			"INSERT INTO drafteds (id, email, state) VALUES (77, 'alice', 'final'), (78, 'carol', 'final')")
		all := []drafted{{Email: "alice"}, {Email: "bob"}, {Email: "carol"}, {Email: "dave"}}
		succeed(t, db.Clauses(c).Create(&all))
		for _, d := range all {
			wantStored(t, db, d.ID, "SELECT id FROM drafteds WHERE email = ?", d.Email)
		}
		wantInt(t, "the ID of alice", all[0].ID, 77)
		wantInt(t, "the ID of carol", all[2].ID, 78)
	}
}

func waysToQualifiedTables(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	must(t, db.Table("guests").AutoMigrate(&memberByID{}), "AutoMigrate")
	schema := "main"
	switch target.Dialect {
	case "postgres":
		schema = plainOne[string](t, db, "SELECT current_schema()")
	case "mysql":
		schema = plainOne[string](t, db, "SELECT DATABASE()")
	}
	plainExec(t, db, "INSERT INTO guests (id, email) VALUES (87, 'alice')")
	all := []memberByID{{Email: "alice"}, {Email: "bob"}}
	succeed(t, db.Table(schema+".guests").Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID of alice", all[0].ID, 87)
	wantStored(t, db, all[1].ID, "SELECT id FROM guests WHERE email = 'bob'")
}

func waysWithNilElements(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	for _, c := range []clause.OnConflict{doNothing(), onSlug()} {
		all := []*document{{Slug: "a"}, nil, {Slug: "b"}}
		if err := db.Clauses(c).Create(&all).Error; err == nil {
			t.Error("a nil element was created")
		}
		for _, d := range []*document{all[0], all[2]} {
			if d.ID != 0 || d.PublicID != 0 {
				t.Errorf("%+v kept an ID", d)
			}
		}
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 0)
}

func waysWithOnePointer(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	alice, bob := &memberByID{Email: "alice"}, &memberByID{Email: "bob"}
	plainExec(t, db, "INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')")
	succeed(t, db.Clauses(doNothing()).Create([]*memberByID{alice, bob, alice, bob}))
	wantInt(t, "the ID of alice", alice.ID, 77)
	wantStored(t, db, bob.ID, "SELECT id FROM member_by_ids WHERE email = 'bob'")
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 2)
}

// waysOfChildren saves a parent with a document of which only the key and the slug are set. GORM
// updates only its foreign key.
func waysOfChildren(t *testing.T, target dbtest.Target) {
	db := openDocuments(t, target, nil)
	for name, save := range map[string]func(f *folder, d document) error{
		"Create": func(f *folder, d document) error {
			f.Documents = []document{d}
			return db.Create(f).Error
		},
		"Save": func(f *folder, d document) error {
			f.Documents = []document{d}
			return db.Save(f).Error
		},
		"Append": func(f *folder, d document) error {
			if err := db.Create(f).Error; err != nil {
				return err
			}
			return db.Model(f).Association("Documents").Append(&d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder{Name: name}
			must(t, save(&f, document{ID: 77, Slug: "taken", Title: "ignored"}), name)
			checkStored(t, db, f.Documents[0], "old")
			wantInt(t, "the foreign key",
				plainOne[int64](t, db, "SELECT folder_id FROM documents WHERE id = 77"), f.ID)
		})
	}
}

// waysOfTrackedTimes saves a row that was read before. Its times are set, and Save updates them.
func waysOfTrackedTimes(t *testing.T, target dbtest.Target) {
	now := time.Date(2025, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	db := openDocuments(t, target, &gorm.Config{NowFunc: func() time.Time { return now }})
	var all []document
	succeed(t, db.Find(&all))
	all[0].PublicID, all[0].Title = 0, "new"
	succeed(t, db.Save(&all))
	checkStored(t, db, all[0], "new")
	if at := plainOne[time.Time](t, db, "SELECT updated_at FROM documents"); !at.Equal(now) {
		t.Errorf("updated_at is %v, want %v", at, now)
	}
	for column, want := range map[string]int64{"updated_sec": now.Unix(), "updated_milli": now.UnixMilli()} {
		wantInt(t, column, plainOne[int64](t, db, "SELECT "+column+" FROM documents"), want)
	}
}
