package filling_test

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// resetBehaviors test which IDs a struct keeps after a failed create: the IDs that the user set,
// and the IDs of rows that may exist.
func resetBehaviors() []behavior {
	return []behavior{
		{
			Name: "a hook that fails before the insert takes the IDs back",
			Run:  inEveryMode(models(&hooked{}), failingBeforeCreate),
		},
		{
			Name: "a hook that fails after the insert takes the IDs back if the row goes too",
			Run:  inEveryMode(models(&hooked{}), failingAfterCreate),
		},
		{
			Name: "in a transaction of the user a row that is there keeps its ID when its create fails",
			Run:  inEveryMode(models(&hooked{}), goesOn),
		},
		{
			Name: "in a transaction of the user a parent that is there keeps its ID when a child fails",
			Run:  inEveryMode(models(&holder{}, &held{}), childFails),
		},
		{
			Name: "a retry stores no foreign key that leads to a parent which was rolled back",
			Run:  retriedWithoutParent,
		},
		{
			Name: "after a failed create the row that stood in the way can be read into the struct",
			Run:  inEveryMode(models(&account{}), readAfterDuplicate),
		},
		{
			Name: "a FirstOrCreate that lost a race finds the row when it is retried",
			Run:  retriedFirstOrCreate,
		},
		{
			Name: "a failed commit keeps the ID, because the row may be there",
			Only: []string{"postgres"},
			Run:  failedCommitKeepsID,
		},
		{
			Name: "a rollback by the user keeps the IDs",
			Run:  userRollbackKeepsIDs,
		},
		{
			Name: "batches before the one that fails keep their IDs",
			Run:  earlierBatchesKeepIDs,
		},
	}
}

func failingBeforeCreate(t *testing.T, db *gorm.DB) {
	list := []hooked{{}, {ID: 5}, {Order: failBeforeCreate}}
	wantErr(t, db.Create(&list).Error, errHooked, "create")
	for i, want := range []snowflakeplugin.ID{0, 5, 0} {
		same(t, "the ID afterwards", list[i].ID, want)
		same(t, "the public ID afterwards", list[i].PublicID, 0)
	}
	holds(t, db, &hooked{}, 0)
}

func failingAfterCreate(t *testing.T, db *gorm.DB) {
	h := hooked{Order: failAfterCreate}
	wantErr(t, db.Create(&h).Error, errHooked, "create")
	if db.SkipDefaultTransaction {
		hookedStored(t, db, h) // the row is not removed again
		return
	}
	same(t, "the ID afterwards", h.ID, 0)
	same(t, "the public ID afterwards", h.PublicID, 0)
	holds(t, db, &hooked{}, 0)

	err := db.Session(&gorm.Session{SkipDefaultTransaction: true}).Transaction(func(tx *gorm.DB) error {
		return tx.Create(&h).Error
	})
	wantErr(t, err, errHooked, "create in a transaction of the user")
	holds(t, db, &hooked{}, 0)
	if h.ID == 0 {
		t.Error("the transaction of the user takes the ID of a row back that the user might have committed")
	}
}

// goesOn creates a struct in a transaction that is committed in spite of the error, as a user may do it. A
// second Create of the struct must not store it twice.
func goesOn(t *testing.T, db *gorm.DB) {
	h, list := hooked{Order: failAfterCreate}, []hooked{{}, {Order: failAfterCreate}}
	err := db.Transaction(func(tx *gorm.DB) error {
		wantErr(t, tx.Create(&h).Error, errHooked, "create")
		wantErr(t, tx.Create(&list).Error, errHooked, "create a slice")
		return nil
	})
	must(t, err, "commit")
	for _, one := range append(list, h) {
		if one.ID == 0 || one.PublicID == 0 {
			t.Errorf("the row is there, and its struct has the IDs %v and %v", one.ID, one.PublicID)
		}
		one.Order = ""
		wantErr(t, db.Create(&one).Error, nil, "create the same struct again")
	}
	holds(t, db, &hooked{}, 3)
}

// childFails is goesOn with a child that fails by itself, after its parent is there.
func childFails(t *testing.T, db *gorm.DB) {
	p := holder{Children: []held{{Note: "good"}, {Note: failBeforeCreate}}}
	err := db.Transaction(func(tx *gorm.DB) error {
		wantErr(t, tx.Create(&p).Error, errHooked, "create")
		return nil
	})
	must(t, err, "commit")
	same(t, "the ID of a child that is nowhere", p.Children[0].ID, 0)
	holds(t, db, &holder{}, 1)
	holds(t, db, &held{}, 0)
	if stored[holder](t, db, p.ID); p.ID == 0 {
		t.Error("the row of the parent is there, and its struct has no ID")
	}
	same(t, "the parent of a child", p.Children[1].HolderID, p.ID)
	p.Children[1].Note = "better"
	must(t, db.Save(&p).Error, "save it again")
	holds(t, db, &holder{}, 1)
	holds(t, db, &held{}, 2)
}

