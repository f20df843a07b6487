package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A count of many rows returns its first row late. Whoever stops a check does not wait for it.
func TestAQuestionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		driver := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}[target.Dialect]
		d, err := sqldb.Open(t.Context(), func(_ context.Context, dsn string) (*sql.DB, error) {
			return sql.Open(driver, dsn)
		}, "s1", target.DSN(t), false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		a, ten, width := sqldb.NewAsker(ctx), "(SELECT 0 x", 8
		if target.Dialect == "sqlite" {
			width = 13 // Nobody could wait for it. The other servers may go on with a question that nobody waits for.
		}
		for range 9 {
			ten += " UNION ALL SELECT 0"
		}
		ten += ") "
		tables := make([]string, width)
		for i := range tables {
			tables[i] = ten + string(rune('a'+i))
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Each(d, d.SQL("SELECT COUNT(*) FROM ", strings.Join(tables, ", ")),
				func([]any) bool { t.Error("it was answered"); return true })
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("the question goes on") // and the database is not closed, because that would wait for it
		}
		if !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", a.Err)
		}
		if n := a.Count(d, " FROM ", ten, "a"); n != 0 {
			t.Errorf("after an error it counted %d", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A database that is gone answers nothing, which must not count as an answer.
func TestADatabaseThatIsGoneRefusesNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		driver := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}[target.Dialect]
		d, err := sqldb.Open(t.Context(), func(_ context.Context, dsn string) (*sql.DB, error) {
			return sql.Open(driver, dsn)
		}, "s1", target.DSN(t), false)
		if err != nil {
			t.Fatal(err)
		}
		a := sqldb.NewAsker(t.Context())
		if a.Refuses(d, d.SQL("SELECT 1")) || !a.Refuses(d, d.SQL("SELECT no_column")) || a.Err != nil {
			t.Errorf("a database that is there refuses otherwise: %v", a.Err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if a.Refuses(d, d.SQL("SELECT 1")); a.Err == nil {
			t.Error("the loss of the database is no error")
		}
	})
}
