package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"testing"
)

// want is the output. The numbers of the tickets depend on when a claim ends.
const want = `  Ada  order 1 with the key ID
  Ada  order 2 with the key ID
  Ada  order 3 with the key ID
  Bob  order 101 with the key ID
  Bob  order 102 with the key ID
  Bob  order 103 with the key ID
  Ada  order 4 with the key ID
  Ada  order 5 with the key ID
  Ada  order 6 with the key ID
  yes  Ada goes on in her own block
  yes  Bob has another block
  yes  the keys of a process increase
  Ada  SO-20261231-000001
  Bob  SO-20261231-000002
  Bob  SO-20261231-000003
  Ada  SO-20261231-000004
  Bob  no invoice
  yes  the struct keeps neither a number nor a key
  Ada  SO-20261231-000006
  Bob  SO-20270101-000001
  Ada  SO-20270101-000002
  yes  the series is as it should be
  yes  the plugin's health shows 94 numbers left for orders
  both answer TICKETS
  one is silent TICKETS
  ... still TICKETS
  it answers again TICKETS
  both answer TICKETS
  yes  both have their turn
  yes  the one that is silent is skipped, and no call fails
  yes  the one that came back has its turn again
  yes  no number was given twice
`

// mask leaves only the lines that are indented, without what differs from run to run.
func mask(text string) string {
	text = regexp.MustCompile(`(?m)^(?:\S.*)?\n`).ReplaceAllString(text, "")
	text = regexp.MustCompile(` +\d+ numbers:.*`).ReplaceAllString(text, " TICKETS")
	return regexp.MustCompile(`\d{17,19}`).ReplaceAllString(text, "ID")
}

func TestTheStoryIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	err := tell(t.Context(), &out, dir)
	if got := mask(out.String()); err != nil || got != want {
		t.Fatalf("%v, and the output is:\n%s", err, out.String())
	}
	theTablesSaySo(t, dir)
}

// theTablesSaySo reads the rows with SQL of its own.
func theTablesSaySo(t *testing.T, dir string) {
	t.Helper()
	db, err := openDB(t.Context(), dir, "main.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeDB(db); err != nil {
			t.Error(err)
		}
	})
	column := func(query string, into any) {
		if err := db.Raw(query).Scan(into).Error; err != nil {
			t.Fatal(err)
		}
	}
	var numbers []string
	column("SELECT number FROM invoices ORDER BY number", &numbers)
	if !slices.Equal(numbers, []string{
		"SO-20261231-000001", "SO-20261231-000002", "SO-20261231-000003", "SO-20261231-000004",
		"SO-20261231-000006", "SO-20270101-000001", "SO-20270101-000002",
	}) {
		t.Errorf("the invoices have the numbers %v", numbers)
	}
	var orders []int
	column("SELECT number FROM orders ORDER BY number", &orders)
	if !slices.Equal(orders, []int{1, 2, 3, 4, 5, 6, 101, 102, 103}) {
		t.Errorf("the orders have the numbers %v", orders)
	}
	var next int
	column("SELECT next FROM snowflake_segments WHERE name = 'order'", &next)
	if next != 201 {
		t.Errorf("the counter of the orders goes on from %d after two blocks of 100", next)
	}
}

func TestAnErrorEndsTheStory(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("run with a canceled context returned %v", err)
	}
}
