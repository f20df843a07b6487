package gormlease_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A table that was replaced since it was opened has an identity of its own, so nothing in it tells which
// numbers the processes hold that knew the first.
func TestAStoreGrantsNoFirstWindowFromAnotherTableThanItOpened(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		store := newStore(t, db)
		r := storetest.Create(t, store, storetest.First(1))
		refuses := func(when string) {
			t.Helper()
			if ok, err := store.Swap(limited(t), lease.Record{}, storetest.First(2)); ok {
				t.Errorf("%s: the first window of a node was granted: %v", when, err)
			}
			_, err := store.List(limited(t))
			complains(t, err, errs.ErrAuthority, "snowflake_nodes")
		}
		// Rows that are gone one by one take their numbers with them, and no more.
		exec(t, db, "DELETE FROM snowflake_nodes WHERE node = 1")
		r = storetest.Create(t, store, r)
		must(t, storetest.Holds(t, store, r))

		exec(t, db, "DELETE FROM snowflake_nodes")
		refuses("the table is empty")
		// Nothing notes what was there before, because no plugin has used the database.
		must(t, db.Migrator().DropTable("snowflake_nodes"))
		theirs := newStore(t, target.OpenDSN(t, dsn, nil))
		refuses("the table is another one")
		must(t, storetest.Holds(t, theirs, storetest.Create(t, theirs, storetest.First(2))))
	})
}

// As when the rows of another database were copied into the table.
func TestATableOfAnotherIdentityThanItsNoteIsRefusedWithTheStatementsThatLeadBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		identity := func() (string, error) {
			id, err := newStore(t, target.OpenDSN(t, dsn, nil)).Identity(limited(t))
			return id.ID, err
		}
		id, err := identity()
		must(t, err)
		for way, want := range map[int]string{1: "OTHER", 3: id} {
			exec(t, db, "UPDATE snowflake_nodes SET owner = 'reserved for the identity OTHER' WHERE node > 1023")
			_, err := identity()
			complains(t, err, errs.ErrAuthority, "the table snowflake_nodes", "the table snowflake_authority", id,
				"OTHER", "no process holds a number")
			exec(t, db, strings.Split(err.Error(), "\n\n")[way])
			if is, err := identity(); err != nil || is != want {
				t.Errorf("the identity is %s, %v; want %s", is, err, want)
			}
			exec(t, db, "UPDATE snowflake_authority SET authority = ?", id)
		}
	})
}

// Versions before the identity lay in the table kept it in snowflake_authority alone.
func TestATableOfAnEarlierVersionKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		store := newStore(t, db)
		id, err := store.Identity(limited(t))
		must(t, err)
		r := storetest.Create(t, store, storetest.First(1))
		if n := db.Exec("DELETE FROM snowflake_nodes WHERE node > 1").RowsAffected; n != 1 {
			t.Fatalf("the table had %d rows that are no node", n)
		}
		later := newStore(t, target.OpenDSN(t, dsn, nil))
		must(t, storetest.Holds(t, later, r))
		must(t, storetest.Holds(t, store, r))
		for _, s := range []lease.Identifier{later, store} {
			if same, err := s.Identity(limited(t)); err != nil || same != id {
				t.Errorf("the identity was %v, and is %v, %v", id, same, err)
			}
		}
		storetest.Create(t, later, storetest.First(2))
	})
}

// Processes of earlier versions read the row that has the identity as a record like others.
func TestTheRowOfTheIdentityIsARecordThatEarlierVersionsAccept(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		store := &earlier{Store: newStore(t, db)}
		var row struct {
			Node, Version        int64
			Owner, Until, Layout string
		}
		must(t, db.Table("snowflake_nodes").Take(&row).Error)
		r := storetest.First(row.Node)
		r.Owner, r.Version, r.Layout = row.Owner, row.Version, row.Layout
		must(t, r.Until.UnmarshalText([]byte(row.Until)))
		store.row = r
		now, err := store.Now(limited(t))
		must(t, err)
		if !lease.Reserved(r, now) || r.Node != math.MaxInt64 {
			t.Errorf("commands of earlier versions do not leave the row alone: %+v", r)
		}
		for _, layout := range []generator.Layout{generator.Default(), generator.GameLong()} {
			k, err := lease.Acquire(limited(t), store, layout)
			must(t, err)
			must(t, k.Close(limited(t)))
		}
	})
}

// earlier is a store whose List returns the row of the identity too.
type earlier struct {
	lease.Store
	row lease.Record
}

func (s *earlier) List(ctx context.Context) ([]lease.Record, error) {
	records, err := s.Store.List(ctx)
	return append(records, s.row), err
}

// If a first record came in while the transaction is open, the table would have a record and no mark, like
// one of an earlier version.
func TestATableThatIsEmptiedInATransactionStaysEmptied(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if target.IsTiDB(t) {
				t.Skip("TiDB reads a snapshot and waits for no other transaction: docs/tidb.md")
			}
			dsn := target.DSN(t)
			db := target.OpenDSN(t, dsn, nil)
			store := newStore(t, db)
			_, err := store.Identity(limited(t))
			must(t, err)
			storetest.Create(t, store, storetest.First(1))
			tx := db.Begin()
			exec(t, tx, "DELETE FROM snowflake_nodes")
			swapped := make(chan bool)
			go func() {
				ok, _ := store.Swap(limited(t), lease.Record{}, storetest.First(2))
				swapped <- ok
			}()
			time.Sleep(100 * time.Millisecond) // the swap waits for the transaction
			must(t, tx.Commit().Error)
			if <-swapped {
				t.Error("a first record was inserted")
			}
			_, err = gormlease.New(target.OpenDSN(t, dsn, nil))
			complains(t, err, errs.ErrAuthority, "snowflake_nodes")
		})
	}
}
