package gormlease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestManyProcessesMakeTheTableAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		for range 5 {
			const processes = 8
			dbs := make([]*gorm.DB, processes)
			for i := range dbs {
				dbs[i] = target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(2))
			}
			errs := make([]error, processes)
			stores := make([]*gormlease.Store, processes)
			start := make(chan struct{})
			var all sync.WaitGroup
			for i := range dbs {
				all.Go(func() {
					<-start
					stores[i], errs[i] = gormlease.New(dbs[i])
				})
			}
			close(start)
			all.Wait()
			must(t, errors.Join(errs...))
			for _, s := range stores {
				must(t, storetest.Holds(t, s))
				must(t, s.Close())
			}
			exec(t, dbs[0], "DROP TABLE snowflake_nodes")
		}
	})
}

// TestTheDefaultTableDependsOnNoNaming: two applications that share tables lease from one table,
// whatever their naming strategies add to the names of models.
func TestTheDefaultTableDependsOnNoNaming(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		r := storetest.Create(t, newStore(t, target.OpenDSN(t, dsn, nil)), storetest.First(1))
		for name, naming := range map[string]schema.Namer{
			"a prefix":       schema.NamingStrategy{TablePrefix: "shop_", SingularTable: true},
			"another prefix": &schema.NamingStrategy{TablePrefix: "app_"},
			"a schema":       schema.NamingStrategy{TablePrefix: "app."},
			"a replacer":     schema.NamingStrategy{NameReplacer: strings.NewReplacer("snowflake_", "")},
		} {
			store, err := gormlease.New(target.OpenDSN(t, dsn, &gorm.Config{NamingStrategy: naming}))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := storetest.Holds(t, store, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			must(t, store.Close())
		}
	})
}

func TestTheTableMayLieInASchema(t *testing.T) {
	t.Parallel()
	db := target(postgres).Open(t, nil)
	table := gormlease.WithTable("app.snowflake_nodes")
	_, err := gormlease.New(db, table)
	complains(t, err, gormlease.ErrTable, `"app"`, `CREATE TABLE IF NOT EXISTS "app"."snowflake_nodes"`)
	exec(t, db, "CREATE SCHEMA app")
	store := newStore(t, db, table)
	r := storetest.Create(t, store, storetest.First(1))
	must(t, storetest.Holds(t, newStore(t, db, table), r))
	if db.Migrator().HasTable("public.snowflake_nodes") {
		t.Error("there is a table in the schema public")
	}
}

func TestATableIsTakenAsItIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: "app_"}})
		for i, name := range []string{
			"nodes", "Nodes of the shop", "select", "who's node? $1 %s :x", "узлы", `back\slash`, `a"b`, "a`b",
			strings.Repeat("n", 60),
		} {
			store, err := gormlease.New(db, gormlease.WithTable(name))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			r := storetest.Swap(t, store, lease.Record{}, storetest.First(int64(i)))
			must(t, storetest.Holds(t, store, r))
			next := storetest.Swap(t, store, r, storetest.Renew(r))
			earliest, latest := next.UpdatedAt.Add(-patience), next.Until.Add(patience)
			ok, err := store.SwapWithin(t.Context(), next, storetest.Renew(next), earliest, latest)
			if err != nil || !ok {
				t.Errorf("%s: SwapWithin returned %t, %v", name, ok, err)
			}
			must(t, store.Close())
		}
	})
}

func TestTheDDLMakesTheTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		ddl, err := gormlease.DDL(db, gormlease.WithTable("by hand"))
		must(t, err)
		if db.Migrator().HasTable("by hand") {
			t.Fatal("DDL itself has made the table")
		}
		exec(t, db, ddl)
		store := newStore(t, db, gormlease.WithTable("by hand"))
		storetest.Create(t, store, storetest.First(1))
		if store.DDL() != ddl {
			t.Errorf("the store's DDL is %s, want %s", store.DDL(), ddl)
		}
		if target.Dialect == "mysql" && !strings.Contains(ddl, "ENGINE=InnoDB") {
			t.Error("the engine is left to the server")
		}
	})
}

// Behind a proxy that sends reads to a replica, a table that was just made may not be found.
func TestATableThatReadsDoNotFindYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		db, seen := watchedHandle(t, target, target.DSN(t))
		seen.hidden = "snowflake_nodes"
		_, err := gormlease.New(db)
		complains(t, err, lease.ErrStore, "snowflake_nodes was made", "replica", "Try again")
		if errors.Is(err, gormlease.ErrTable) || !snowflakeplugin.Retryable(err) {
			t.Errorf("the error counts as one that does not heal by itself: %v", err)
		}
		seen.hidden = ""
		newStore(t, db)
	})
}

func TestATableOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		// The same name for something else.
		exec(t, db, "CREATE TABLE snowflake_nodes (id bigint PRIMARY KEY, name varchar(100))")
		_, err := gormlease.New(db)
		complains(t, err, gormlease.ErrTable, "snowflake_nodes", "lacks columns", "CREATE TABLE", "version")
		exec(t, db, "DROP TABLE snowflake_nodes")

		for name, key := range map[string]string{
			"no key": ")", "a key of two columns": ", PRIMARY KEY (node, version))",
			"an index that is not unique": "); CREATE INDEX i ON snowflake_nodes (node)",
		} {
			for _, statement := range strings.Split("CREATE TABLE snowflake_nodes "+columns(db)+key, ";") {
				exec(t, db, statement)
			}
			if _, err := gormlease.New(db); err == nil {
				t.Errorf("a table with %s was accepted", name)
			} else {
				complains(t, err, gormlease.ErrTable, "primary key", "CREATE TABLE")
			}
			exec(t, db, "DROP TABLE snowflake_nodes")
		}
		exec(t, db, "CREATE TABLE snowflake_nodes "+columns(db)+", note varchar(10), CONSTRAINT k UNIQUE (node))")
		store := newStore(t, db)
		must(t, storetest.Holds(t, store, storetest.Create(t, store, storetest.First(1))))
	})
}

func TestWithoutRightsTheErrorSaysWhatToRun(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, user := openAsNobody(t, target)
			_, err := gormlease.New(user.db)
			ddl, _ := gormlease.DDL(user.db)
			complains(t, err, gormlease.ErrTable, "denied", columnsIn(ddl), "SELECT, INSERT and UPDATE", "snowflake_nodes")
			if strings.Contains(err.Error(), user.password) {
				t.Error("the error has the password in it")
			}

			// The statement is good as it stands there.
			_, after, _ := strings.Cut(err.Error(), "\n\n")
			statement, _, _ := strings.Cut(after, ";\n")
			exec(t, admin, statement)
			for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
				if _, err := gormlease.New(user.db); err == nil {
					t.Fatalf("the store is content without %s", right)
				} else {
					complains(t, err, gormlease.ErrTable, "denied")
				}
				exec(t, admin, "GRANT "+right+" ON snowflake_nodes TO "+user.name)
			}
			store := newStore(t, user.db)
			r := storetest.Create(t, store, storetest.First(1))
			must(t, storetest.Holds(t, newStore(t, admin), storetest.Swap(t, store, r, storetest.Renew(r))))
		})
	}
}

func TestADatabaseThatDoesNotAnswerIsNotTakenForARefusal(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the application stops")
		cancel(why)
		_, err := gormlease.New(target.Open(t, nil).WithContext(ctx))
		complains(t, err, lease.ErrStore)
		complains(t, err, why)
		if errors.Is(err, gormlease.ErrTable) || strings.Contains(err.Error(), "CREATE TABLE") {
			t.Errorf("the error blames the table: %v", err)
		}
	})
}
