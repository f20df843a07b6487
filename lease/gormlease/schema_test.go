package gormlease_test

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A program may leave a connection of a pool in another schema than it found it in. Two processes that then
// read different tables would lease the same numbers.
func TestAStoreStaysInTheSchemaInWhichItWasOpened(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := shared(t, target, 1)
			store := newStore(t, db)
			first := storetest.Create(t, store, storetest.First(1))
			id, err := store.Identity(limited(t))
			must(t, err)

			// There are leases there too.
			turn(t, target, db, another(t, target, db))
			theirs := newStore(t, db)
			storetest.Create(t, theirs, storetest.First(3))
			second := storetest.Create(t, store, storetest.First(2))
			first = storetest.Swap(t, store, first, storetest.Renew(first))
			must(t, storetest.Holds(t, store, first, second))
			if same, err := store.Identity(limited(t)); err != nil || same != id {
				t.Errorf("the identity was %v, and is %v, %v", id, same, err)
			}
			if other, err := theirs.Identity(limited(t)); err != nil || other.ID == id.ID {
				t.Errorf("both tables have the identity %v, %v", other, err)
			}
		})
	}
}

// The store's own connection is opened with the DSN. Where the application has turned its connections
// elsewhere since, nothing tells in which of the two schemas its processes should lease.
func TestAConnectionThatLeadsToAnotherSchemaThanTheApplicationsIsRefused(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := target.Open(t, nil, dbtest.MaxOpenConns(1))
			home, elsewhere := schemaOf(t, db), another(t, target, db)
			turn(t, target, db, elsewhere)
			_, err := gormlease.New(db)
			complains(t, err, gormlease.ErrDatabase, elsewhere, home, "DSN", "WithTable")
			if hasTable(t, db, home) || hasTable(t, db, elsewhere) {
				t.Error("a table was made")
			}
			store := newStore(t, db, gormlease.WithTable(elsewhere+".snowflake_nodes"))
			must(t, storetest.Holds(t, store, storetest.Create(t, store, storetest.First(1))))
			if hasTable(t, db, home) || !hasTable(t, db, elsewhere) {
				t.Error("a table that is named with its schema lies elsewhere")
			}
		})
	}
}

// The search path of PostgreSQL begins with a schema that has the name of the role, if there is one.
func TestARoleWhoseSchemaIsMadeLaterKeepsItsLeases(t *testing.T) {
	t.Parallel()
	target := target(postgres)
	eachShare(t, target, func(t *testing.T, way func(*gorm.DB) *gorm.DB) {
		admin, user := openAsNobody(t, target)
		exec(t, admin, "GRANT CREATE ON SCHEMA public TO "+user.name)
		store := newStore(t, way(user.db))
		r := storetest.Create(t, store, storetest.First(1))
		exec(t, admin, "CREATE SCHEMA AUTHORIZATION "+user.name)
		later := newStore(t, way(user.db))
		must(t, storetest.Holds(t, later, r))
		id, err := later.Identity(limited(t))
		must(t, err)
		if same, err := store.Identity(limited(t)); err != nil || same != id {
			t.Errorf("the identity is %v, and later %v, %v", same, id, err)
		}
		for _, table := range []string{"snowflake_nodes", "snowflake_authority"} {
			var schemas []string
			must(t, admin.Raw("SELECT schemaname FROM pg_tables WHERE tablename = ?", table).Scan(&schemas).Error)
			if !slices.Equal(schemas, []string{"public"}) {
				t.Errorf("%s lies in %q", table, schemas)
			}
		}
	})
}

// eachShare runs fn with a store that has a connection of its own, and with one on a shared pool.
func eachShare(t *testing.T, target dbtest.Target, fn func(t *testing.T, way func(*gorm.DB) *gorm.DB)) {
	t.Helper()
	eachWay(t, map[string]dbtest.Target{target.Name: target},
		func(t *testing.T, _ dbtest.Target, way func(*gorm.DB) *gorm.DB) { fn(t, way) })
}

// another makes a second schema on the server of a handle and returns its name. On MySQL it is a database.
func another(t *testing.T, target dbtest.Target, db *gorm.DB) string {
	t.Helper()
	if target.Dialect == "mysql" {
		return schemaOf(t, target.Open(t, nil))
	}
	exec(t, db, "CREATE SCHEMA elsewhere")
	return "elsewhere"
}

// schemaOf returns the schema of a connection.
func schemaOf(t *testing.T, db *gorm.DB) string {
	t.Helper()
	query := "SELECT DATABASE()"
	if db.Name() == postgres {
		query = "SELECT current_schema()"
	}
	var name string
	must(t, db.Raw(query).Scan(&name).Error)
	return name
}

// turn leaves the only connection of a pool in a schema.
func turn(t *testing.T, target dbtest.Target, db *gorm.DB, schema string) {
	t.Helper()
	if target.Dialect == "mysql" {
		// A database that is dropped takes with it the connections that are turned to it.
		home := schemaOf(t, db)
		t.Cleanup(func() { exec(t, db, "USE "+home) })
		exec(t, db, "USE "+schema)
		return
	}
	exec(t, db, "SET search_path TO "+schema)
}

func hasTable(t *testing.T, db *gorm.DB, schema string) bool {
	t.Helper()
	var n int64
	must(t, db.Raw("SELECT count(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?",
		schema, "snowflake_nodes").Scan(&n).Error)
	return n > 0
}