// A held row refuses to be created if its note says so.
type (
	holder struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Children []held
	}
	held struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note     string             `gorm:"size:100"`
		HolderID snowflakeplugin.ID
	}
)

func (h *held) BeforeCreate(*gorm.DB) error {
	if h.Note == failBeforeCreate {
		return errHooked
	}
	return nil
}

// A sailor has foreign keys of all sorts: to its crew, by a pointer or by value, and to the crew that has it.
type (
	crew struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Order   string             `gorm:"size:100"`
		Leader  *sailor            `gorm:"foreignKey:LedID"`
		Sailors []*sailor          `gorm:"foreignKey:HomeID"`
		Badge   *picture           `gorm:"polymorphic:Owner"`
	}
	sailor struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Email  string             `gorm:"size:100;uniqueIndex"`
		AwayID int64
		Away   *crew
		LedID  *int64
		HomeID *snowflakeplugin.ID
	}
)

func (c *crew) AfterCreate(*gorm.DB) error {
	if c.Order == failAfterCreate {
		return errHooked
	}
	return nil
}

// retriedWithoutParent lets creates of sailors fail together with their crews, and then creates the sailors
// alone.
func retriedWithoutParent(t *testing.T, target dbtest.Target) {
	cfg := &gorm.Config{DisableForeignKeyConstraintWhenMigrating: true} // a crew may be missing
	db, _ := open(t, target, cfg, &crew{}, &sailor{}, &picture{})
	must(t, db.Create(&sailor{Email: takenEmail}).Error, "create the row in the way")
	retry := func(name string, sailors ...*sailor) {
		t.Helper()
		for i, m := range sailors {
			m.Away, m.Email = nil, fmt.Sprintf("%d@%s.example.com", i, name)
			must(t, db.Create(m).Error, name+": create it alone")
			got := stored[sailor](t, db, m.ID)
			if got.AwayID != 0 || got.LedID != nil || got.HomeID != nil {
				t.Errorf("%s: the row leads to the crews %v, %v and %v, and there is none", name, got.AwayID, got.LedID,
					got.HomeID)
			}
		}
		holds(t, db, &crew{}, 0)
	}

	one := &sailor{Email: takenEmail, Away: &crew{}}
	wantErr(t, db.Create(one).Error, nil, "create one")
	retry("one", one)

	list := []*sailor{{Email: "ann@example.com", Away: &crew{}}, {Email: takenEmail, Away: &crew{}}}
	wantErr(t, db.Create(list).Error, nil, "create a slice")
	retry("slice", list...)

	values := []sailor{{Email: "ann@example.com", Away: &crew{}}, {Email: takenEmail, Away: &crew{}}}
	wantErr(t, db.Create(&values).Error, nil, "create a slice of values")
	retry("values", &values[0], &values[1])

	home := crew{
		Order: failAfterCreate, Leader: &sailor{Email: "bob@example.com"}, Badge: &picture{},
		Sailors: []*sailor{{Email: "eve@example.com"}, {Email: "kim@example.com"}},
	}
	wantErr(t, db.Create(&home).Error, errHooked, "create a crew")
	same(t, "the owner of the badge", home.Badge.OwnerID, 0)
	retry("crew", home.Leader, home.Sailors[0], home.Sailors[1])

	batches := []*sailor{{Email: "1@example.com"}, {Email: "2@example.com"}, {Email: "3@example.com"}, {Email: takenEmail}}
	for _, m := range batches {
		m.Away = &crew{}
	}
	wantErr(t, db.CreateInBatches(batches, 2).Error, nil, "create in batches")
	for i, m := range batches {
		// The transaction is that of CreateInBatches, so the crews keep their IDs, and a retry stores them.
		if m.AwayID != int64(m.Away.ID) {
			t.Errorf("batches: sailor %d leads to the crew %d, which has the ID %d", i, m.AwayID, m.Away.ID)
		}
	}
	batches[3].Email = "4@example.com"
	must(t, db.CreateInBatches(batches, 2).Error, "create in batches again")
	for _, m := range batches {
		stored[crew](t, db, stored[sailor](t, db, m.ID).AwayID)
	}

	// A row that is there gets a new crew, and fails.
	there := batches[0]
	there.Away, there.Email = &crew{}, takenEmail
	wantErr(t, db.Save(there).Error, nil, "save")
	same(t, "the crew after a failed Save", there.AwayID, 0)
}

