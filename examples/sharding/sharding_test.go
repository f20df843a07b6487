package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"gorm.io/gorm"
)

// want is the output. Letters replace what depends on the shard of the first row.
const want = `16 shards in 2 databases: 500 customers, 10000 orders with 20000 items, 2000 visits.

The shard of a row is its ID % 16. How many there are on each:

  shard  database  customers  orders   items  visits
      0  a.db      ...
      1  b.db      ...
      2  a.db      ...
      3  b.db      ...
      4  a.db      ...
      5  b.db      ...
      6  a.db      ...
      7  b.db      ...
      8  a.db      ...
      9  b.db      ...
     10  a.db      ...
     11  b.db      ...
     12  a.db      ...
     13  b.db      ...
     14  a.db      ...
     15  b.db      ...
  min                     31     620    1240     125
  max                     32     640    1280     125

  yes  customers and visits go anywhere: no shard has two more than another
  yes  orders and items go to their customer, who has 20 and 40 of them
  yes  every order and every item is there once

The newest five orders of all shards, and the next five:

         order                  ID  shard
     1    9999  ID  S
     2    9998  ID  S
     3    9997  ID  S
     4    9996  ID  S
     5    9995  ID  S
     6    9994  ID  S
     7    9993  ID  S
     8    9992  ID  S
     9    9991  ID  S
    10    9990  ID  S

  yes  no row is repeated or left out, although one was added in between

What to key by what: orders are colocated with their customer, visits are anywhere.

  customer 7: 20 orders with 40 items, all in orders_S and the items on the same shard
  customer 7: 4 visits on 4 shards, for which all 16 were asked

  yes  the one shard has all orders, and the others have none
  yes  all shards together have all visits

A transaction is on one shard:

  yes  40 gold go from one customer of shard S to another
  yes  40 gold do not go to one of shard S:
       snowflakeplugin: row is on another shard: the transaction is on shard S, the row on shard S
  yes  they have 60, 140 and 100: what was taken for the second was rolled back

From 16 shards to 32, while somebody reads:

  Resize   the rows of each shard are in two new tables, such as customers_S_g1
  Clean    the old tables are dropped

  yes  every read meanwhile was right

Everything once more:

  yes  500 of 500 rows of Customer, from 15 to 16 on a shard
  yes  10001 of 10001 rows of Order, from 30N to 32N on a shard
  yes  20002 of 20002 rows of Item, from 60N to 64N on a shard
  yes  2000 of 2000 rows of Visit, from 62 to 63 on a shard
  yes  the sums are what they were: 50000 gold, prices of 50005000
  yes  every customer is found by the ID
  yes  all tables have the columns and the indexes of their models

Nothing was lost.
`

