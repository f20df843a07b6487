package filling_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// batchBehaviors test creates that GORM splits into several statements.
func batchBehaviors() []behavior {
	return []behavior{
		{
			Name: "CreateInBatches makes one reservation a batch",
			Run: batches(func(db *gorm.DB, size int, rows any) error {
				return db.CreateInBatches(rows, size).Error
			}),
		},
		{
			Name: "CreateBatchSize of a session makes one reservation a batch",
			Run: batches(func(db *gorm.DB, size int, rows any) error {
				return db.Session(&gorm.Session{CreateBatchSize: size}).Create(rows).Error
			}),
		},
		{
			Name: "a batch size is no matter for a single row",
			Run:  batchOfOne,
		},
		{
			Name: "a large batch has as many different IDs as rows",
			Run:  largeBatch,
		},
	}
}

// batches creates five rows of every kind, in batches of two and in one batch.
func batches(create func(db *gorm.DB, size int, rows any) error) func(*testing.T, dbtest.Target) {
	return func(t *testing.T, target dbtest.Target) {
		t.Helper()
		for _, c := range []struct {
			size          int
			single, twice string // reservations, with one tagged column and with two
		}{
			{2, "[2 2 1]", "[4 4 2]"}, {5, "[5]", "[10]"}, {7, "[5]", "[10]"},
		} {
			t.Run(fmt.Sprint(c.size), func(t *testing.T) {
				db, numbers := openLedger(t, target, nil, &account{}, &ticket{})
				accounts, tickets := db.Model(&account{}), db.Model(&ticket{})
				list := fiveOf("list", newAccount)
				must(t, create(db, c.size, list), "create a slice")
				same(t, "reservations for a slice", fmt.Sprint(numbers.take()), c.single)
				more := fiveOf("more", newAccount)
				must(t, create(db, c.size, &more), "create a slice by pointer")
				same(t, "reservations for a slice by pointer", fmt.Sprint(numbers.take()), c.single)
				refs := refsTo(fiveOf("refs", newAccount))
				must(t, create(db, c.size, refs), "create pointers")
				same(t, "reservations for pointers", fmt.Sprint(numbers.take()), c.single)
				for i := range 5 {
					accountStored(t, db, list[i])
					accountStored(t, db, more[i])
					accountStored(t, db, *refs[i])
				}

				maps := fiveOf("maps", func(name string) map[string]any { return map[string]any{"email": name} })
				must(t, create(accounts.Session(&gorm.Session{}), c.size, maps), "create maps")
				same(t, "reservations for maps", fmt.Sprint(numbers.take()), c.single)
				for _, m := range maps {
					id, _ := m["id"].(snowflakeplugin.ID)
					accountStored(t, db, account{ID: id, Email: m["email"].(string)})
				}
				maps = fiveOf("more maps", func(name string) map[string]any { return map[string]any{"title": name} })
				must(t, create(tickets.Session(&gorm.Session{}), c.size, &maps), "create maps of tickets")
				same(t, "reservations for maps of tickets", fmt.Sprint(numbers.take()), c.twice)
				for _, m := range maps {
					id, _ := m["id"].(int64)
					publicID, _ := m["public_id"].(snowflakeplugin.ID)
					ticketStored(t, db, ticket{ID: id, PublicID: publicID, Title: m["title"].(string)})
				}

				ticketList := fiveOf("tickets", newTicket)
				must(t, create(db, c.size, &ticketList), "create tickets")
				same(t, "reservations for tickets", fmt.Sprint(numbers.take()), c.twice)
				for _, v := range ticketList {
					ticketStored(t, db, v)
				}
				holds(t, db, &account{}, 20)
				holds(t, db, &ticket{}, 10)
			})
		}
	}
}

func fiveOf[T any](name string, newRow func(string) T) (rows []T) {
	for i := range 5 {
		rows = append(rows, newRow(fmt.Sprintf("%s %d", name, i)))
	}
	return rows
}

func refsTo[T any](rows []T) (refs []*T) {
	for i := range rows {
		refs = append(refs, &rows[i])
	}
	return refs
}

func batchOfOne(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, &gorm.Config{CreateBatchSize: 3}, &account{})
	fillsOnce(t, db, numbers, "ann@example.com")
	m := map[string]any{"email": "bob@example.com"}
	must(t, db.Model(&account{}).Create(m).Error, "create a map")
	same(t, "reservations for a map", fmt.Sprint(numbers.take()), "[1]")
	id, _ := m["id"].(snowflakeplugin.ID)
	accountStored(t, db, account{ID: id, Email: "bob@example.com"})
}

func largeBatch(t *testing.T, target dbtest.Target) {
	const rows = 5000
	db, numbers := openLedger(t, target, nil, &account{})
	list := make([]account, rows)
	for i := range list {
		list[i].Email = fmt.Sprint(i)
	}
	must(t, db.CreateInBatches(&list, 1000).Error, "create")
	same(t, "reservations", fmt.Sprint(numbers.take()), "[1000 1000 1000 1000 1000]")
	stored := allStored[account](t, db)
	same(t, "rows", len(stored), rows)
	for i, row := range stored {
		// This is one run of the generator, so the IDs are in the order of the rows.
		if row != list[i] {
			t.Fatalf("row %d is %+v, the struct %+v", i, row, list[i])
		}
	}
}
