package filling_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// relationBehaviors test that every kind of relation is stored completely.
func relationBehaviors() []behavior {
	return []behavior{
		{
			Name: "a tree of belongs to, has one, has many and many to many is stored whole",
			Run:  inEveryMode(personModels, wholeTree),
		},
		{
			Name: "slices of trees are stored whole, and what they share is stored once",
			Run:  slicesOfTrees,
		},
		{
			Name: "polymorphic relations point to their owners",
			Run:  polymorphicRelations,
		},
		{
			Name: "relations of a model to itself are stored whole",
			Run:  selfReferences,
		},
		{
			Name: "relations by a second tagged column point to it",
			Run:  relationsByPublicID,
		},
		{
			Name: "a Save of a row that is there fills what is new below it",
			Run:  saveAddsChildren,
		},
	}
}

// noOrphans fails the test if a foreign key refers to a row that does not exist.
func noOrphans(t *testing.T, db *gorm.DB, table, key, parent, parentKey string) {
	t.Helper()
	query := fmt.Sprintf("SELECT count(*) FROM %s c LEFT JOIN %s p ON p.%s = c.%s "+
		"WHERE c.%s IS NOT NULL AND p.%s IS NULL", table, parent, parentKey, key, key, parentKey)
	same(t, fmt.Sprintf("rows of %s whose %s points nowhere", table, key), plainOne[int](t, db, query), 0)
}

// noOrphanedPersons calls noOrphans for all foreign keys of the trees.
func noOrphanedPersons(t *testing.T, db *gorm.DB) {
	t.Helper()
	for _, c := range [][3]string{
		{"people", "town_id", "towns"}, {"passports", "person_id", "people"},
		{"dogs", "person_id", "people"}, {"toys", "dog_id", "dogs"}, {"clubs", "town_id", "towns"},
		{"person_clubs", "person_id", "people"}, {"person_clubs", "club_id", "clubs"},
	} {
		noOrphans(t, db, c[0], c[1], c[2], "id")
	}
}

func wholeTree(t *testing.T, db *gorm.DB) {
	for _, p := range []*person{newPerson("ann"), newPerson("bob").withGivenIDs()} {
		must(t, db.Create(p).Error, "create")
		personStored(t, db, p)
	}
	noOrphanedPersons(t, db)
	for i, want := range []int64{4, 2, 2, 4, 6, 4} {
		holds(t, db, personModels[i], want)
	}
	same(t, "rows of person_clubs", plainOne[int](t, db, "SELECT count(*) FROM person_clubs"), 4)

	full := newPerson("eve")
	must(t, db.Session(&gorm.Session{FullSaveAssociations: true}).Create(full).Error, "create, all saved")
	personStored(t, db, full)
	skipped := newPerson("dan")
	must(t, db.Session(&gorm.Session{SkipHooks: true}).Create(skipped).Error, "create, hooks skipped")
	personStored(t, db, skipped)
	noOrphanedPersons(t, db)
}

func slicesOfTrees(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	people := []*person{newPerson("ann"), newPerson("bob"), newPerson("eve")}
	for _, p := range people {
		p.Town = people[0].Town
		p.Clubs[1] = people[0].Clubs[1]
	}
	must(t, db.Create(people).Error, "create pointers")
	for _, p := range people {
		personStored(t, db, p)
	}
	// There are three towns of clubs and one shared town, and three clubs and one shared club.
	for i, want := range []int64{4, 3, 3, 6, 9, 4} {
		holds(t, db, personModels[i], want)
	}
	values := []person{*newPerson("dan"), *newPerson("kim")}
	values[1].Town = people[0].Town // this town exists already
	must(t, db.Create(&values).Error, "create values")
	for i := range values {
		personStored(t, db, &values[i])
	}
	same(t, "the town that was there", values[1].Town.ID, people[1].Town.ID)
	noOrphanedPersons(t, db)
	for i, want := range []int64{7, 5, 5, 10, 15, 8} {
		holds(t, db, personModels[i], want)
	}
}

// A picture belongs to any model that has pictures.
type (
	picture struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		OwnerID   snowflakeplugin.ID
		OwnerType string `gorm:"size:50"`
		Title     string `gorm:"size:50"`
	}
	album struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Cover    *picture           `gorm:"polymorphic:Owner;polymorphicValue:cover"`
		Pictures []picture          `gorm:"polymorphic:Owner"`
	}
	frame struct {
		ID      int64   `gorm:"primaryKey" snowflake:"true"`
		Picture picture `gorm:"polymorphic:Owner"`
	}
)

