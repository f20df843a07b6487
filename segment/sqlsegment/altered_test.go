package sqlsegment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTwoRowsOfACounterAreNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Name == "mariadb-noreturning" {
			t.Skip("GORM alone opens it in another way")
		}
		pool := openPool(t, target, target.DSN(t))
		store := newStore(t, pool, sqlsegment.Dialect(target.Dialect))
		_, err := store.Claim(t.Context(), "orders", 10)
		must(t, err)
		// While the store is at work somebody replaces the table by a copy, which has no key.
		for _, statement := range []string{
			"CREATE TABLE copied (name varchar(255), next bigint, remainder bigint, modulus bigint, updated_at varchar(30), " +
				"kind varchar(255), identity varchar(255))",
			"INSERT INTO copied SELECT * FROM snowflake_segments",
			"INSERT INTO copied SELECT * FROM snowflake_segments",
			"DROP TABLE snowflake_segments",
			"ALTER TABLE copied RENAME TO snowflake_segments",
		} {
			_, err := pool.ExecContext(t.Context(), statement)
			must(t, err)
		}
		names := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, segment.ErrInvalidCounter) || !strings.Contains(err.Error(), "primary key") ||
				!strings.Contains(err.Error(), "orders") {
				t.Errorf("%s returned %v", what, err)
			}
		}
		_, err = store.Claim(t.Context(), "orders", 1)
		names("Claim", err)
		counters, err := store.Counters(t.Context(), "")
		must(t, err)
		next := counters[0]
		next.Next += 10
		_, err = store.Change(t.Context(), counters[0], next)
		names("Change", err)
		counters, err = store.Counters(t.Context(), "")
		must(t, err)
		_, err = store.Remove(t.Context(), counters[0])
		names("Remove", err)
	})
}

func TestACounterThatWasChangedByHandIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Name == "mariadb-noreturning" {
			t.Skip("GORM alone opens it in another way")
		}
		pool := openPool(t, target, target.DSN(t))
		store := newStore(t, pool, sqlsegment.Dialect(target.Dialect))
		_, err := store.Claim(t.Context(), "orders", 10)
		must(t, err)
		_, err = store.Claim(t.Context(), "invoices", 10)
		must(t, err)
		for _, change := range []string{"next = 0", "remainder = 1", "modulus = -1", "updated_at = 'today'"} {
			_, err := pool.ExecContext(t.Context(), "UPDATE snowflake_segments SET "+change+" WHERE name = 'orders'")
			must(t, err)
			counters, err := store.Counters(t.Context(), "o")
			if !errors.Is(err, segment.ErrInvalidCounter) || !strings.Contains(err.Error(), "by hand") ||
				!strings.Contains(err.Error(), `"orders"`) {
				t.Errorf("with %s the counters are %v, %v", change, counters, err)
			}
		}
		if counters, err := store.Counters(t.Context(), "i"); err != nil || len(counters) != 1 {
			t.Errorf("the fault of another counter matters: %v, %v", counters, err)
		}
	})
}
