package verify

import (
	"context"
	"database/sql"
	"testing"

	_ "gorm.io/driver/sqlite" // which registers the driver
)

// What fails ends the context of all statements, and those after it must not begin: SQLite would look for the first
// row of each without an end, and the driver of MySQL complain of its closed connection.
func TestNoStatementBeginsWhenTheContextHasEnded(t *testing.T) {
	t.Parallel()
	pool, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "CREATE TABLE begun (n INTEGER)")
	}
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	d := &database{conn: conn, kind: sqlite, fail: func(error) { failures++ }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.steadily(ctx, "INSERT INTO begun VALUES (1) RETURNING n", func([]any) { t.Error("a row was read") })
	if n := d.number(t.Context(), "SELECT COUNT(*) FROM begun"); n != 0 || failures != 1 {
		t.Errorf("%d statements began, with %d failures; want 0 and 1", n, failures)
	}
}
