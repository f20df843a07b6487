package filling_test

import (
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// selectBehaviors test which columns get an ID if not all columns are written.
func selectBehaviors() []behavior {
	return []behavior{
		{
			Name: "a Select without the key stores the key all the same",
			Run:  selectWithoutKey,
		},
		{
			Name: "the Selects of the caller stay as they are",
			Run:  selectsOfTheCaller,
		},
		{
			Name: "a Select without a tagged column that is no key gives that column no ID",
			Run:  selectWithoutColumn,
		},
		{
			Name: "a Select that names columns of an association stores its key all the same",
			Run:  selectInAssociation,
		},
		{
			Name: "a key that Omit leaves out gets no ID, in the struct neither",
			Run:  omittedKey,
		},
		{
			Name: "a column that Omit leaves out gets no ID, in the struct neither",
			Run:  omittedColumn,
		},
		{
			Name: "a field that a create may not write gets no ID, in the struct neither",
			Run:  unwritableFields,
		},
	}
}

func selectWithoutKey(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{}, &ticket{})
	want := func(a account) account { return account{ID: a.ID, Email: a.Email} }
	one, list := newAccount("one"), []account{newAccount("1"), {ID: 7, Email: "2", Name: "2"}}
	must(t, db.Select("Email").Create(&one).Error, "create a struct")
	must(t, db.Select("email").Create(&list).Error, "create a slice")
	for _, a := range append(list, one) {
		same(t, "the row of "+a.Email, stored[account](t, db, a.ID), want(a))
	}
	same(t, "the ID that was set", list[1].ID, 7)
	byValue := newAccount("value")
	must(t, db.Select("Email").Create(byValue).Error, "create a value")
	same(t, "rows", len(allStored[account](t, db)), 4)
	for _, row := range allStored[account](t, db) {
		same(t, "a row", row, account{ID: row.ID, Email: row.Email})
	}

	m := map[string]any{"email": "map", "name": "not this"}
	must(t, db.Model(&account{}).Select("Email").Create(m).Error, "create a map")
	id, _ := m["id"].(snowflakeplugin.ID)
	same(t, "the row of the map", stored[account](t, db, id), account{ID: id, Email: "map"})

	v := newTicket("a")
	must(t, db.Select("Title", "PublicID").Create(&v).Error, "create a ticket")
	ticketStored(t, db, v)
}

func selectsOfTheCaller(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	selects := make([]string, 0, 8)
	selects = append(selects, "Email")
	tx := db.Select(selects).Session(&gorm.Session{})
	for _, name := range []string{"a", "b"} {
		a := newAccount(name)
		done := tx.Create(&a)
		must(t, done.Error, "create")
		same(t, "the row", stored[account](t, db, a.ID), account{ID: a.ID, Email: name})
		if !slices.Equal(done.Statement.Selects, []string{"Email"}) {
			t.Errorf("the statement selects %q", done.Statement.Selects)
		}
	}
	if room := selects[:cap(selects)]; !slices.Equal(room[1:], make([]string, 7)) {
		t.Errorf("behind the slice of the caller stands %q", room)
	}

	// One statement is used again after an error, and one continues with a read.
	a := newAccount("a")
	failed := db.Select("Email").Create(&a)
	wantErr(t, failed.Error, nil, "create a duplicate")
	same(t, "the ID after the error", a.ID, 0)
	if !slices.Equal(failed.Statement.Selects, []string{"Email"}) {
		t.Errorf("after an error the statement selects %q", failed.Statement.Selects)
	}
}

func selectWithoutColumn(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &ticket{})
	v := newTicket("a")
	must(t, db.Select("Title").Create(&v).Error, "create")
	if v.ID == 0 {
		t.Fatal("the ticket has no key")
	}
	same(t, "the public ID", v.PublicID, 0)
	got := plainNull(t, db, "SELECT public_id FROM tickets WHERE id = ? AND title = 'a'", v.ID)
	same(t, "the stored public ID", got.Valid, false)
}

