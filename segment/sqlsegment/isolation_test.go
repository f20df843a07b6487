package sqlsegment_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// What an application reads of others' transactions must not decide whether a counter is there.
func TestAnApplicationThatReadsUncommittedRowsShowsNoneToTheStore(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.ServersOf("mysql") {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			if target.IsTiDB(t) {
				t.Skip("TiDB has no such isolation")
			}
			variable := "tx_isolation"
			if target.IsMySQL(t) {
				variable = "transaction_isolation"
			}
			for name, opts := range map[string][]sqlsegment.Option{
				"dedicated": {sqlsegment.WithDedicatedPool()}, "shared": nil,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					dsn := target.DSN(t)
					separator := "?"
					if strings.Contains(dsn, "?") {
						separator = "&"
					}
					pool := openPool(t, target, dsn+separator+variable+"="+url.QueryEscape("'READ-UNCOMMITTED'"))
					store := newStore(t, pool, sqlsegment.MySQL, opts...)
					other := openPool(t, target, dsn)
					_, err := store.Claim(t.Context(), "orders", 10)
					must(t, err)

					tx, err := other.BeginTx(t.Context(), nil)
					must(t, err)
					_, err = tx.ExecContext(t.Context(), "UPDATE snowflake_segments SET next = 1000")
					must(t, err)
					counters, err := store.Counters(t.Context(), "")
					must(t, err)
					if len(counters) != 1 || counters[0].Next != 11 {
						t.Errorf("while a transaction changes the counter it is %+v", counters)
					}
					must(t, tx.Rollback())
					if first, err := store.Claim(t.Context(), "orders", 1); err != nil || first != 11 {
						t.Errorf("afterwards a claim returned %d, %v", first, err)
					}
				})
			}
		})
	}
}
