package dbtest

import (
	"context"
	"database/sql"
	"testing"
)

// A home is a PostgreSQL database in which many tests have one schema each.
type home struct {
	dsn  string // never to be logged
	pool *sql.DB
}

// newHome opens a database that is dropped when the test ends.
func newHome(tb testing.TB, dsn string) *home {
	tb.Helper()
	pool, err := sql.Open(driverPgx, dsn)
	if err != nil {
		tb.Fatalf("dbtest: opening the database of schemas: %v", err)
	}
	pool.SetMaxOpenConns(1)
	tb.Cleanup(func() {
		if err := pool.Close(); err != nil {
			tb.Errorf("dbtest: closing the database of schemas: %v", err)
		}
	})
	return &home{dsn: dsn, pool: pool}
}

// schema creates a schema and returns a DSN for it. The schema is dropped together with the
// database. Dropping it earlier would wait for every session that still holds a lock in it.
func (h *home) schema(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	name := newName()
	if _, err := h.pool.ExecContext(ctx, "CREATE SCHEMA "+name); err != nil {
		tb.Fatalf("dbtest: creating a schema: %v", err)
	}
	dsn, err := pgDSN(h.dsn, "search_path", name)
	if err == nil {
		// The tests do not need to survive a crash, so a commit need not wait for the disk.
		dsn, err = pgDSN(dsn, "synchronous_commit", "off")
	}
	if err != nil {
		tb.Fatalf("dbtest: building the DSN of a schema: %v", err)
	}
	return dsn
}
