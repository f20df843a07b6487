package statements_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type (
	// language and publisher are identified by a code and a name. Books contain them without
	// knowing whether their rows exist.
	language struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code string             `gorm:"size:20;uniqueIndex"`
	}
	publisher struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:100;uniqueIndex"`
	}
	book struct {
		ID          snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Title       string             `gorm:"size:100"`
		PublisherID *snowflakeplugin.ID
		Publisher   *publisher
		Languages   []language `gorm:"many2many:book_languages"`
	}
	// printer has the same relations with an integer key and with pointers.
	printer struct {
		ID          int64      `gorm:"primaryKey" snowflake:"true"`
		Name        string     `gorm:"size:100;uniqueIndex"`
		Cartridges  []*refill  `gorm:"many2many:printer_refills"`
		Placements  []*placing `gorm:"foreignKey:PrinterID"`
		PublisherID snowflakeplugin.ID
		Publisher   publisher
	}
	refill struct {
		ID   int64  `gorm:"primaryKey" snowflake:"true"`
		Code string `gorm:"size:20;uniqueIndex"`
	}
	placing struct {
		ID        int64 `gorm:"primaryKey" snowflake:"true"`
		PrinterID int64
		Room      string `gorm:"size:20"`
	}
)

// nestedUpsertBehaviors test the rows that GORM creates around a row, with DO NOTHING or with
// updates of the foreign key.
func nestedUpsertBehaviors() []behavior {
	return []behavior{
		{Name: "many2many rows that are there already are joined by their IDs",
			Run: nestedExistingMany2Many},
		{Name: "a belongs-to row that is there already is referred to by its ID",
			Run: nestedExistingBelongsTo},
		{Name: "a slice of parents shares the rows that are there, and those that are new",
			Run: nestedSliceOfParents},
		{Name: "prepared integer keys do the same", Run: nestedIntegerKeys},
		{Name: "appended rows that are there already are joined by their IDs",
			Run: nestedAppend},
		{Name: "a parent that is there already gives its ID to its children",
			Run: nestedBelowAnUpsert},
		{Name: "a failed tree keeps no ID of a row that another part of it had made",
			Run: nestedMeetingItself},
		{Name: "a slice of new rows may have the parent of one of them", Everywhere: true,
			Run: nestedParentInSlice},
	}
}

// openBooks stores Chinese as language 77 and Springer as publisher 55.
func openBooks(t *testing.T, target dbtest.Target) *gorm.DB {
	t.Helper()
	db := openAs(t, target, opening{}, &language{}, &publisher{}, &book{})
	plainExec(t, db, "INSERT INTO languages (id, code) VALUES (77, 'zh')",
		"INSERT INTO publishers (id, name) VALUES (55, 'Springer')")
	return db
}

// checkLanguages compares the codes of a book's languages with the IDs in the structs.
func checkLanguages(t *testing.T, db *gorm.DB, b book) {
	t.Helper()
	joined := plainOne[int64](t, db, "SELECT count(*) FROM book_languages WHERE book_id = ?", b.ID)
	wantInt(t, "the number of languages of "+b.Title, joined, len(b.Languages))
	for _, l := range b.Languages {
		wantStored(t, db, l.ID, "SELECT id FROM languages WHERE code = ?", l.Code)
		wantStored(t, db, l.ID, "SELECT l.id FROM languages l JOIN book_languages j "+
			"ON j.language_id = l.id WHERE j.book_id = ? AND l.code = ?", b.ID, l.Code)
	}
}

func nestedExistingMany2Many(t *testing.T, target dbtest.Target) {
	db := openBooks(t, target)
	b := book{Title: "one", Languages: []language{{Code: "en"}, {Code: "zh"}, {Code: "fr"}}}
	succeed(t, db.Create(&b))
	wantInt(t, "the ID of zh", b.Languages[1].ID, 77)
	checkLanguages(t, db, b)
	wantInt(t, "the number of languages", plainOne[int64](t, db, "SELECT count(*) FROM languages"), 3)
}

func nestedExistingBelongsTo(t *testing.T, target dbtest.Target) {
	db := openBooks(t, target)
	for name, want := range map[string]int64{"Springer": 55, "Reclam": 0} {
		b := book{Title: name, Publisher: &publisher{Name: name}}
		succeed(t, db.Create(&b))
		if want != 0 {
			wantInt(t, "the publisher's ID", b.Publisher.ID, want)
		}
		if b.PublisherID == nil || *b.PublisherID != b.Publisher.ID {
			t.Errorf("the foreign key is %v, the publisher %d", b.PublisherID, b.Publisher.ID)
		}
		wantStored(t, db, b.Publisher.ID, "SELECT id FROM publishers WHERE name = ?", name)
		wantStored(t, db, b.Publisher.ID, "SELECT publisher_id FROM books WHERE id = ?", b.ID)
	}
	wantInt(t, "the number of publishers", plainOne[int64](t, db, "SELECT count(*) FROM publishers"), 2)
}

