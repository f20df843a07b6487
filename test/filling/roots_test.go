package filling_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// In the trees of this file, the plugin does not fill the roots, or hooks create some of the rows.

// countdown is a source whose numbers decrease, within a reservation and from one to the next.
type countdown struct{ last atomic.Int64 }

func (c *countdown) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = c.last.Add(-1)
	}
	return nil
}

func unorderedNumbers(t *testing.T, target dbtest.Target) {
	db, numbers := target.Open(t, nil), &countdown{}
	numbers.last.Store(1 << 60)
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), append(personModels, &account{})...)
	list := fiveOf("list", newAccount)
	list[4].Email = list[0].Email
	wantErr(t, db.Create(&list).Error, nil, "create a slice with a duplicate")
	for _, a := range list {
		same(t, "the ID of "+a.Name, a.ID, 0)
	}
	p := newPerson("ann").withGivenIDs()
	flaw := &p.Clubs[0].Note
	note := *flaw
	*flaw = nil
	wantErr(t, db.Create(p).Error, nil, "create a tree that fails late")
	p.withoutIDs(t)
	noRows(t, db)
	*flaw = note
	must(t, db.Create(p).Error, "create again")
	personStored(t, db, p)
}

type (
	// shelf has its own key, so its root needs no ID.
	shelf struct {
		Name    string   `gorm:"size:50;primaryKey"`
		Binders []binder `gorm:"foreignKey:ShelfName"`
	}
	binder struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note      *string            `gorm:"size:100;not null"`
		ShelfName string             `gorm:"size:50"`
		Sheets    []sheet
	}
	sheet struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note     *string            `gorm:"size:100;not null"`
		BinderID snowflakeplugin.ID
	}
)

func untaggedRoot(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &shelf{}, &binder{}, &sheet{})
	note := "words"
	s := shelf{Name: "left", Binders: []binder{
		{Note: &note, Sheets: []sheet{{Note: &note}, {}}}, {Note: &note},
	}}
	wantErr(t, db.Create(&s).Error, nil, "create with an empty sheet")
	first := &s.Binders[0]
	for _, id := range []snowflakeplugin.ID{first.ID, s.Binders[1].ID, first.Sheets[0].ID, first.Sheets[1].ID} {
		same(t, "an ID afterwards", id, 0)
	}
	holds(t, db, &shelf{}, 0)
	holds(t, db, &binder{}, 0)

	first.Sheets[1].Note = &note
	must(t, db.Create(&s).Error, "create again")
	holds(t, db, &sheet{}, 2)
	for _, b := range s.Binders {
		row := stored[binder](t, db, b.ID)
		same(t, "the shelf of a binder", row.ShelfName, "left")
		for _, p := range b.Sheets {
			same(t, "the binder of a sheet", stored[sheet](t, db, p.ID).BinderID, b.ID)
		}
	}
}

func failedSaveOfExistingRoot(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			db, _ := open(t, target, &gorm.Config{SkipDefaultTransaction: skip}, personModels...)
			note := "somebody"
			root := person{Note: &note}
			must(t, db.Create(&root).Error, "create the root alone")
			p := newPerson("ann").withGivenIDs()
			p.ID = root.ID
			flaw := &p.Dogs[0].Toys[1].Note
			*flaw = nil

			wantErr(t, db.Save(p).Error, nil, "save the tree")
			same(t, "the ID of the root", p.ID, root.ID)
			kept := p.generated()
			for _, table := range personTables {
				// After a rollback only the root exists. Otherwise everything that was stored
				// before the toys exists.
				rows := plainRows[int64](t, db, "SELECT id FROM "+table+" WHERE id > 10 ORDER BY id")
				slices.Sort(kept[table])
				if !slices.Equal(kept[table], rows) {
					t.Errorf("the structs of %s have the IDs %v, its rows %v", table, kept[table], rows)
				}
			}
			same(t, "whether towns are kept", len(kept["towns"]) > 0, skip)
			if skip {
				return
			}
			*flaw = &note
			must(t, db.Save(p).Error, "save again")
			personStored(t, db, p)
		})
	}
}

