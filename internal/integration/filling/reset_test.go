package filling_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
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
	same(t, "the ID after the transaction of the user", h.ID, 0)
	holds(t, db, &hooked{}, 0)
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