func nestedSliceOfParents(t *testing.T, target dbtest.Target) {
	db := openBooks(t, target)
	books := []book{
		{Title: "one", Publisher: &publisher{Name: "Springer"},
			Languages: []language{{Code: "zh"}, {Code: "fr"}}},
		{Title: "two", Publisher: &publisher{Name: "Reclam"},
			Languages: []language{{Code: "fr"}, {Code: "zh"}, {Code: "de"}}},
		{Title: "three", Publisher: &publisher{Name: "Reclam"}},
		{Title: "four"},
	}
	succeed(t, db.Create(&books))
	for _, b := range books {
		checkLanguages(t, db, b)
		if b.Publisher == nil {
			if id := plainNull(t, db, "SELECT publisher_id FROM books WHERE id = ?", b.ID); id.Valid {
				t.Errorf("%s got the publisher %d", b.Title, id.Int64)
			}
			continue
		}
		wantStored(t, db, b.Publisher.ID, "SELECT id FROM publishers WHERE name = ?", b.Publisher.Name)
		wantStored(t, db, b.Publisher.ID, "SELECT publisher_id FROM books WHERE id = ?", b.ID)
	}
	wantInt(t, "the number of languages", plainOne[int64](t, db, "SELECT count(*) FROM languages"), 3)
	wantInt(t, "the number of publishers", plainOne[int64](t, db, "SELECT count(*) FROM publishers"), 2)
}

func nestedIntegerKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &publisher{}, &refill{}, &placing{}, &printer{})
	plainExec(t, db, "INSERT INTO refills (id, code) VALUES (77, 'black')",
		"INSERT INTO publishers (id, name) VALUES (55, 'Springer')")
	p := printer{Name: "laser", Publisher: publisher{Name: "Springer"},
		Cartridges: []*refill{{Code: "cyan"}, {Code: "black"}},
		Placements: []*placing{{Room: "1"}, {Room: "2"}}}
	succeed(t, db.Create(&p))
	wantInt(t, "the ID of black", p.Cartridges[1].ID, 77)
	wantInt(t, "the publisher", plainOne[int64](t, db, "SELECT publisher_id FROM printers"), 55)
	for _, c := range p.Cartridges {
		wantStored(t, db, c.ID, "SELECT refill_id FROM printer_refills j JOIN refills r "+
			"ON r.id = j.refill_id WHERE j.printer_id = ? AND r.code = ?", p.ID, c.Code)
	}
	for _, c := range p.Placements {
		wantStored(t, db, c.ID, "SELECT id FROM placings WHERE printer_id = ? AND room = ?", p.ID, c.Room)
	}
}

func nestedAppend(t *testing.T, target dbtest.Target) {
	db := openBooks(t, target)
	b := book{Title: "one"}
	succeed(t, db.Create(&b))
	err := db.Model(&b).Association("Languages").Append([]language{{Code: "zh"}, {Code: "fr"}})
	if err != nil {
		t.Fatal(err)
	}
	checkLanguages(t, db, b)
	if err := db.Model(&b).Association("Languages").Replace(&language{Code: "zh"}); err != nil {
		t.Fatal(err)
	}
	checkLanguages(t, db, b)
	wantInt(t, "the one language that is left", plainOne[int64](t, db,
		"SELECT language_id FROM book_languages WHERE book_id = ?", b.ID), 77)
	if err := db.Model(&b).Association("Publisher").Append(&publisher{Name: "Springer"}); err != nil {
		t.Fatal(err)
	}
	wantInt(t, "the publisher", plainOne[int64](t, db, "SELECT publisher_id FROM books"), 55)
}

// nestedBelowAnUpsert conflicts with an existing printer. Its placements must refer to the stored
// row, so its key must be corrected before they copy it.
func nestedBelowAnUpsert(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &publisher{}, &refill{}, &placing{}, &printer{})
	plainExec(t, db, "INSERT INTO publishers (id, name) VALUES (55, 'Springer')",
		"INSERT INTO printers (id, name, publisher_id) VALUES (77, 'laser', 55)")
	for _, c := range []clause.OnConflict{
		doNothing(),
		{Columns: onColumn("name"), DoUpdates: clause.AssignmentColumns([]string{"publisher_id"})},
		{Columns: onColumn("name"), UpdateAll: true},
	} {
		printers := []printer{
			{Name: "laser", Publisher: publisher{Name: "Springer"}, Placements: []*placing{{Room: "1"}},
				Cartridges: []*refill{{Code: "cyan"}}},
			{Name: "inkjet", Publisher: publisher{Name: "Reclam"}, Placements: []*placing{{Room: "2"}}},
		}
		succeed(t, db.Clauses(c).Create(&printers))
		wantInt(t, "the ID of the printer that was met", printers[0].ID, 77)
		for _, p := range printers {
			wantStored(t, db, p.ID, "SELECT id FROM printers WHERE name = ?", p.Name)
			wantStored(t, db, p.ID, "SELECT printer_id FROM placings WHERE id = ?", p.Placements[0].ID)
			wantStored(t, db, p.Publisher.ID, "SELECT publisher_id FROM printers WHERE id = ?", p.ID)
		}
		wantInt(t, "the refill's printer", plainOne[int64](t, db, "SELECT printer_id FROM printer_refills"), 77)
		plainExec(t, db, "DELETE FROM printer_refills", "DELETE FROM placings",
			"DELETE FROM printers WHERE id <> 77", "DELETE FROM refills")
	}
}