// A parcel creates a label before it is stored and a receipt afterwards.
type (
	parcel struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Note      *string            `gorm:"size:100;not null"`
		Fails     bool               `gorm:"-"` // it fails after everything was created
		label     label
		receipt   receipt
		elsewhere *gorm.DB
		through   func(*parcel, *gorm.DB) *gorm.DB
	}
	label struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Text string             `gorm:"size:100"`
	}
	receipt struct {
		ID   int64  `gorm:"primaryKey" snowflake:"true"`
		Text string `gorm:"size:100"`
	}
)

func (p *parcel) BeforeCreate(tx *gorm.DB) error {
	tx = p.through(p, tx).Session(&gorm.Session{NewDB: true, Context: tx.Statement.Context})
	return tx.Create(&p.label).Error
}

func (p *parcel) AfterCreate(tx *gorm.DB) error {
	tx = p.through(p, tx).Session(&gorm.Session{NewDB: true, Context: tx.Statement.Context})
	if err := tx.Create(&p.receipt).Error; err != nil {
		return err
	}
	if p.Fails {
		return errHooked
	}
	return nil
}

// hookCreates fails a create whose hooks have created more rows through the given handle. The IDs
// of these rows are reset if the rows are removed.
func hookCreates(
	through func(*parcel, *gorm.DB) *gorm.DB, gone bool,
) func(*testing.T, dbtest.Target) {
	return func(t *testing.T, target dbtest.Target) {
		t.Helper()
		dsn := target.DSN(t)
		db, elsewhere := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
		use(t, db, plugin, &parcel{}, &label{}, &receipt{})
		use(t, elsewhere, plugin)

		note := "fragile"
		p := parcel{Note: &note, Fails: true, elsewhere: elsewhere, through: through}
		p.label.Text, p.receipt.Text = "label", "receipt"
		wantErr(t, db.Create(&p).Error, errHooked, "create")
		same(t, "the ID of the parcel", p.ID, 0)
		holds(t, db, &parcel{}, 0)
		if gone {
			same(t, "the ID of the label", p.label.ID, 0)
			same(t, "the ID of the receipt", p.receipt.ID, 0)
			holds(t, db, &label{}, 0)
			holds(t, db, &receipt{}, 0)
		} else {
			same(t, "the stored label", stored[label](t, db, p.label.ID), p.label)
			same(t, "the stored receipt", stored[receipt](t, db, p.receipt.ID), p.receipt)
			return
		}

		p.Fails = false
		must(t, db.Create(&p).Error, "create again")
		same(t, "the stored parcel's note", *stored[parcel](t, db, p.ID).Note, note)
		same(t, "the stored label", stored[label](t, db, p.label.ID), p.label)
		same(t, "the stored receipt", stored[receipt](t, db, p.receipt.ID), p.receipt)
	}
}

// swarm creates its labels on its own goroutines, in its transaction.
type swarm struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Fails  bool               `gorm:"-"` // it fails after everything was created
	labels []*label
}

func (s *swarm) AfterCreate(tx *gorm.DB) error {
	errs := make(chan error)
	for _, l := range s.labels {
		go func() { errs <- tx.Session(&gorm.Session{NewDB: true}).Create(l).Error }()
	}
	var failures []error
	for range s.labels {
		failures = append(failures, <-errs)
	}
	if s.Fails {
		failures = append(failures, errHooked)
	}
	return errors.Join(failures...)
}

func hookCreatesOnGoroutines(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &swarm{}, &label{})
	s := swarm{Fails: true}
	for range 8 {
		s.labels = append(s.labels, &label{Text: "label"})
	}
	wantErr(t, db.Create(&s).Error, errHooked, "create")
	same(t, "the ID of the swarm", s.ID, 0)
	for _, l := range s.labels {
		same(t, "the ID of a label", l.ID, 0)
	}
	holds(t, db, &label{}, 0)

	s.Fails = false
	must(t, db.Create(&s).Error, "create again")
	for _, l := range s.labels {
		same(t, "the stored label", stored[label](t, db, l.ID), *l)
	}
	holds(t, db, &label{}, 8)
	holds(t, db, &swarm{}, 1)
}
