package gormlease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
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
				holds(t, s)
				must(t, s.Close())
			}
			exec(t, dbs[0], "DROP TABLE snowflake_nodes")
		}
	})
}

func TestTheNamingOfTheDatabaseApplies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for want, naming := range map[string]schema.Namer{
			"snowflake_nodes":      nil,
			"shop_snowflake_nodes": schema.NamingStrategy{TablePrefix: "shop_", SingularTable: true},
			"app_snowflake_nodes":  &schema.NamingStrategy{TablePrefix: "app_"},
			"nodes":                schema.NamingStrategy{NameReplacer: strings.NewReplacer("snowflake_", "")},
		} {
			t.Run(want, func(t *testing.T) {
				t.Parallel()
				db := target.Open(t, &gorm.Config{NamingStrategy: naming})
				store := newStore(t, db)
				r := swap(t, store, lease.Record{}, first(1))
				var n int64
				must(t, db.Table(want).Count(&n).Error)
				if n != 1 {
					t.Fatalf("the table %s has %d rows", want, n)
				}
				holds(t, newStore(t, db), r)
			})
		}
	})
}

func TestTheTableMayLieInASchema(t *testing.T) {
	t.Parallel()
	db := target(postgres).Open(t, &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: "app."}})
	_, err := gormlease.New(db)
	complains(t, err, gormlease.ErrTable, `"app"`, `CREATE TABLE IF NOT EXISTS "app"."snowflake_nodes"`)
	exec(t, db, "CREATE SCHEMA app")
	store := newStore(t, db)
	r := swap(t, store, lease.Record{}, first(1))
	holds(t, newStore(t, db, gormlease.Table("app.snowflake_nodes")), r)
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
			store, err := gormlease.New(db, gormlease.Table(name))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			r := swap(t, store, lease.Record{}, first(int64(i)))
			holds(t, store, r)
			next := swap(t, store, r, following(r))
			ok, err := store.SwapWithin(t.Context(), next, following(next), next.UpdatedAt.Add(-patience), next.Until.Add(patience))
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
		ddl, err := gormlease.DDL(db, gormlease.Table("by hand"))
		must(t, err)
		if db.Migrator().HasTable("by hand") {
			t.Fatal("DDL itself has made the table")
		}
		exec(t, db, ddl)
		store := newStore(t, db, gormlease.Table("by hand"))
		swap(t, store, lease.Record{}, first(1))
		if store.DDL() != ddl {
			t.Errorf("the store's DDL is %s, want %s", store.DDL(), ddl)
		}
		if target.Dialect == "mysql" && !strings.Contains(ddl, "ENGINE=InnoDB") {
			t.Error("the engine is left to the server")
		}
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

		const columns = "(node bigint, owner varchar(255), until varchar(30), version bigint, layout varchar(255), updated_at varchar(30)"
		for name, key := range map[string]string{
			"no key": ")", "a key of two columns": ", PRIMARY KEY (node, version))",
			"an index that is not unique": "); CREATE INDEX i ON snowflake_nodes (node)",
		} {
			for _, statement := range strings.Split("CREATE TABLE snowflake_nodes "+columns+key, ";") {
				exec(t, db, statement)
			}
			if _, err := gormlease.New(db); err == nil {
				t.Errorf("a table with %s was accepted", name)
			} else {
				complains(t, err, gormlease.ErrTable, "primary key", "CREATE TABLE")
			}
			exec(t, db, "DROP TABLE snowflake_nodes")
		}
		exec(t, db, "CREATE TABLE snowflake_nodes "+columns+", note varchar(10), CONSTRAINT k UNIQUE (node))")
		store := newStore(t, db)
		holds(t, store, swap(t, store, lease.Record{}, first(1)))
	})
}

func TestWithoutRightsTheErrorSaysWhatToRun(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]dbtest.Target{"postgres": target(postgres), "mariadb": target(mariadb)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, user := openAsNobody(t, target)
			_, err := gormlease.New(user.db)
			ddl, _ := gormlease.DDL(user.db)
			complains(t, err, gormlease.ErrTable, "denied", ddl, "SELECT, INSERT and UPDATE", "snowflake_nodes")
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
			r := swap(t, store, lease.Record{}, first(1))
			holds(t, newStore(t, admin), swap(t, store, r, following(r)))
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