// plain replaces what depends on the shard of the first row.
func plain(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`(?m)^( +\d+  [ab]\.db     ) +(31     620    1240|32     640    1280)     125  #{19,20}$`, "$1 ..."},
		{`\b\d{18}\b`, "ID"},
		{`(?m)  ID +\d{1,2}$`, "  ID  S"},
		{`shard \d+`, "shard S"},
		{`(orders)_\d\d`, "${1}_S"},
		{`(customers)_\d\d_g1`, "${1}_S_g1"},
		{`from 30[01] to 32[01] on`, "from 30N to 32N on"},
		{`from 60[02] to 64[02] on`, "from 60N to 64N on"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

func TestOutputReadsAsItShould(t *testing.T) {
	temp := ownTemp(t)
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got := plain(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	wantEmpty(t, temp)
}

func TestTheTablesAreSeenFromOutside(t *testing.T) {
	s := openShop(t, io.Discard)
	if err := s.tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	lookAt(t, s.dbs, 2*shards)
	theChecksCanFail(t, s)
}

// theChecksCanFail passes tables with faults to the checks. Each step adds one fault.
func theChecksCanFail(t *testing.T, s *shop) {
	t.Helper()
	for i, c := range []struct{ sql, want string }{
		{
			"UPDATE items_02_g1 SET price = price + 1",
			"  NO   the sums are what they were",
		},
		{
			"DROP INDEX idx_visits_04_g1_customer_id",
			"  NO   all tables have the columns and the indexes of their models",
		},
		{
			"DELETE FROM customers_00_g1 " +
				"WHERE id = (SELECT max(id) FROM customers_00_g1)",
			"  NO   499 of 500 rows of Customer", // and so it is not found, and the gold is lost
		},
	} {
		// The constraint of the table would refuse a row of another shard.
		if err := s.dbs[0].Connection(func(tx *gorm.DB) error {
			return errors.Join(tx.Exec("PRAGMA ignore_check_constraints = ON").Error, tx.Exec(c.sql).Error,
				tx.Exec("PRAGMA ignore_check_constraints = OFF").Error)
		}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s.w, s.faults = &out, nil
		err := s.checks(t.Context())
		if err == nil || !strings.Contains(out.String(), c.want) || len(s.faults) < i+1 ||
			strings.Contains(out.String(), "Nothing was lost") {
			t.Errorf("after %s: %v and\n%s\nwant %q", c.sql, err, out.String(), c.want)
		}
	}
	if len(s.faults) != 4 {
		t.Errorf("%d checks failed in the end, want 4: %q", len(s.faults), s.faults)
	}
}

// lookAt reads the databases with SQL only. It relies only on the rule that the number of a table
// is the key modulo the number of shards.
func lookAt(t *testing.T, dbs []*gorm.DB, shards int64) {
	t.Helper()
	seen := map[int64]bool{}
	rows := map[string]int64{}
	for shard := range shards {
		// Both halves of a shard stay in its database.
		db := dbs[shard%16%int64(len(dbs))]
		for _, model := range []string{"customers", "orders", "items", "visits"} {
			var ids []int64
			query(t, db, &ids, "SELECT id FROM "+table(model, shard, shards))
			rows[model] += int64(len(ids))
			for _, id := range ids {
				if id%shards != shard || seen[id] {
					t.Errorf("%s has the row %d, which belongs elsewhere, or is there twice", table(model, shard, shards), id)
				}
				seen[id] = true
			}
		}
		var apart []int64 // rows whose parent is on another shard
		query(t, db, &apart, "SELECT o.id FROM "+table("orders", shard, shards)+" o LEFT JOIN "+
			table("customers", shard, shards)+" c ON c.id = o.customer_id WHERE c.id IS NULL")
		query(t, db, &apart, "SELECT i.id FROM "+table("items", shard, shards)+" i LEFT JOIN "+
			table("orders", shard, shards)+" o ON o.id = i.order_id WHERE o.id IS NULL")
		if len(apart) > 0 {
			t.Errorf("shard %d: the rows %v are not colocated with their parents", shard, apart)
		}
	}
	for model, n := range map[string]int64{
		"customers": customers, "orders": orders + 1, "items": 2*orders + 2, "visits": visits,
	} {
		if rows[model] != n {
			t.Errorf("there are %d %s, want %d", rows[model], model, n)
		}
	}
}

func table(model string, shard, shards int64) string {
	name := fmt.Sprintf("%s_%02d", model, shard)
	if shards > 16 { // which is what there were at first
		name += "_g1"
	}
	return name
}

// query adds what a statement returns to a slice.
func query(t *testing.T, db *gorm.DB, into *[]int64, statement string) {
	t.Helper()
	var some []int64
	if err := db.Raw(statement).Scan(&some).Error; err != nil {
		t.Fatal(err)
	}
	*into = append(*into, some...)
}

// openShop opens the shop in the same way as run.
func openShop(t *testing.T, w io.Writer) *shop {
	t.Helper()
	s, err := open(t.Context(), w, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ownTemp gives the test its own directory for temporary files.
func ownTemp(t *testing.T) string {
	t.Helper()
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // as each system calls it
		t.Setenv(name, temp)
	}
	return temp
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
