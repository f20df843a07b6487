package resharding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A program is idle in a transaction that has written to a table. On SQLite nobody else could write at all.
func TestNoStepStopsTheFleetForAnIdleTransaction(t *testing.T) {
	t.Parallel()
	onServers(t, dbtest.Chosen(t.Name(), dbtest.Servers()[1:]), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 40, target.OpenDSN(t, dsn, nil))
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		inTheWay := func(when, table string, step func() error) {
			t.Helper()
			idle := target.OpenDSN(t, dsn, nil).Begin()
			must(t, idle.Exec("UPDATE "+table+" SET name = name WHERE id = 0").Error, "a transaction")
			began := time.Now()
			err := step()
			if took := time.Since(began); took > 30*time.Second { // six times as long as it says
				t.Errorf("%s has stopped the fleet for %v", when, took)
			}
			wantErr(t, err, snowflakeplugin.ErrSharding, when)
			says(t, err, table, "has not ended within 5s")
			if target.Dialect == "postgres" {
				says(t, err, "In the way is process", "in a transaction since")
			} else if text := err.Error(); !strings.Contains(text, "In the way is connection") &&
				!strings.Contains(text, "PROCESS finds it in information_schema.innodb_trx") { // by the rights of the login
				t.Errorf("the error does not say who is in the way: %v", err)
			}
			d.add(d.router, 1) // The map is open.
			must(t, idle.Rollback().Error, "Rollback")
			must(t, step(), when+" once more")
			d.add(d.router, 1)
		}
		inTheWay("Cutover", "doubled_orders_01", func() error {
			_, err := resharding.Cutover(t.Context())
			return err
		})
		d.check(d.router, "after the cutover")
		undo := func() error { return resharding.Undo(t.Context()) }
		inTheWay("Undo", "doubled_orders_03", undo)
		d.check(d.router, "after the undoing")
	})
}
