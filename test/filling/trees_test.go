package filling_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// treeBehaviors test which IDs remain if a create fails somewhere in a tree of associations.
func treeBehaviors() []behavior {
	return []behavior{
		{
			Name: "a failure anywhere in a tree takes back the IDs of the whole tree",
			Run:  failureInTree,
		},
		{
			Name: "without a transaction the rows of a failed tree that are there keep their IDs",
			Run:  failureInTreeWithoutTransaction,
		},
		{
			Name: "a failure in one of many trees takes back the IDs of all",
			Run:  failureInManyTrees,
		},
		{
			Name: "a source that fails in the middle of a tree leaves no ID and no row",
			Run:  sourceFailsInTree,
		},
		{
			Name: "a context that ends in the middle of a tree leaves no ID and no row",
			Run:  contextEndsInTree,
		},
		{
			Name: "numbers that come in no order are taken back like others",
			Run:  unorderedNumbers,
		},
		{
			Name: "a root without a tag takes back the IDs of its tree as well",
			Run:  untaggedRoot,
		},
		{
			Name: "a failed Save of a row that is there takes back the IDs of what was new",
			Run:  failedSaveOfExistingRoot,
		},
		{
			Name: "rows that hooks created in the transaction lose their IDs with it",
			Run:  hookCreates(func(p *parcel, tx *gorm.DB) *gorm.DB { return tx }, true),
		},
		{
			Name: "rows that hooks created on goroutines lose their IDs with the transaction",
			Run:  hookCreatesOnGoroutines,
		},
		{
			Name: "rows that hooks created elsewhere keep their IDs",
			Only: []string{"postgres", "mysql"}, // SQLite allows no other writer in the meantime
			Run:  hookCreates(func(p *parcel, _ *gorm.DB) *gorm.DB { return p.elsewhere }, false),
		},
	}
}

// A person is the root of a tree with every kind of association. No row can be stored while its
// Note is nil, so any place of the tree can be made to fail, on every database.
type (
	person struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note     *string            `gorm:"size:100;not null"`
		TownID   *snowflakeplugin.ID
		Town     *town
		Passport passport
		Dogs     []dog
		Clubs    []*club `gorm:"many2many:person_clubs"`
	}
	town struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note *string            `gorm:"size:100;not null"`
	}
	passport struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Number   int                // never 0, because GORM would treat that as no passport
		Note     *string            `gorm:"size:100;not null"`
		PersonID snowflakeplugin.ID
	}
	dog struct {
		ID       int64   `gorm:"primaryKey" snowflake:"true"`
		Note     *string `gorm:"size:100;not null"`
		PersonID snowflakeplugin.ID
		Toys     []toy
	}
	toy struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
		Note     *string            `gorm:"size:100;not null"`
		DogID    int64
	}
	club struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note   *string            `gorm:"size:100;not null"`
		TownID *snowflakeplugin.ID
		Town   *town
	}
)

var personModels = []any{&town{}, &person{}, &passport{}, &dog{}, &toy{}, &club{}}

// personTables are the tables of personModels in the same order.
var personTables = []string{"towns", "people", "passports", "dogs", "toys", "clubs"}

// Some rows of newPerson get these IDs by hand.
const givenDogID, givenClubID = 5, 6

// newPerson returns a tree in which every row has a Note.
func newPerson(name string) *person {
	note := func(what string) *string {
		text := name + "'s " + what
		return &text
	}
	return &person{
		Note: note("self"), Town: &town{Note: note("town")}, Passport: passport{Number: 7, Note: note("passport")},
		Dogs: []dog{
			{Note: note("first dog"), Toys: []toy{{Note: note("bone")}, {Note: note("ball")}}},
			{Note: note("second dog"), Toys: []toy{{Note: note("stick")}}},
		},
		Clubs: []*club{
			{Note: note("first club"), Town: &town{Note: note("first club's town")}},
			{Note: note("second club")},
		},
	}
}

// withGivenIDs sets the IDs of two rows of the tree.
func (p *person) withGivenIDs() *person {
	p.Dogs[1].ID, p.Clubs[1].ID = givenDogID, givenClubID
	return p
}

// places returns the notes of all rows of a tree.
func (p *person) places() []**string {
	return []**string{
		&p.Town.Note, &p.Note, &p.Passport.Note, &p.Dogs[1].Note, &p.Dogs[0].Toys[1].Note,
		&p.Dogs[1].Toys[0].Note, &p.Clubs[0].Note, &p.Clubs[0].Town.Note, &p.Clubs[1].Note,
	}
}