func polymorphicRelations(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &picture{}, &album{}, &frame{})
	a := album{Cover: &picture{Title: "cover"}, Pictures: []picture{{Title: "one"}, {Title: "two"}}}
	must(t, db.Create(&a).Error, "create an album")
	frames := []frame{{Picture: picture{Title: "left"}}, {Picture: picture{Title: "right"}}}
	must(t, db.Create(&frames).Error, "create frames")

	owned := func(p picture, owner snowflakeplugin.ID, kind string) {
		t.Helper()
		same(t, "the stored picture", stored[picture](t, db, p.ID), p)
		same(t, "its owner", p.OwnerID, owner)
		same(t, "the kind of its owner", p.OwnerType, kind)
	}
	stored[album](t, db, a.ID)
	owned(*a.Cover, a.ID, "cover")
	owned(a.Pictures[0], a.ID, "albums")
	owned(a.Pictures[1], a.ID, "albums")
	for _, f := range frames {
		stored[frame](t, db, f.ID)
		owned(f.Picture, snowflakeplugin.ID(f.ID), "frames")
	}
	holds(t, db, &picture{}, 5)
}

// member refers to other members.
type member struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name     string             `gorm:"size:50"`
	ParentID *snowflakeplugin.ID
	Parent   *member   `gorm:"foreignKey:ParentID"`
	Children []member  `gorm:"foreignKey:ParentID"`
	Friends  []*member `gorm:"many2many:member_friends"`
}

func selfReferences(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &member{})
	m := member{
		Name:   "self",
		Parent: &member{Name: "parent", Parent: &member{Name: "grandparent"}},
		Children: []member{
			{Name: "child", Children: []member{{Name: "grandchild"}}},
			{Name: "second child"},
		},
		Friends: []*member{{Name: "friend", Friends: []*member{{Name: "friend's friend"}}}},
	}
	must(t, db.Create(&m).Error, "create")
	below := func(child member, parent snowflakeplugin.ID) {
		t.Helper()
		row := stored[member](t, db, child.ID)
		same(t, "the name of "+child.Name, row.Name, child.Name)
		if row.ParentID == nil || *row.ParentID != parent {
			t.Errorf("the parent of %s is %v, want %v", child.Name, row.ParentID, parent)
		}
	}
	below(m, m.Parent.ID)
	below(*m.Parent, m.Parent.Parent.ID)
	below(m.Children[0], m.ID)
	below(m.Children[1], m.ID)
	below(m.Children[0].Children[0], m.Children[0].ID)
	same(t, "the parent of the grandparent", stored[member](t, db, m.Parent.Parent.ID).ParentID, nil)
	pair := "SELECT count(*) FROM member_friends WHERE member_id = ? AND friend_id = ?"
	same(t, "friendships", plainOne[int](t, db, pair, m.ID, m.Friends[0].ID), 1)
	same(t, "friendships below", plainOne[int](t, db, pair, m.Friends[0].ID, m.Friends[0].Friends[0].ID), 1)
	same(t, "rows of member_friends", plainOne[int](t, db, "SELECT count(*) FROM member_friends"), 2)
	holds(t, db, &member{}, 8)
}

// A parcel service refers to depots by their public IDs.
type (
	depot struct {
		ID       int64              `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
		Vans     []van              `gorm:"foreignKey:DepotPublicID;references:PublicID"`
	}
	van struct {
		ID            snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		DepotPublicID *snowflakeplugin.ID
		HomePublicID  *snowflakeplugin.ID
		Home          *depot `gorm:"foreignKey:HomePublicID;references:PublicID"`
	}
)

func relationsByPublicID(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &depot{}, &van{})
	d := depot{Vans: []van{{Home: &depot{}}, {}}}
	must(t, db.Create(&d).Error, "create")
	if d.PublicID == 0 || int64(d.PublicID) == d.ID {
		t.Fatalf("the IDs of the depot are %v and %v", d.ID, d.PublicID)
	}
	for _, v := range d.Vans {
		row := stored[van](t, db, v.ID)
		same(t, "the depot of a van", *row.DepotPublicID, d.PublicID)
		if v.Home == nil {
			same(t, "the home of a van without", row.HomePublicID, nil)
			continue
		}
		same(t, "the home of a van", *row.HomePublicID, v.Home.PublicID)
		same(t, "the stored home", stored[depot](t, db, v.Home.ID).PublicID, v.Home.PublicID)
	}
	noOrphans(t, db, "vans", "depot_public_id", "depots", "public_id")
	noOrphans(t, db, "vans", "home_public_id", "depots", "public_id")
	holds(t, db, &depot{}, 2)
	holds(t, db, &van{}, 2)
}

func saveAddsChildren(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	p := newPerson("ann")
	must(t, db.Create(p).Error, "create")
	id := p.ID
	extra := newPerson("extra")
	p.Dogs = append(p.Dogs, extra.Dogs...)
	p.Clubs = append(p.Clubs, extra.Clubs...)
	p.Town = extra.Town
	must(t, db.Save(p).Error, "save")
	same(t, "the ID of the root", p.ID, id)
	personStored(t, db, p)
	noOrphanedPersons(t, db)
	for i, want := range []int64{4, 1, 1, 4, 6, 4} {
		holds(t, db, personModels[i], want)
	}
}
