package filling_test

import (
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestShapes(t *testing.T) { run(t, shapeBehaviors()) }

// shapeBehaviors test the ways to create that take more than one statement, and those in which the database
// has a say. internal/fill tests the shapes of the arguments.
func shapeBehaviors() []behavior {
	own := []behavior{
		{
			Name: "a tree passed by value is stored whole, and its hooks see the ID",
			Run:  valueWithMoreToIt,
		},
	}
	return slices.Concat(own, batchBehaviors(), saveBehaviors(), selectBehaviors())
}

func newAccount(name string) account { return account{Email: name, Name: name} }

func newTicket(name string) ticket { return ticket{Title: name} }

func valueWithMoreToIt(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, append(personModels, &hooked{})...)
	must(t, db.Create(hooked{}).Error, "create a hooked by value")
	h := allStored[hooked](t, db)[0]
	hookedStored(t, db, h)
	same(t, "the ID in BeforeCreate", h.CreateSaw, h.ID)

	ann := newPerson("ann")
	must(t, db.Create(*ann).Error, "create a tree by value")
	root := allStored[person](t, db)[0]
	// The associations of the value are shared with the caller, but its own fields are not.
	same(t, "the town of the root", *root.TownID, ann.Town.ID)
	for _, d := range ann.Dogs {
		row := stored[dog](t, db, d.ID)
		same(t, "the owner of a dog", row.PersonID, root.ID)
		for _, y := range d.Toys {
			same(t, "the owner of a toy", stored[toy](t, db, y.ID).DogID, d.ID)
		}
	}
	clubs := plainRows[int64](t, db, "SELECT club_id FROM person_clubs WHERE person_id = ?", root.ID)
	same(t, "clubs of the root", len(clubs), 2)
	same(t, "rows of passports", allStored[passport](t, db)[0].PersonID, root.ID)
}