// generated returns the IDs of the tree that were not given by hand, by table.
func (p *person) generated() map[string][]int64 {
	ids := map[string][]int64{
		"towns":     {int64(p.Town.ID), int64(p.Clubs[0].Town.ID)},
		"people":    {int64(p.ID)},
		"passports": {int64(p.Passport.ID)},
		"clubs":     {int64(p.Clubs[0].ID), int64(p.Clubs[1].ID)},
	}
	for _, d := range p.Dogs {
		ids["dogs"] = append(ids["dogs"], d.ID)
		for _, y := range d.Toys {
			ids["toys"] = append(ids["toys"], int64(y.ID))
			if (y.ID == 0) != (y.PublicID == 0) {
				ids["toys"] = append(ids["toys"], int64(y.PublicID))
			}
		}
	}
	for table := range ids {
		ids[table] = slices.DeleteFunc(ids[table], func(id int64) bool {
			return id == 0 || id == givenDogID || id == givenClubID
		})
	}
	return ids
}

// withoutIDs fails the test for each generated ID that is still set, as a key or as a foreign key, and for each
// given ID that is not.
func (p *person) withoutIDs(t *testing.T) {
	t.Helper()
	for table, ids := range p.generated() {
		if len(ids) > 0 {
			t.Errorf("%s keep the IDs %v, which are in no row", table, ids)
		}
	}
	same(t, "the ID given to a dog", p.Dogs[1].ID, givenDogID)
	same(t, "the ID given to a club", p.Clubs[1].ID, givenClubID)
	if p.TownID != nil || p.Clubs[0].TownID != nil {
		t.Errorf("foreign keys lead to the towns %v and %v, which are in no row", p.TownID, p.Clubs[0].TownID)
	}
	same(t, "the person of the passport", p.Passport.PersonID, 0)
	for _, d := range p.Dogs {
		same(t, "the person of a dog", d.PersonID, 0)
		for _, y := range d.Toys {
			if y.DogID != 0 && y.DogID != givenDogID {
				t.Errorf("a toy is of dog %d, which is in no row", y.DogID)
			}
		}
	}
}

// noRows fails the test for each existing row of a tree.
func noRows(t *testing.T, db *gorm.DB) {
	t.Helper()
	for _, model := range personModels {
		holds(t, db, model, 0)
	}
	same(t, "rows in person_clubs", plainOne[int](t, db, "SELECT count(*) FROM person_clubs"), 0)
}

// personStored fails the test unless the database holds the same tree as the structs.
func personStored(t *testing.T, db *gorm.DB, p *person) {
	t.Helper()
	var got person
	err := db.Session(&gorm.Session{NewDB: true}).Preload("Town").Preload("Passport").
		Preload("Dogs.Toys").Preload("Clubs.Town").Where("id = ?", p.ID).Take(&got).Error
	must(t, err, "read the tree")
	if got, want := got.lines(), p.lines(); !slices.Equal(got, want) {
		t.Errorf("the stored tree is\n%q, want\n%q", got, want)
	}
}

// lines returns every row of the tree as text, including foreign keys, in a fixed order.
func (p *person) lines() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("person %v %s of town %v", p.ID, *p.Note, *p.TownID)
	add("town %v %s", p.Town.ID, *p.Town.Note)
	add("passport %v %s of %v", p.Passport.ID, *p.Passport.Note, p.Passport.PersonID)
	for _, d := range p.Dogs {
		add("dog %v %s of %v", d.ID, *d.Note, d.PersonID)
		for _, y := range d.Toys {
			add("toy %v %v %s of %v", y.ID, y.PublicID, *y.Note, y.DogID)
		}
	}
	for _, c := range p.Clubs {
		add("club %v %s", c.ID, *c.Note)
		if c.Town != nil {
			add("town %v %s of club %v, which has town %v", c.Town.ID, *c.Town.Note, c.ID, *c.TownID)
		}
	}
	slices.Sort(lines)
	return lines
}

