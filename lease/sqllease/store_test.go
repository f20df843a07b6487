package sqllease_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// One application may have programs that use GORM and others that do not.
func TestBothPackagesShareTheTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		for _, name := range []string{"snowflake_nodes", "Nodes of the shop", `a"b`, "a`b", "select"} {
			own := newStore(t, openPool(t, target, dsn), sqllease.Dialect(target.Dialect), sqllease.WithTable(name))
			r := storetest.Create(t, own, storetest.First(1))
			other, err := gormlease.New(target.OpenDSN(t, dsn, nil), gormlease.WithTable(name))
			must(t, err)
			must(t, storetest.Holds(t, own, storetest.Swap(t, other, r, storetest.Renew(r))))
			must(t, other.Close())
		}
	})
}

func TestAStoreClosesOnlyAPoolThatIsItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn, dialect := target.DSN(t), sqllease.Dialect(target.Dialect)
		shared, dedicated := openPool(t, target, dsn), openPool(t, target, dsn)
		for store, open := range map[*sqllease.Store]bool{
			newStore(t, shared, dialect):                                  true,
			newStore(t, dedicated, dialect, sqllease.WithDedicatedPool()): false,
		} {
			must(t, store.Close())
			must(t, store.Close())
			_, err := store.Now(t.Context())
			complains(t, err, lease.ErrClosed, "snowflake_nodes")
			pool := dedicated
			if open {
				pool = shared
			}
			if err := pool.PingContext(t.Context()); (err == nil) != open {
				t.Errorf("the pool answers %v, want it open: %t", err, open)
			}
		}
	})
}

// SQLite is read anew for each request, so no open file is in the way of whoever moves it.
func TestADedicatedPoolOfSQLiteKeepsNoFileOpen(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[0]
	pool := openPool(t, target, target.DSN(t))
	store := newStore(t, pool, sqllease.SQLite, sqllease.WithDedicatedPool())
	storetest.Create(t, store, storetest.First(1))
	if n := pool.Stats().OpenConnections; n != 0 {
		t.Errorf("%d connections are open", n)
	}
	if hint := store.SpanHint(); hint != 10*time.Minute {
		t.Errorf("the store asks for a span of %v", hint)
	}
}

func TestBadOptionsAndDialectsAreNamed(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[0]
	pool := openPool(t, target, target.DSN(t))
	_, err := sqllease.New(t.Context(), pool, "oracle", sqllease.WithTable("a..b"), nil)
	complains(t, err, sqllease.ErrOption, `WithTable("a..b")`, "option 1 is nil")
	complains(t, err, sqllease.ErrDatabase, `"oracle"`, "WithNode")
	_, err = sqllease.New(t.Context(), nil, sqllease.SQLite)
	complains(t, err, sqllease.ErrDatabase, "nil")
	if _, err = sqllease.DDL(""); err == nil {
		t.Error("there is a statement for no dialect")
	}
}

func TestTheDDLIsThatOfGORM(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		ddl, err := sqllease.DDL(sqllease.Dialect(target.Dialect), sqllease.WithTable("ops.nodes"))
		must(t, err)
		other, err := gormlease.DDL(target.Open(t, nil), gormlease.WithTable("ops.nodes"))
		must(t, err)
		if ddl != other {
			t.Errorf("sqllease makes\n%s\ngormlease makes\n%s", ddl, other)
		}
	})
}

// An administrator who sees the connection knows whose it is.
func TestADedicatedConnectionOfPostgreSQLHasAName(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	dsn := target.DSN(t)
	watcher := openPool(t, target, dsn)
	newStore(t, openPool(t, target, dsn), sqllease.PostgreSQL, sqllease.WithDedicatedPool())
	store, err := gormlease.New(target.OpenDSN(t, dsn, nil))
	must(t, err)
	defer func() { must(t, store.Close()) }()
	const count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
	var n int
	must(t, watcher.QueryRowContext(t.Context(), count, sqllease.ConnectionName()).Scan(&n))
	if n != 2 {
		t.Errorf("%d of 2 connections are called %q", n, sqllease.ConnectionName())
	}
}

func TestTheNameOfAConnectionSaysWhereTheProcessIs(t *testing.T) {
	t.Parallel()
	name := sqllease.ConnectionName()
	if want := ":" + strconv.Itoa(os.Getpid()); name[len(name)-len(want):] != want || len(name) > 63 {
		t.Errorf("the name is %q", name)
	}
}
