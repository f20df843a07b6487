package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// schemaFor makes a schema beside the database of a DSN, and returns its name. MySQL calls it a database.
func schemaFor(t *testing.T, target dbtest.Target, dsn string) string {
	t.Helper()
	if target.Dialect == "mysql" {
		var name string
		if err := target.Open(t, nil).Raw("SELECT DATABASE()").Scan(&name).Error; err != nil {
			t.Fatal(err)
		}
		return name
	}
	if err := target.OpenDSN(t, dsn, nil).Exec("CREATE SCHEMA ops").Error; err != nil {
		t.Fatal(err)
	}
	return "ops"
}

func TestTheAuthorityIsFoundInAnotherSchema(t *testing.T) {
	t.Parallel()
	// A schema of SQLite is a file that each connection attaches for itself.
	for _, target := range slices.Concat(dbtest.ServersOf("postgres"), dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql"))) {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			l := leases{dsn: target.DSN(t)}
			table := schemaFor(t, target, l.dsn) + ".nodes"
			store, err := gormlease.New(target.OpenDSN(t, l.dsn, nil), gormlease.WithTable(table))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			from := snowflakeplugin.WithLease(store)
			use(t, target, l.dsn, from)
			use(t, target, l.dsn, from)

			if shown := l.succeed(t, "nodes", "authority", "show"); !strings.Contains(shown, "The table "+table+" in this database") {
				t.Errorf("show does not name %s: %s", table, shown)
			}
			holder, err := runPlugin(t, target, []string{l.dsn}, from)
			if err != nil {
				t.Fatal(err)
			}
			code, _, stderr := call(t, l.dsn, "nodes", "authority", "move", "--to", "own")
			if code != exitRefused || !strings.Contains(stderr, "is held until") {
				t.Errorf("a move beside a holder: exit code %d, %s", code, stderr)
			}
			if err := holder.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.succeed(t, "nodes", "authority", "move", "--to", "own", "--force")
			use(t, target, l.dsn)
			_, err = runPlugin(t, target, []string{l.dsn}, from)
			if !errors.Is(err, snowflakeplugin.ErrAuthority) {
				t.Errorf("the old leases are not refused: %v", err)
			}
			l.succeed(t, "nodes", "authority", "move", "--to", "own", "--to-table", table, "--force")
			use(t, target, l.dsn, from)
		})
	}
}

// A database of MySQL beside the first one may have a copy of its leases.
func TestSeveralTablesWithTheSameLeasesAreNotChosenFrom(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")) {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			l := leases{dsn: target.DSN(t)}
			first, second := schemaFor(t, target, l.dsn), schemaFor(t, target, l.dsn)
			db := target.OpenDSN(t, l.dsn, nil)
			store, err := gormlease.New(db, gormlease.WithTable(first+".nodes"))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			use(t, target, l.dsn, snowflakeplugin.WithLease(store))
			for _, table := range []string{".nodes", ".snowflake_authority"} {
				must := db.Exec("CREATE TABLE " + second + table + " LIKE " + first + table).Error
				if err := errors.Join(must, db.Exec("INSERT INTO "+second+table+" SELECT * FROM "+first+table).Error); err != nil {
					t.Fatal(err)
				}
			}
			code, _, stderr := call(t, l.dsn, "nodes", "authority", "move", "--to", "own")
			if code != exitRefused || !strings.Contains(stderr, first+".nodes") || !strings.Contains(stderr, "--from-table") {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			l.succeed(t, "nodes", "authority", "move", "--to", "own", "--force", "--from", l.dsn, "--from-table", first+".nodes")
		})
	}
}