type (
	// imprint has a publisher, and so does each of its works.
	imprint struct {
		ID          snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublisherID snowflakeplugin.ID
		Publisher   publisher
		Works       []work
	}
	work struct {
		ID          snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		ImprintID   snowflakeplugin.ID
		PublisherID snowflakeplugin.ID
		Publisher   publisher
		Title       string `gorm:"size:50"`
	}
)

func (w *work) AfterCreate(*gorm.DB) error {
	if w.Title == "banned" {
		return errTakenBack
	}
	return nil
}

// nestedMeetingItself lets the publisher of a work conflict with the publisher of the imprint,
// which another statement of the same tree has just inserted.
func nestedMeetingItself(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &publisher{}, &imprint{}, &work{})
	i := imprint{Publisher: publisher{Name: "one"}, Works: []work{
		{Title: "fine", Publisher: publisher{Name: "one"}},
		{Title: "banned", Publisher: publisher{Name: "two"}},
	}}
	if err := db.Create(&i).Error; !errors.Is(err, errTakenBack) {
		t.Fatalf("error is %v", err)
	}
	wantInt(t, "the number of publishers", plainOne[int64](t, db, "SELECT count(*) FROM publishers"), 0)
	for what, id := range map[string]snowflakeplugin.ID{
		"imprint": i.ID, "its publisher": i.Publisher.ID, "first work": i.Works[0].ID,
		"second work": i.Works[1].ID, "publisher of the first work": i.Works[0].Publisher.ID,
		"publisher of the second work": i.Works[1].Publisher.ID,
	} {
		wantInt(t, "the ID of the "+what, id, 0)
	}
	i.Works[1].Title = "allowed"
	succeed(t, db.Create(&i))
	wantInt(t, "the publisher of the first work", i.Works[0].Publisher.ID, i.Publisher.ID)
	for _, w := range i.Works {
		wantStored(t, db, w.Publisher.ID, "SELECT id FROM publishers WHERE name = ?", w.Publisher.Name)
		wantStored(t, db, w.Publisher.ID, "SELECT publisher_id FROM works WHERE id = ?", w.ID)
	}
}

// employee has another employee for a boss.
type employee struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string             `gorm:"size:20"`
	BossID *snowflakeplugin.ID
	Boss   *employee
}

// nestedParentInSlice saves slices in which GORM inserts the boss twice: as such, and as a row of the slice.
func nestedParentInSlice(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &employee{})
	everything := clause.OnConflict{UpdateAll: true}
	for name, save := range map[string]func(rows []*employee) *gorm.DB{
		"save":       func(rows []*employee) *gorm.DB { return db.Save(rows) },
		"update all": func(rows []*employee) *gorm.DB { return db.Clauses(everything).Create(rows) },
		"nothing": func(rows []*employee) *gorm.DB {
			return db.Clauses(clause.OnConflict{DoNothing: true}).Create(rows)
		},
	} {
		boss := &employee{Name: name}
		worker, other := &employee{Name: name + " 1", Boss: boss}, &employee{Name: name + " 2", Boss: boss}
		succeed(t, save([]*employee{worker, boss, other}))
		for _, row := range []*employee{boss, worker, other} {
			wantStored(t, db, row.ID, "SELECT id FROM employees WHERE name = ?", row.Name)
		}
		wantStored(t, db, boss.ID, "SELECT boss_id FROM employees WHERE id = ?", other.ID)
	}
	// Another program has stored a row with the key of the boss.
	contested := &employee{Name: "contested"}
	must(t, db.Callback().Create().Before("gorm:save_before_associations").Register("plant", func(tx *gorm.DB) {
		if rows, ok := tx.Statement.Dest.([]*employee); ok && len(rows) == 2 && rows[1] == contested {
			plain := tx.Session(&gorm.Session{NewDB: true})
			must(t, plain.Exec("INSERT INTO employees (id, name) VALUES (?, 'foreign')", contested.ID).Error, "plant")
		}
	}), "Register")
	for _, c := range []clause.OnConflict{everything, doNothing()} {
		err := db.Clauses(c).Create([]*employee{{Name: "worker", Boss: contested}, contested}).Error
		if !errors.Is(err, snowflakeplugin.ErrContested) {
			t.Errorf("the parent of a row has a key that is there: the error is %v", err)
		}
	}
	boss := &employee{Name: "twice"}
	err := db.Create([]*employee{boss, {Name: "worker", Boss: boss}}).Error
	if err == nil || errors.Is(err, snowflakeplugin.ErrContested) {
		t.Errorf("a row that GORM inserts twice: the error is %v, want that of the key", err)
	}
}
