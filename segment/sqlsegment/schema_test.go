package sqlsegment_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A program may leave a connection of a pool in another schema than it found it in. A counter that went on
// there would give its numbers out again.
func TestACounterStaysInTheSchemaInWhichItWasOpened(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.Servers() {
		if target.Dialect == "sqlite" {
			continue
		}
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			pool := openPool(t, target, target.DSN(t))
			pool.SetMaxOpenConns(1)
			store := newStore(t, pool, sqlsegment.Dialect(target.Dialect))
			_, err := store.Claim(t.Context(), "orders", 10)
			must(t, err)

			// There are counters there too.
			elsewhere := []string{"CREATE SCHEMA elsewhere", "SET search_path TO elsewhere"}
			if target.Dialect == "mysql" {
				var name string
				other := openPool(t, target, target.DSN(t))
				must(t, other.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
				elsewhere = []string{"USE " + name}
			}
			for _, statement := range elsewhere {
				_, err := pool.ExecContext(t.Context(), statement)
				must(t, err)
			}
			_, err = newStore(t, pool, sqlsegment.Dialect(target.Dialect)).Claim(t.Context(), "orders", 100)
			must(t, err)

			if first, err := store.Claim(t.Context(), "orders", 1); err != nil || first != 11 {
				t.Errorf("the next claim returned %d, %v", first, err)
			}
			counters, err := store.Counters(t.Context(), "")
			must(t, err)
			if len(counters) != 1 || counters[0].Next != 12 {
				t.Errorf("the counters are %+v", counters)
			}
		})
	}
}
