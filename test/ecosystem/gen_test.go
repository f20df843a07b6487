package ecosystem_test

import (
	"fmt"
	"testing"

	"gorm.io/gen"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// openGen returns what the code that gen generates for customers is built on, beside a handle
// without any plugin to read by.
func openGen(t *testing.T, target dbtest.Target) (do *gen.DO, plain *gorm.DB, numbers *ledger) {
	t.Helper()
	dsn := target.DSN(t)
	plain, numbers = migrate(t, target, dsn), newLedger(t)
	db, plugin := target.OpenDSN(t, dsn, nil), snowflakeplugin.New(snowflakeplugin.WithSource(numbers))
	must(t, db.Use(plugin), "Use")
	must(t, plugin.Prepare(db, allModels...), "Prepare")
	do = &gen.DO{}
	do.UseDB(db)
	do.UseModel(&customer{})
	return do, plain, numbers
}

func TestGenCreateIsFilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		do, plain, numbers := openGen(t, target)
		// The generated Create takes pointers and passes them on as a slice.
		rows := []*customer{
			{Email: "ann", Orders: []purchase{{Total: 1}}, Marks: []mark{{Code: "x"}}}, {Email: "bob", ID: 5},
		}
		must(t, do.Create(rows), "Create")
		if got := fmt.Sprint(numbers.take()); got != "[3 1 1]" {
			t.Errorf("the reservations are %s", got)
		}
		for _, row := range rows {
			storedCustomer(t, plain, row)
		}
		if rows[1].ID != 5 {
			t.Errorf("the ID that was given is %v", rows[1].ID)
		}
	})
}

func TestGenCreateInBatchesMakesOneReservationABatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		do, plain, numbers := openGen(t, target)
		var rows []*customer
		for i := range 5 {
			rows = append(rows, &customer{Email: fmt.Sprint(i)})
		}
		must(t, do.CreateInBatches(rows, 2), "CreateInBatches")
		if got := fmt.Sprint(numbers.take()); got != "[4 4 2]" {
			t.Errorf("the reservations are %s", got)
		}
		for _, row := range rows {
			storedCustomer(t, plain, row)
		}
	})
}

// Save of gen is an upsert that updates all columns; the public ID of a row that is there must
// not be one of them.
func TestGenSaveKeepsStoredIDs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		do, plain, _ := openGen(t, target)
		first := &customer{Email: "ann", Name: "first"}
		must(t, do.Save(first), "Save of a new row")
		storedCustomer(t, plain, first)

		changed := &customer{ID: first.ID, Email: "ann", Name: "second"}
		rows := []*customer{{Email: "new 1"}, changed, {Email: "new 2"}}
		must(t, do.Save(rows), "Save of new rows and one that is there")
		if changed.ID != first.ID || changed.PublicID != first.PublicID {
			t.Errorf("the IDs of the row that is there are %v and %v, want %v and %v",
				changed.ID, changed.PublicID, first.ID, first.PublicID)
		}
		for _, row := range rows {
			storedCustomer(t, plain, row)
		}
		holds(t, plain, &customer{}, 3)
	})
}

func TestGenFirstOrCreateIsFilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		do, plain, _ := openGen(t, target)
		created, err := do.FirstOrCreate()
		must(t, err, "FirstOrCreate of nothing")
		row, ok := created.(*customer)
		if !ok {
			t.Fatalf("created was a %T", created)
		}
		storedCustomer(t, plain, row)
		found, err := do.FirstOrCreate()
		must(t, err, "FirstOrCreate of what is there")
		if found.(*customer).ID != row.ID {
			t.Errorf("found was %+v, want %+v", found, row)
		}
	})
}
