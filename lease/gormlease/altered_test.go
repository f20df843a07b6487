package gormlease_test

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// lenient is a table that takes everything, as somebody may have made it by hand.
func lenient(db *gorm.DB) string {
	return "CREATE TABLE snowflake_nodes (node varchar(50), owner varchar(255), " + until(db) + " varchar(255), " +
		"version varchar(50), layout varchar(255), updated_at varchar(255), UNIQUE (node))"
}

func TestWhatWasChangedByHandIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		store := newStore(t, db)
		// While the store is at work somebody makes the table such that it takes everything.
		exec(t, db, strings.Replace(lenient(db), "snowflake_nodes", "copied", 1))
		exec(t, db, "INSERT INTO copied SELECT * FROM snowflake_nodes")
		exec(t, db, "DROP TABLE snowflake_nodes")
		exec(t, db, "ALTER TABLE copied RENAME TO snowflake_nodes")
		good := map[string]any{
			"node": "7", "owner": "host", "until": "2026-11-21T08:03:10.123456789Z", "version": "3",
			"layout": "epoch=2025", "updated_at": "2026-11-21T08:03:05.000000000Z",
		}
		insert(t, db, good)
		must(t, storetest.Holds(t, store, lease.Record{
			Node: 7, Owner: "host", Until: time.Date(2026, 11, 21, 8, 3, 10, 123_456_789, time.UTC), Version: 3,
			Layout: "epoch=2025", UpdatedAt: time.Date(2026, 11, 21, 8, 3, 5, 0, time.UTC),
		}))
		for _, c := range []struct {
			column string
			value  any
			says   string
		}{
			{"node", nil, "NULL"},
			{"node", "seven", `"seven"`},
			{"node", "-7", "negative"},
			{"node", "9223372036854775808", "no number"},
			{"owner", nil, "NULL"},
			{"until", nil, "NULL"},
			{"until", "", `""`},
			{"until", "tomorrow, I think", "tomorrow"},
			{"until", "2026-11-21 08:03:10", "2006-01-02T15:04:05.000000000Z"},
			{"until", "2026-11-21T08:03:10.1234567890Z", "until"},
			{"until", "2026-02-30T08:03:10.123456789Z", "until"},
			{"until", "0001-01-01T00:00:00.000000000Z", "until"},
			{"version", nil, "NULL"},
			{"version", "0", "version 0"},
			{"version", "3.5", "no number"},
			{"layout", nil, "NULL"},
			{"layout", "", "layout"},
			{"updated_at", nil, "NULL"},
			{"updated_at", "never", "never"},
		} {
			exec(t, db, "DELETE FROM snowflake_nodes WHERE owner IS NULL OR owner NOT LIKE 'reserved%'")
			row := map[string]any{}
			for column, value := range good {
				row[column] = value
			}
			row[c.column] = c.value
			insert(t, db, row)
			records, err := store.List(t.Context())
			if err == nil {
				t.Errorf("%s %v was read as %v", c.column, c.value, records)
				continue
			}
			complains(t, err, lease.ErrInvalidRecord, "snowflake_nodes", c.says, "by hand")
			if c.column != "node" && !strings.Contains(err.Error(), "node 7") {
				t.Errorf("the error %q does not name the node", err)
			}
		}
	})
}

// insert stores a row as it is.
func insert(t *testing.T, db *gorm.DB, row map[string]any) {
	t.Helper()
	exec(t, db, "INSERT INTO snowflake_nodes (node, owner, "+until(db)+
		", version, layout, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
		row["node"], row["owner"], row["until"], row["version"], row["layout"], row["updated_at"])
}

func TestTwoRowsOfOneNodeAreNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		store := newStore(t, db)
		r := storetest.Create(t, store, storetest.First(7))
		// While the store is at work somebody replaces the table by a copy, which has no key.
		exec(t, db, "CREATE TABLE copied "+columns(db)+")")
		exec(t, db, "INSERT INTO copied SELECT * FROM snowflake_nodes")
		exec(t, db, "DROP TABLE snowflake_nodes")
		exec(t, db, "ALTER TABLE copied RENAME TO snowflake_nodes")
		exec(t, db, "INSERT INTO snowflake_nodes SELECT * FROM snowflake_nodes")
		_, err := store.List(t.Context())
		complains(t, err, lease.ErrInvalidRecord, "node 7", "snowflake_nodes", "primary key")
		_, err = store.Swap(t.Context(), r, storetest.Renew(r))
		complains(t, err, lease.ErrInvalidRecord, "node 7", "snowflake_nodes", "primary key")
		_, err = gormlease.New(db)
		complains(t, err, gormlease.ErrTable, "primary key")
	})
}

func TestWhatDoesNotFitIsRefusedAndNotCut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		// With this setting the server itself would cut it.
		db := target.Open(t, nil, dbtest.DSNParam("sql_mode", "''"))
		store := newStore(t, db)
		for name, spoil := range map[string]func(*lease.Record){
			"a long owner":          func(r *lease.Record) { r.Owner = strings.Repeat("x", 256) },
			"a long owner in runes": func(r *lease.Record) { r.Owner = strings.Repeat("é", 128) },
			"a long layout":         func(r *lease.Record) { r.Layout = strings.Repeat("x", 256) },
			"an owner of bytes":     func(r *lease.Record) { r.Owner = "\xff\xfe" },
			"an owner with a zero":  func(r *lease.Record) { r.Owner = "a\x00b" },
			"an end too far":        func(r *lease.Record) { r.Until = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"a date before Christ":  func(r *lease.Record) { r.UpdatedAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			r := storetest.First(1)
			spoil(&r)
			if ok, err := store.Swap(t.Context(), lease.Record{}, r); ok || err == nil {
				t.Errorf("%s: Swap returned %t, %v", name, ok, err)
			} else {
				complains(t, err, lease.ErrInvalidRecord, "node 1")
			}
		}
		must(t, storetest.Holds(t, store))
	})
}

// The keeper of a table that somebody made without a thought of collations.
func TestOwnersAreComparedByteByByteInAnyTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		exec(t, db, strings.NewReplacer("node varchar(50)", "node bigint", "version varchar(50)", "version bigint").
			Replace(lenient(db)))
		store := newStore(t, db)
		r := storetest.Create(t, store, storetest.First(1))
		for _, other := range []string{strings.ToUpper(r.Owner), r.Owner + " ", "h\u00f6st pid 1 #1", ""} {
			prev := r
			prev.Owner = other
			if ok, err := store.Swap(t.Context(), prev, storetest.Renew(prev)); ok || err != nil {
				t.Errorf("the owner %q passed for %q: %t, %v", other, r.Owner, ok, err)
			}
		}
		must(t, storetest.Holds(t, store, storetest.Swap(t, store, r, storetest.Renew(r))))
	})
}
