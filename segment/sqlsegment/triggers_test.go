package sqlsegment_test

import (
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// MySQL's answer to an UPDATE has no number in it if a trigger was run. Tools that change a table while it is used
// make triggers on it, and so does whoever keeps a journal of all changes.
func TestATableWithTriggersGivesEachNumberOnce(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.ServersOf("mysql") {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			if target.IsTiDB(t) {
				t.Skip("TiDB has no triggers")
			}
			target := target.Privileged()
			for name, opts := range map[string][]sqlsegment.Option{
				"dedicated": {sqlsegment.WithDedicatedPool()}, "shared": nil,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					dsn := target.DSN(t)
					store := newStore(t, openPool(t, target, dsn), sqlsegment.MySQL, opts...)
					_, err := store.Claim(t.Context(), "orders", 1)
					must(t, err)
					admin := openPool(t, target, dsn)
					for _, statement := range []string{
						"CREATE TABLE journal (id bigint AUTO_INCREMENT PRIMARY KEY, name varbinary(255))",
						"CREATE TRIGGER noted AFTER UPDATE ON snowflake_segments FOR EACH ROW " +
							"INSERT INTO journal (name) VALUES (NEW.name)",
					} {
						_, err := admin.ExecContext(t.Context(), statement)
						must(t, err)
					}
					first, err := store.Claim(t.Context(), "orders", 1)
					if must(t, err); first > 3 { // one claim finds out
						t.Errorf("with a trigger, a claim returned %d", first)
					}
					const claims = 10
					got := make(chan int64, 2*claims)
					var both sync.WaitGroup
					for range 2 {
						both.Go(func() {
							for range claims {
								next, err := store.Claim(t.Context(), "orders", 3)
								if err != nil {
									t.Error(err)
								}
								got <- next
							}
						})
					}
					both.Wait()
					close(got)
					seen := make(map[int64]bool)
					for next := range got {
						if seen[next] || (next-first-1)%3 != 0 || next > first+1+3*(2*claims-1) {
							t.Errorf("a claim returned %d, behind %d", next, first)
						}
						seen[next] = true
					}
				})
			}
		})
	}
}
