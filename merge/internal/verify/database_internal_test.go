package verify

import (
	"context"
	"database/sql"
	"strings"
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

// Every row that refers is read with some columns of its parent. PostgreSQL keeps maps and logs in texts without a
// limit, where short columns tell the parents apart as well. A name may be such a text, too.
func TestAParentIsKnownByShortColumnsFirst(t *testing.T) {
	t.Parallel()
	natural := func(columns ...column) []string {
		v := &verifier{target: &database{kind: postgres}, plan: &Plan{}}
		j := &job{v: v, name: "heroes", plan: &Table{}, target: &relation{columns: columns}}
		for i := range columns {
			j.columns = append(j.columns, &columns[i])
		}
		return j.natural()
	}
	explored := column{name: "explored", declared: "text"}
	title := column{name: "title", declared: "character varying"}
	clan := column{name: "clan", declared: "character varying(20)"}
	level := column{name: "level", declared: "integer", class: classNumber}
	born := column{name: "born", declared: "date", class: classInstant}
	sort := column{name: "sort", declared: "hero_sort"}
	gold := column{name: "gold", declared: "bigint", class: classNumber}
	for want, got := range map[string][]string{
		"title sort level":     natural(title, sort, level, gold), // a sort is no name either
		"clan level born":      natural(explored, title, born, level, clan),
		"title level explored": natural(title, level, explored), // levels alone are equal in most rows
	} {
		if got := strings.Join(got, " "); got != want {
			t.Errorf("a parent is known by %s, and not by %s", got, want)
		}
	}
}
