package routing_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// computed has a field that queries fill. AutoMigrate makes no column for it.
type computed struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
	Share int64 `gorm:"->;-:migration"`
}

func TestAFieldThatAutoMigrateLeavesOutIsReadAsGORMReadsIt(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		s := newSharded(t, []dbtest.Target{target}, nil, &computed{})
		rows := []computed{{Total: 1}, {Total: 2}, {Total: 3}, {Total: 4}, {Total: 5}}
		must(t, s.router.Create(t.Context(), rows), "Create")
		must(t, s.router.Check(t.Context()), "Check of tables without the column")
		totals := func(doing string, read func(dest *[]computed) error) (sum, shares int64) {
			t.Helper()
			var found []computed
			must(t, read(&found), doing)
			for _, row := range found {
				sum, shares = sum+row.Total, shares+row.Share
			}
			return sum, shares
		}
		latest := func(dest *[]computed) error { return s.router.Latest(t.Context(), dest, 4) }
		find := func(dest *[]computed) error {
			return s.router.Find(t.Context(), dest, []snowflakeplugin.ID{rows[0].ID, rows[2].ID, rows[4].ID})
		}
		for _, want := range []int64{0, 7} {
			if sum, shares := totals("Latest", latest); sum != 14 || shares != 4*want {
				t.Errorf("Latest: the totals are %d, and the shares %d, want 14 and %d", sum, shares, 4*want)
			}
			if sum, shares := totals("Find", find); sum != 9 || shares != 3*want {
				t.Errorf("Find: the totals are %d, and the shares %d, want 9 and %d", sum, shares, 3*want)
			}
			if want > 0 {
				break
			}
			// A column that the application has made by itself is read as well.
			must(t, s.router.Each(t.Context(), &computed{}, func(shard int, tx *gorm.DB) error {
				table, err := s.router.Table(&computed{}, s.id(shard))
				if err != nil {
					return err
				}
				return tx.Exec("ALTER TABLE " + table + " ADD COLUMN share bigint NOT NULL DEFAULT 7").Error
			}), "add the column")
			pool, err := s.dbs[0].DB()
			must(t, err, "the pool")
			pool.SetMaxIdleConns(0) // A connection of SQLite may know the old columns until it is opened again.
		}
	})
}
