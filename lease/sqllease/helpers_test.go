package sqllease_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// openPool opens a pool with the driver itself.
func openPool(tb testing.TB, target dbtest.Target, dsn string) *sql.DB {
	tb.Helper()
	name := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}[target.Dialect]
	pool, err := sql.Open(name, dsn)
	if err != nil {
		tb.Fatal("the DSN of the tests cannot be read") // without the error, which quotes it
	}
	tb.Cleanup(func() { must(tb, pool.Close()) })
	return pool
}

// newStore opens a store that is closed when the test ends.
func newStore(tb testing.TB, pool *sql.DB, d sqllease.Dialect, opts ...sqllease.Option) *sqllease.Store {
	tb.Helper()
	store, err := sqllease.New(tb.Context(), pool, d, opts...)
	must(tb, err)
	tb.Cleanup(func() { must(tb, store.Close()) })
	return store
}

// complains expects an error of a kind that says all the words.
func complains(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("the error %v does not wrap %q", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}
