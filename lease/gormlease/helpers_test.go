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

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

// patience is how long anything may take. Nothing needs it.
const patience = time.Minute

const (
	sqlite = iota
	postgres
	mariadb
)

func target(index int) dbtest.Target { return dbtest.Targets()[index] }

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

// first is the first record of a node, and following one that replaces it.
func first(node int64) lease.Record {
	now := time.Now().UTC().Round(0)
	return lease.Record{
		Node: node, Owner: "host pid 1 #1", Until: now.Add(15 * time.Second), Version: 1,
		Layout: "epoch=2025-01-01T00:00:00Z tick=1ms time=41 node=10 sequence=12", UpdatedAt: now,
	}
}

func following(prev lease.Record) lease.Record {
	next := prev
	next.Version++
	next.Until = prev.Until.Add(5 * time.Second)
	return next
}

// swap must succeed, and returns next.
func swap(t *testing.T, s lease.Store, prev, next lease.Record) lease.Record {
	t.Helper()
	ok, err := s.Swap(limited(t), prev, next)
	must(t, err)
	if !ok {
		t.Fatalf("the swap from version %d to %d was refused", prev.Version, next.Version)
	}
	return next
}

func holds(t *testing.T, s lease.Store, want ...lease.Record) {
	t.Helper()
	records, err := s.List(limited(t))
	must(t, err)
	if len(records) != len(want) {
		t.Fatalf("there are %d records, want %d: %v", len(records), len(want), records)
	}
	for _, w := range want {
		found := false
		for _, r := range records {
			found = found || r == w
		}
		if !found {
			t.Errorf("the record %v is missing in %v", w, records)
		}
	}
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

func exec(t *testing.T, db *gorm.DB, statement string, args ...any) {
	t.Helper()
	must(t, db.Exec(statement, args...).Error)
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
	pool := poolOf(t, target.Open(t, nil, dbtest.MaxOpenConns(conns)))
	db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{Logger: logger.Discard})
	must(t, err)
	return db
}