// createIn creates a tree in a transaction of the named kind.
var createIn = map[string]func(db *gorm.DB, tree any) error{
	"default transaction": func(db *gorm.DB, tree any) error { return db.Create(tree).Error },
	"transaction of the user": func(db *gorm.DB, tree any) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.Create(tree).Error })
	},
	"transaction of the user alone": func(db *gorm.DB, tree any) error {
		db = db.Session(&gorm.Session{SkipDefaultTransaction: true})
		return db.Transaction(func(tx *gorm.DB) error { return tx.Create(tree).Error })
	},
	"Save": func(db *gorm.DB, tree any) error { return db.Save(tree).Error },
}

func failureInTree(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	for name, create := range createIn {
		for place := range newPerson("").places() {
			t.Run(fmt.Sprintf("%s, place %d", name, place), func(t *testing.T) {
				p := newPerson("ann").withGivenIDs()
				note := *p.places()[place]
				*p.places()[place] = nil
				wantErr(t, create(db, p), nil, "create")
				if !strings.Contains(name, "of the user") { // who may commit it all the same
					p.withoutIDs(t)
				}
				noRows(t, db)

				*p.places()[place] = note
				must(t, create(db, p), "create again")
				personStored(t, db, p)
				emptyPersons(t, db)
			})
		}
	}
}

// emptyPersons empties the tables of the trees, children first.
func emptyPersons(t *testing.T, db *gorm.DB) {
	t.Helper()
	plainExec(t, db, "DELETE FROM person_clubs", "DELETE FROM toys", "DELETE FROM dogs",
		"DELETE FROM passports", "DELETE FROM people", "DELETE FROM clubs", "DELETE FROM towns")
}

func failureInTreeWithoutTransaction(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, &gorm.Config{SkipDefaultTransaction: true}, personModels...)
	for place := range newPerson("").places() {
		t.Run(fmt.Sprintf("place %d", place), func(t *testing.T) {
			p := newPerson("ann")
			*p.places()[place] = nil
			wantErr(t, db.Create(p).Error, nil, "create")
			// Nothing is rolled back: an ID is in its struct if and only if its row exists.
			kept := p.generated()
			for _, table := range personTables {
				rows := plainRows[int64](t, db, "SELECT id FROM "+table+" ORDER BY id")
				slices.Sort(kept[table])
				if !slices.Equal(kept[table], rows) {
					t.Errorf("the structs of %s have the IDs %v, its rows %v", table, kept[table], rows)
				}
			}
			emptyPersons(t, db)
		})
	}
}

func failureInManyTrees(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	people := []*person{newPerson("ann"), newPerson("bob").withGivenIDs(), newPerson("eve")}
	flaw := people[1].places()[5]
	note := *flaw
	*flaw = nil
	wantErr(t, db.Create(people).Error, nil, "create")
	for _, p := range people {
		for table, ids := range p.generated() {
			if len(ids) > 0 {
				t.Errorf("%s of %s keep the IDs %v, which are in no row", table, *p.Note, ids)
			}
		}
	}
	people[1].withoutIDs(t)
	noRows(t, db)

	*flaw = note
	must(t, db.Create(people).Error, "create again")
	for _, p := range people {
		personStored(t, db, p)
	}
	holds(t, db, &town{}, 6)
	holds(t, db, &toy{}, 9)
}

func sourceFailsInTree(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, personModels...)
	failures := 0
	for at := 1; ; at++ {
		numbers.take()
		numbers.step = func(_ context.Context, call int) error {
			if call == at {
				return errSource
			}
			return nil
		}
		p := newPerson("ann").withGivenIDs()
		err := db.Create(p).Error
		if err == nil {
			personStored(t, db, p)
			break
		}
		failures++
		wantErr(t, err, errSource, fmt.Sprintf("create, with reservation %d failing", at))
		p.withoutIDs(t)
		noRows(t, db)
	}
	// The reservations: town, person, passport, dogs, toys, the club's town and the clubs.
	same(t, "reservations of a tree", failures, 7)
}

func contextEndsInTree(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, personModels...)
	ctx, cancel := context.WithCancelCause(t.Context())
	numbers.step = func(_ context.Context, call int) error {
		if call == 5 {
			cancel(errCause) // the source itself does not check the context
		}
		return nil
	}
	p := newPerson("ann").withGivenIDs()
	// The driver may add that the transaction has ended. GORM keeps the last error as an error and
	// the earlier errors only as text.
	err := db.WithContext(ctx).Create(p).Error
	wantErr(t, err, nil, "create")
	says(t, err, context.Canceled.Error())
	p.withoutIDs(t)
	noRows(t, db)
	must(t, db.Create(p).Error, "create again")
	personStored(t, db, p)
}
