package filling_test

import (
	"context"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// saveBehaviors test the methods other than Create that create rows.
func saveBehaviors() []behavior {
	return []behavior{
		{
			Name: "Save inserts without an ID and updates with one",
			Run:  saveStruct,
		},
		{
			Name: "Save with an ID that no row has inserts that ID",
			Run:  saveUnknownID,
		},
		{
			Name: "Save of a slice inserts what is new and updates what is there",
			Run:  saveSlice,
		},
		{
			Name: "FirstOrCreate fills what it creates",
			Run:  firstOrCreate,
		},
		{
			Name: "an ID in the Attrs or the Assign of FirstOrCreate wins",
			Run:  firstOrCreateWithID,
		},
		{
			Name: "FirstOrInit gives no ID before the row is created",
			Run:  firstOrInit,
		},
		{
			Name: "the generic Create and CreateInBatches are filled",
			Run:  genericCreate,
		},
		{
			Name: "the generic Select and Omit are filled",
			Run:  genericSelect,
		},
		{
			Name: "the generic Set is filled",
			Run:  genericSet,
		},
	}
}

func saveStruct(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	db, recorder := watch(db)
	a := newAccount("ann")
	must(t, db.Save(&a).Error, "save what is new")
	same(t, "statements", len(recorder.Statements()), 1)
	same(t, "numbers taken", fmt.Sprint(numbers.take()), "[1]")
	accountStored(t, db, a)

	id := a.ID
	a.Name = "Ann"
	must(t, db.Save(&a).Error, "save what is there")
	same(t, "the ID after an update", a.ID, id)
	accountStored(t, db, a)
	holds(t, db, &account{}, 1)
	same(t, "numbers taken by an update", len(numbers.take()), 0)
}

func saveUnknownID(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{}, &ticket{})
	a := account{ID: 7, Email: "a"}
	must(t, db.Save(&a).Error, "save an account")
	same(t, "the ID", a.ID, 7)
	accountStored(t, db, a)
	v := ticket{ID: 8, Title: "a"}
	must(t, db.Save(&v).Error, "save a ticket")
	same(t, "the ID of the ticket", v.ID, 8)
	ticketStored(t, db, v)
}

func saveSlice(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	old := newAccount("old")
	must(t, db.Create(&old).Error, "create")
	list := []account{
		newAccount("new 1"), {ID: old.ID, Email: "old", Name: "changed"}, {ID: 7, Email: "given"},
		newAccount("new 2"),
	}
	must(t, db.Save(&list).Error, "save a slice")
	same(t, "the ID of what was there", list[1].ID, old.ID)
	same(t, "the ID that was given", list[2].ID, 7)
	for _, a := range list {
		accountStored(t, db, a)
	}
	holds(t, db, &account{}, 4)

	refs := []*account{{Email: "new 3"}, {ID: 7, Email: "given", Name: "changed"}}
	must(t, db.Save(refs).Error, "save pointers")
	for _, a := range refs {
		accountStored(t, db, *a)
	}
	holds(t, db, &account{}, 5)
}

func firstOrCreate(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	var a account
	where := db.Where(&account{Email: "ann"}).Session(&gorm.Session{})
	must(t, where.Attrs(&account{Name: "Ann"}).FirstOrCreate(&a).Error, "create")
	same(t, "what was created", a, account{ID: a.ID, Email: "ann", Name: "Ann"})
	accountStored(t, db, a)
	same(t, "numbers taken", fmt.Sprint(numbers.take()), "[1]")

	var found account
	must(t, where.Attrs(&account{Name: "Bob"}).FirstOrCreate(&found).Error, "find")
	same(t, "what was found", found, a)
	var assigned account
	must(t, where.Assign(&account{Name: "Bob"}).FirstOrCreate(&assigned).Error, "find and update")
	same(t, "what was updated", assigned, account{ID: a.ID, Email: "ann", Name: "Bob"})
	accountStored(t, db, assigned)
	same(t, "numbers taken by a find", len(numbers.take()), 0)
}

