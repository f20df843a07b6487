package filling_test

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// appendBehaviors test how rows are filled that are added to an association later.
func appendBehaviors() []behavior {
	return []behavior{
		{
			Name: "structs that are appended to an association are filled",
			Run:  appendStructs,
		},
		{
			Name: "maps that are appended to an association are filled",
			Run:  appendMaps,
		},
		{
			Name: "structs and maps that replace an association are filled",
			Run:  replaceAssociations,
		},
		{
			Name: "the generic way to create in an association is filled",
			Run:  genericAssociation,
		},
		{
			Name: "what could not be appended has no ID",
			Run:  failedAppend,
		},
	}
}

// openRoot stores a person without associations.
func openRoot(t *testing.T, target dbtest.Target) (*gorm.DB, *person) {
	t.Helper()
	db, _ := open(t, target, nil, personModels...)
	note := "root"
	p := &person{Note: &note}
	must(t, db.Create(p).Error, "create the root")
	return db, p
}

// dogOf fails the test unless the row of the dog belongs to the person.
func dogOf(t *testing.T, db *gorm.DB, p *person, id int64, note string) {
	t.Helper()
	row := stored[dog](t, db, id)
	same(t, "the note of a dog", *row.Note, note)
	same(t, "the owner of a dog", row.PersonID, p.ID)
}

// clubOf fails the test unless the club exists and has the person as a member exactly once.
func clubOf(t *testing.T, db *gorm.DB, p *person, id snowflakeplugin.ID, note string) {
	t.Helper()
	same(t, "the note of a club", *stored[club](t, db, id).Note, note)
	joins := plainOne[int](t, db,
		"SELECT count(*) FROM person_clubs WHERE person_id = ? AND club_id = ?", p.ID, id)
	same(t, "join rows of a club", joins, 1)
}

func appendStructs(t *testing.T, target dbtest.Target) {
	db, p := openRoot(t, target)
	to := func(name string) *gorm.Association { return db.Model(p).Association(name) }
	given := newPerson("given")
	one, list, refs := given.Dogs[0], []dog{{Note: p.Note}, {Note: p.Note}}, []*dog{{Note: p.Note}}
	must(t, to("Dogs").Append(&one), "append a dog")
	must(t, to("Dogs").Append(&list), "append dogs")
	must(t, to("Dogs").Append(refs), "append pointers")
	dogOf(t, db, p, one.ID, *one.Note)
	for _, y := range one.Toys {
		same(t, "the ID of a toy, which Append does not store", y.ID|y.PublicID, 0)
	}
	for _, d := range p.Dogs[1:] {
		dogOf(t, db, p, d.ID, *p.Note)
	}
	same(t, "dogs of the struct", len(p.Dogs), 4)
	holds(t, db, &dog{}, 4)
	holds(t, db, &toy{}, 0)

	must(t, to("Clubs").Append(given.Clubs[0], given.Clubs[1]), "append clubs")
	must(t, to("Clubs").Append(given.Clubs[0]), "append a club again")
	clubOf(t, db, p, given.Clubs[0].ID, *given.Clubs[0].Note)
	clubOf(t, db, p, given.Clubs[1].ID, *given.Clubs[1].Note)
	holds(t, db, &club{}, 2)

	must(t, to("Town").Append(given.Town), "append a town")
	same(t, "the town of the root", *stored[person](t, db, p.ID).TownID, given.Town.ID)
	must(t, to("Passport").Append(&given.Passport), "append a passport")
	same(t, "the owner of the passport", stored[passport](t, db, given.Passport.ID).PersonID, p.ID)
	noOrphanedPersons(t, db)
}

