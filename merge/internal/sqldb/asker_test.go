package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
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
		defer func() { _ = d.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		a, ten := sqldb.NewAsker(ctx), "(SELECT 0 x"
		for range 9 {
			ten += " UNION ALL SELECT 0"
		}
		ten += ") "
		q := d.SQL("SELECT COUNT(*) FROM ", ten, "a, ", ten, "b, ", ten, "c, ", ten, "d, ", ten, "e, ", ten, "f, ", ten, "g, ", ten, "h")
		a.Each(d, q, func([]any) bool { t.Error("it was answered"); return true })
		if !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", a.Err)
		}
		if n := a.Count(d, " FROM ", ten, "a"); n != 0 {
			t.Errorf("after an error it counted %d", n)
		}
	})
}