func readAfterDuplicate(t *testing.T, db *gorm.DB) {
	taken := account{Email: takenEmail, Name: "first"}
	must(t, db.Create(&taken).Error, "create")
	a := account{Email: takenEmail, Name: "second"}
	wantErr(t, db.Create(&a).Error, nil, "create a duplicate")
	must(t, db.First(&a, "email = ?", takenEmail).Error, "read into the same struct")
	same(t, "what was read", a, taken)
}

func retriedFirstOrCreate(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	db, rivals := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithNode(1)), &account{})
	use(t, rivals, snowflakeplugin.New(snowflakeplugin.WithNode(2)), &account{})

	// Another client creates the row between the query of FirstOrCreate and its INSERT.
	rival := account{Email: takenEmail, Name: "rival"}
	err := db.Callback().Query().After("gorm:query").Register("test:rival", func(tx *gorm.DB) {
		if rival.ID == 0 {
			_ = tx.AddError(rivals.Create(&rival).Error)
		}
	})
	must(t, err, "register the rival")

	a := account{Name: "late"}
	firstOrCreate := func() error {
		return db.Where(&account{Email: takenEmail}).FirstOrCreate(&a).Error
	}
	wantErr(t, firstOrCreate(), nil, "FirstOrCreate against a rival")
	accountStored(t, rivals, rival)
	same(t, "the ID after the lost race", a.ID, 0)
	must(t, firstOrCreate(), "FirstOrCreate again")
	same(t, "what the retry found", a, rival)
	holds(t, db, &account{}, 1)
}

func failedCommitKeepsID(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	err := db.Exec(`ALTER TABLE accounts ADD CONSTRAINT one_name UNIQUE (name) ` +
		`DEFERRABLE INITIALLY DEFERRED`).Error
	must(t, err, "add a constraint that is checked at commit")
	must(t, db.Create(&account{Email: "ann@example.com", Name: "one"}).Error, "create")

	b := account{Email: "bob@example.com", Name: "one"}
	wantErr(t, db.Create(&b).Error, nil, "create what cannot be committed")
	if b.ID == 0 {
		t.Fatal("the ID is gone, so a retry could store the row twice")
	}
	kept := b.ID
	b.Name = "two"
	must(t, db.Create(&b).Error, "create again")
	same(t, "the ID of the retry", b.ID, kept)
	accountStored(t, db, b)
	holds(t, db, &account{}, 2)
}

func userRollbackKeepsIDs(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	changedMind := errors.New("changed my mind")
	a, list := account{Email: "ann@example.com"}, []account{{Email: "bob@example.com"}}
	err := db.Transaction(func(tx *gorm.DB) error {
		must(t, tx.Create(&a).Error, "create a struct")
		must(t, tx.Create(&list).Error, "create a slice")
		accountStored(t, tx, a)
		return changedMind
	})
	wantErr(t, err, changedMind, "the transaction")
	holds(t, db, &account{}, 0)
	if a.ID == 0 || list[0].ID == 0 {
		t.Fatalf("the IDs after the rollback are %v and %v", a.ID, list[0].ID)
	}
	keptA, keptB := a.ID, list[0].ID
	must(t, db.Create(&a).Error, "create the struct again")
	must(t, db.Create(&list).Error, "create the slice again")
	same(t, "the ID of the struct", a.ID, keptA)
	same(t, "the ID in the slice", list[0].ID, keptB)
	accountStored(t, db, a)
	accountStored(t, db, list[0])
}

func earlierBatchesKeepIDs(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			db, _ := open(t, target, &gorm.Config{SkipDefaultTransaction: skip}, &account{})
			must(t, db.Create(&account{Email: takenEmail}).Error, "create the row in the way")
			list := []account{
				{Email: "1@example.com"}, {Email: "2@example.com"},
				{Email: "3@example.com"}, {Email: takenEmail},
				{Email: "5@example.com"},
			}
			wantErr(t, db.CreateInBatches(&list, 2).Error, nil, "create in batches")
			for i, a := range list {
				switch {
				case i < 2 && a.ID == 0:
					t.Errorf("row %d of an earlier batch has lost its ID", i)
				case i >= 2 && a.ID != 0:
					t.Errorf("row %d has ID %v, which is in no row", i, a.ID)
				}
			}
			if skip {
				accountStored(t, db, list[0])
				accountStored(t, db, list[1])
				holds(t, db, &account{}, 3)
				return
			}
			// One transaction contains all batches, so no row remains and everything can be
			// retried.
			holds(t, db, &account{}, 1)
			kept := list[0].ID
			list[3].Email = "4@example.com"
			must(t, db.CreateInBatches(&list, 2).Error, "create in batches again")
			same(t, "the ID of the first row", list[0].ID, kept)
			for _, a := range list {
				accountStored(t, db, a)
			}
		})
	}
}