func firstOrCreateWithID(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	for i, with := range []func(*gorm.DB, snowflakeplugin.ID) *gorm.DB{
		func(db *gorm.DB, id snowflakeplugin.ID) *gorm.DB { return db.Attrs(&account{ID: id}) },
		func(db *gorm.DB, id snowflakeplugin.ID) *gorm.DB { return db.Attrs(map[string]any{"id": id}) },
		func(db *gorm.DB, id snowflakeplugin.ID) *gorm.DB { return db.Attrs("id", id) },
		func(db *gorm.DB, id snowflakeplugin.ID) *gorm.DB { return db.Assign(&account{ID: id}) },
	} {
		id := 7_000_000_000_000_000_001 + snowflakeplugin.ID(i)
		var a account
		must(t, with(db.Where(&account{Email: fmt.Sprint(i)}), id).FirstOrCreate(&a).Error, "create")
		same(t, "the ID", a.ID, id)
		accountStored(t, db, a)
	}
	same(t, "numbers taken", len(numbers.take()), 0)
}

func firstOrInit(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	var a account
	must(t, db.Where(&account{Email: "ann"}).FirstOrInit(&a).Error, "initialize")
	same(t, "the struct", a, account{Email: "ann"})
	same(t, "numbers taken", len(numbers.take()), 0)
	must(t, db.Create(&a).Error, "create")
	accountStored(t, db, a)
}

func genericCreate(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{}, &ticket{})
	ctx := context.WithValue(t.Context(), contextMark{}, "mine")
	a := newAccount("ann")
	must(t, gorm.G[account](db).Create(ctx, &a), "create")
	same(t, "the value in the source's context", numbers.marks()[0], "mine")
	accountStored(t, db, a)

	numbers.take()
	list := fiveOf("list", newTicket)
	must(t, gorm.G[ticket](db).CreateInBatches(ctx, &list, 2), "create in batches")
	same(t, "reservations", fmt.Sprint(numbers.take()), "[4 4 2]")
	for _, v := range list {
		ticketStored(t, db, v)
	}
	upsert := clause.OnConflict{DoNothing: true}
	must(t, gorm.G[account](db, upsert).Create(ctx, &account{Email: "ann"}), "create with a clause")
	holds(t, db, &account{}, 1)
	wantErr(t, gorm.G[account](db).Create(ctx, &account{Email: "ann"}), nil, "create a duplicate")
}

func genericSelect(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	a, b, c := newAccount("a"), newAccount("b"), newAccount("c")
	must(t, gorm.G[account](db).Select("Email").Create(t.Context(), &a), "create with Select")
	same(t, "the row", stored[account](t, db, a.ID), account{ID: a.ID, Email: "a"})
	must(t, gorm.G[account](db).Omit("Name").Create(t.Context(), &b), "create with Omit")
	same(t, "the row", stored[account](t, db, b.ID), account{ID: b.ID, Email: "b"})
	must(t, gorm.G[account](db).Table("accounts").Create(t.Context(), &c), "create with Table")
	accountStored(t, db, c)
}

func genericSet(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{}, &ticket{})
	set := func(column string, value any) clause.Assignment {
		return clause.Assignment{Column: clause.Column{Name: column}, Value: value}
	}
	must(t, gorm.G[account](db).Set(set("email", "a"), set("name", "b")).Create(t.Context()), "create")
	must(t, gorm.G[ticket](db).Set(set("title", "a")).Create(t.Context()), "create a ticket")
	must(t, gorm.G[account](db).Set(set("id", 7), set("email", "c")).Create(t.Context()), "create with an ID")

	accounts := allStored[account](t, db)
	same(t, "rows", len(accounts), 2)
	same(t, "the row with an ID", accounts[0], account{ID: 7, Email: "c"})
	same(t, "the row", accounts[1], account{ID: accounts[1].ID, Email: "a", Name: "b"})
	if accounts[1].ID <= 7 {
		t.Errorf("the ID is %v", accounts[1].ID)
	}
	tickets := allStored[ticket](t, db)
	same(t, "rows of tickets", len(tickets), 1)
	ticketStored(t, db, tickets[0])
}