func appendMaps(t *testing.T, target dbtest.Target) {
	db, p := openRoot(t, target)
	to := func(name string) *gorm.Association { return db.Model(p).Association(name) }
	one := map[string]any{"note": "map"}
	must(t, to("Dogs").Append(one), "append a map")
	list := []map[string]any{{"note": "first of list"}, {"Note": "second of list", "ID": 0}}
	must(t, to("Dogs").Append(list), "append maps")
	for key, m := range map[string]map[string]any{"id": one, "ID": list[1]} {
		id, is := m[key].(int64)
		if !is {
			t.Fatalf("the map is %v", m)
		}
		note, _ := m["note"].(string)
		if key == "ID" {
			note, _ = m["Note"].(string)
		}
		dogOf(t, db, p, id, note)
	}
	id, _ := list[0]["id"].(int64)
	dogOf(t, db, p, id, "first of list")
	holds(t, db, &dog{}, 3)

	clubs := map[string]map[string]any{"id": {"note": "club"}, "ID": {"note": "second club", "ID": nil}}
	for key, m := range clubs {
		must(t, to("Clubs").Append(m), "append a map to many to many")
		id, is := m[key].(snowflakeplugin.ID)
		if !is {
			t.Fatalf("the map is %v", m)
		}
		clubOf(t, db, p, id, m["note"].(string))
	}
	holds(t, db, &club{}, 2)
	same(t, "join rows", plainOne[int](t, db, "SELECT count(*) FROM person_clubs"), 2)
	noOrphanedPersons(t, db)
}

func replaceAssociations(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	p, other := newPerson("ann"), newPerson("other")
	must(t, db.Create(p).Error, "create")
	to := func(name string) *gorm.Association { return db.Model(p).Association(name) }
	old := p.Dogs[0].ID
	must(t, to("Dogs").Replace(&other.Dogs[0], &other.Dogs[1]), "replace the dogs")
	for _, d := range p.Dogs {
		dogOf(t, db, p, d.ID, *d.Note)
	}
	owned := plainNull(t, db, "SELECT person_id FROM dogs WHERE id = ?", old)
	same(t, "whether a dog that was replaced has an owner", owned.Valid, false)
	must(t, to("Clubs").Replace(other.Clubs), "replace the clubs")
	for _, c := range other.Clubs {
		clubOf(t, db, p, c.ID, *c.Note)
	}
	same(t, "join rows", plainOne[int](t, db, "SELECT count(*) FROM person_clubs"), 2)
	must(t, to("Town").Replace(other.Town), "replace the town")
	same(t, "the town of the root", *stored[person](t, db, p.ID).TownID, other.Town.ID)

	m := map[string]any{"note": "map"}
	must(t, to("Clubs").Replace(m), "replace the clubs by a map")
	id, _ := m["id"].(snowflakeplugin.ID)
	clubOf(t, db, p, id, "map")
	same(t, "join rows at last", plainOne[int](t, db, "SELECT count(*) FROM person_clubs"), 1)
	noOrphanedPersons(t, db)
}

func genericAssociation(t *testing.T, target dbtest.Target) {
	db, p := openRoot(t, target)
	added := clause.Association{
		Association: "Dogs", Type: clause.OpCreate,
		Set: []clause.Assignment{{Column: clause.Column{Name: "note"}, Value: "generic"}},
	}
	appended := clause.Association{
		Association: "Dogs", Type: clause.OpCreate, Values: []any{&dog{Note: p.Note}},
	}
	for _, op := range []clause.Association{added, appended} {
		_, err := gorm.G[person](db).Where("id = ?", p.ID).Set(op).Update(t.Context())
		must(t, err, "create in the association")
	}
	dogs := allStored[dog](t, db)
	same(t, "dogs", len(dogs), 2)
	dogOf(t, db, p, dogs[0].ID, "generic")
	dogOf(t, db, p, dogs[1].ID, "root")
}

func failedAppend(t *testing.T, target dbtest.Target) {
	db, p := openRoot(t, target)
	given := newPerson("given")
	given.Dogs[1].Note = nil
	err := db.Model(p).Association("Dogs").Append(&given.Dogs[0], &given.Dogs[1])
	wantErr(t, err, nil, "append dogs, one of which fails")
	for _, d := range append(given.Dogs, p.Dogs...) {
		same(t, "the ID of a dog", d.ID, 0)
	}
	holds(t, db, &dog{}, 0)

	m := map[string]any{"id": nil}
	wantErr(t, db.Model(p).Association("Dogs").Append(m), nil, "append a map without a note")
	same(t, "the ID in the map", m["id"], nil)
	holds(t, db, &dog{}, 0)
}
