package gormlease_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	sqlitedriver "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// patience is how long anything may take. Nothing needs it.
const patience = time.Minute

// The names of targets.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

func target(name string) dbtest.Target { return dbtest.Named(name) }

// servers are the targets whose database runs in a server.
func servers() map[string]dbtest.Target {
	return named(append(dbtest.ServersOf("mysql"), target(postgres)))
}

// mysqls are those that speak the dialect of MySQL.
func mysqls() map[string]dbtest.Target { return named(dbtest.ServersOf("mysql")) }

// oneServer is one of them in tier one, and all of them at night.
func oneServer(t *testing.T) map[string]dbtest.Target {
	t.Helper()
	return named(dbtest.Chosen(t.Name(), append(dbtest.ServersOf("mysql"), target(postgres))))
}

func named(targets []dbtest.Target) map[string]dbtest.Target {
	all := make(map[string]dbtest.Target)
	for _, target := range targets {
		all[target.Name] = target
	}
	return all
}

// eachMySQL runs fn on MariaDB or on MySQL, on both at night, and on TiDB if that is tested.
func eachMySQL(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	for _, target := range dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")) {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			fn(t, target)
		})
	}
}

// eachWay runs fn on every target twice: with a store that opens a connection of its own, and with one on a
// shared pool. The function way makes the handle of the store from that of the application.
func eachWay(
	t *testing.T, targets map[string]dbtest.Target,
	fn func(t *testing.T, target dbtest.Target, way func(db *gorm.DB) *gorm.DB),
) {
	t.Helper()
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, shares := range map[string]bool{"its own connection": false, "a shared pool": true} {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					fn(t, target, func(db *gorm.DB) *gorm.DB {
						if shares {
							return onPoolOf(t, target, db)
						}
						return db
					})
				})
			}
		})
	}
}

// onPoolOf opens a handle by the pool of another one, so that a store has to share that.
func onPoolOf(t *testing.T, target dbtest.Target, db *gorm.DB) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(dialectorOn(target, poolOf(t, db)), &gorm.Config{Logger: logger.Discard})
	must(t, err)
	return db
}

func newStore(t *testing.T, db *gorm.DB, opts ...gormlease.Option) *gormlease.Store {
	t.Helper()
	store, err := gormlease.New(db, opts...)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func poolOf(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	pool, err := db.DB()
	must(t, err)
	return pool
}

// limited is a context that ends long before a test would be taken for hanging.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// complains expects an error of a kind that says all the words.
func complains(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	if !errors.Is(err, kind) {
		t.Fatalf("the error %q does not wrap %q", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

// columnsIn is a statement that makes a table from the name on. In an error the name has its schema.
func columnsIn(ddl string) string {
	_, columns, _ := strings.Cut(ddl, "snowflake_")
	return columns
}

func exec(t *testing.T, db *gorm.DB, statement string, args ...any) {
	t.Helper()
	must(t, db.Exec(statement, args...).Error)
}

// until is the name of a column, which is a reserved word of TiDB.
func until(db *gorm.DB) string { return db.Statement.Quote("until") }

// columns are those of the table, without a key and without the parenthesis at the end.
func columns(db *gorm.DB) string {
	return "(node bigint, owner varchar(255), " + until(db) + " varchar(30), version bigint, " +
		"layout varchar(255), updated_at varchar(30)"
}

// inMemory opens a database of SQLite in memory.
func inMemory(t *testing.T, dsn string, conns int) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlitedriver.Open(dsn), &gorm.Config{Logger: logger.Discard})
	must(t, err)
	pool := poolOf(t, db)
	pool.SetMaxOpenConns(conns)
	t.Cleanup(func() { must(t, pool.Close()) })
	return db
}

// shared opens a fresh database by way of a pool, not of a DSN.
func shared(t *testing.T, target dbtest.Target, conns int) *gorm.DB {
	t.Helper()
	return onPoolOf(t, target, target.Open(t, nil, dbtest.MaxOpenConns(conns)))
}