func selectInAssociation(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	p := newPerson("ann")
	must(t, db.Select("Note", "Dogs", "Dogs.Note").Create(p).Error, "create")
	same(t, "the note of the root", *stored[person](t, db, p.ID).Note, *p.Note)
	for _, d := range p.Dogs {
		row := stored[dog](t, db, d.ID)
		same(t, "the note of a dog", *row.Note, *d.Note)
	}
	holds(t, db, &dog{}, 2)
	holds(t, db, &town{}, 0)
	holds(t, db, &toy{}, 0)
	for _, id := range []snowflakeplugin.ID{p.Town.ID, p.Passport.ID, p.Clubs[0].ID, p.Dogs[0].Toys[0].ID} {
		same(t, "an ID of what was not selected", id, 0)
	}
}

func omittedKey(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	db, recorder := watch(db)
	for name, tx := range map[string]*gorm.DB{
		"Omit the field":           db.Omit("ID"),
		"Omit the column":          db.Omit("id"),
		"Select all and Omit":      db.Select("*").Omit("ID"),
		"Select another, and Omit": db.Select("Email").Omit("ID"),
	} {
		recorder.Reset()
		a, m := newAccount(name), map[string]any{"email": name + ", a map"}
		tx = tx.Session(&gorm.Session{})
		if tx.Create(&a).Error == nil || tx.Model(&account{}).Create(m).Error == nil {
			t.Errorf("%s: a row without a key was stored", name)
		}
		same(t, name+": the ID of the struct", a.ID, 0)
		if m["id"] != nil || len(m) != 1 {
			t.Errorf("%s: the map is %v", name, m)
		}
		sent := recorder.Inserts()
		same(t, name+": INSERTs", len(sent), 2)
		for _, sql := range sent {
			columns, _, _ := strings.Cut(sql, "VALUES")
			if strings.Contains(columns, "id") {
				t.Errorf("%s: the key is in %s", name, sql)
			}
		}
	}
	same(t, "numbers taken", len(numbers.take()), 0)
	holds(t, db, &account{}, 0)
}

func omittedColumn(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &ticket{})
	for i, tx := range []*gorm.DB{
		db.Omit("PublicID"), db.Omit("public_id"), db.Select("Title").Omit("PublicID"),
	} {
		name := string(rune('a' + i))
		v, m := newTicket(name), map[string]any{"title": "map " + name}
		tx = tx.Session(&gorm.Session{})
		must(t, tx.Create(&v).Error, "create a struct")
		must(t, tx.Model(&ticket{}).Create(m).Error, "create a map")
		same(t, "the public ID of the struct", v.PublicID, 0)
		if m["public_id"] != nil || m["PublicID"] != nil {
			t.Errorf("the map is %v", m)
		}
		id, _ := m["id"].(int64)
		for _, key := range []int64{v.ID, id} {
			got := plainNull(t, db, "SELECT public_id FROM tickets WHERE id = ?", key)
			same(t, "a stored public ID", got.Valid, false)
		}
	}
	holds(t, db, &ticket{}, 6)
}

// guarded has tagged fields that GORM may not write, or may write only sometimes.
type guarded struct {
	ID         snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	CreateOnly snowflakeplugin.ID `gorm:"<-:create" snowflake:"true"`
	UpdateOnly snowflakeplugin.ID `gorm:"<-:update" snowflake:"true"`
	ReadOnly   snowflakeplugin.ID `gorm:"->" snowflake:"true"`
	Never      snowflakeplugin.ID `gorm:"<-:false" snowflake:"true"`
	Name       string             `gorm:"size:100"`
}

func unwritableFields(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &guarded{})
	list := []guarded{{Name: "a"}, {Name: "b", ReadOnly: 7}}
	must(t, db.Create(&list).Error, "create")
	same(t, "numbers taken", numbers.take()[0], 4)
	for _, g := range list {
		if g.ID == 0 || g.CreateOnly == 0 {
			t.Fatalf("the IDs are %v and %v", g.ID, g.CreateOnly)
		}
		want := guarded{ID: g.ID, CreateOnly: g.CreateOnly, Name: g.Name}
		same(t, "the row", stored[guarded](t, db, g.ID), want)
		want.ReadOnly = map[string]snowflakeplugin.ID{"b": 7}[g.Name]
		same(t, "the struct", g, want)
	}
	null := plainOne[int](t, db,
		"SELECT count(*) FROM guardeds WHERE update_only IS NULL AND read_only IS NULL AND never IS NULL")
	same(t, "rows with NULL where nothing may be written", null, 2)
}
