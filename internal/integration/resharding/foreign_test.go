package resharding_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// A cutover removes moved rows, and with ON DELETE CASCADE the database would delete what refers to them.
func TestAForeignKeyOfAnotherTableStandsInTheWayOfAResharding(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		must(t, db.Exec("CREATE TABLE notes (id BIGINT PRIMARY KEY, order_id BIGINT, "+
			"FOREIGN KEY (order_id) REFERENCES doubled_orders_00 (id) ON DELETE CASCADE)").Error, "a table")
		_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		if !errors.Is(err, snowflakeplugin.ErrSharding) || !strings.Contains(err.Error(), "from the table notes to doubled_orders_00") {
			t.Errorf("Reshard: %v", err)
		}
		must(t, db.Exec("DROP TABLE notes").Error, "drop")
		_, err = d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard without the key")
	})
}
