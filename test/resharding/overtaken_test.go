package resharding_test

import (
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A process is paused in a cutover, before it repairs copies or while it has closed the map. Another one goes
// on, and programs write to the new tables. When the first one continues, it must not change a row.
func TestAProcessThatWasPausedInACutoverChangesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, pauseAt := range []int{1, 2*doubledFrom + 1} { // Each comparison tells of as many tables.
			d := newDoubled(t, 40, target.Open(t, nil))
			events, before := 0, ""
			slow := d.reshard(snowflakeplugin.ReshardConfig{Progress: func(p snowflakeplugin.ReshardProgress) {
				if p.Step == "repair" {
					events++
				}
				if events != pauseAt || before != "" {
					return
				}
				before = "meanwhile"
				r, err := d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
				must(t, err, "the Cutover of the other process")
				d.add(r, 20)
				d.rename("afterwards")
				before = d.dump()
			}})
			must(t, slow.Copy(t.Context()), "Copy")
			d.rename("after the copy") // so that there is something to repair
			_, err := slow.Cutover(t.Context())
			wantErr(t, err, snowflakeplugin.ErrSharding, "the Cutover of the process that was paused")
			same(t, "the rows", d.dump(), before)
			d.check(d.router, fmt.Sprint("after a pause at ", pauseAt))
		}
	})
}

// rename changes all rows that are not deleted.
func (d *doubled) rename(name string) {
	d.Helper()
	must(d.T, d.router.Each(d.Context(), &doubledOrder{}, func(_ int, tx *gorm.DB) error {
		return tx.Where("name <> ?", "").Update("name", name).Error
	}), "renaming")
}

// A copy that were left behind in an old table would keep its unique value from a new row.
func TestUniqueValuesAreFreeRightAfterACutover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		r := newPrecise(t, 60, db)
		d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard")
		_, err = d.Cutover(t.Context())
		must(t, err, "Cutover")
		plugin, _ := db.Plugins["snowflake"].(*snowflakeplugin.Plugin)
		next := func(shard int64) snowflakeplugin.ID {
			for {
				id, err := plugin.NextID(t.Context())
				must(t, err, "NextID")
				if int64(id)%4 == shard {
					return id
				}
			}
		}
		conflicts := []clause.OnConflict{
			{DoNothing: true},
			{Columns: []clause.Column{{Name: "code"}}, DoUpdates: clause.AssignmentColumns([]string{"text"})},
		}
		for i, conflict := range conflicts {
			var moved precise
			must(t, db.Table("precises_02").Order("id").Take(&moved).Error, "a row that has moved")
			handle, err := r.DB(t.Context(), &precise{}, moved.ID)
			must(t, err, "DB")
			must(t, handle.Delete(&precise{}, moved.ID).Error, "Delete")
			fresh := precise{ID: next(0), Code: moved.Code, Text: "fresh", At: moved.At}
			handle, err = r.DB(t.Context(), &precise{}, fresh.ID)
			must(t, err, "DB")
			created := handle.Clauses(conflict).Create(&fresh)
			must(t, created.Error, "Create")
			same(t, fmt.Sprint("rows that were stored with conflict ", i), created.RowsAffected, 1)
			var found []precise
			must(t, r.Find(t.Context(), &found, []snowflakeplugin.ID{fresh.ID}), "Find")
			same(t, "the text", found[0].Text, "fresh")
		}
	})
}

// With interpolateParams, the driver of MySQL reads and writes all values as text.
func TestValuesAreMovedExactlyWithInterpolatedParameters(t *testing.T) {
	t.Parallel()
	targets := slices.DeleteFunc(dbtest.ServersOf("mysql"), func(target dbtest.Target) bool {
		return target.Name == "tidb"
	})
	onServers(t, dbtest.Chosen(t.Name(), targets), func(t *testing.T, target dbtest.Target) {
		for _, databases := range []int{1, 2} {
			param := dbtest.DSNParam("interpolateParams", "true")
			dbs := []*gorm.DB{target.Open(t, nil, param), target.Open(t, nil, param)}[:databases]
			r := newPrecise(t, 80, dbs...)
			for shard := range 2 {
				must(t, dbs[0].Exec(fmt.Sprintf("UPDATE precises_%02d SET big = EXP(RAND() * 600 - 300), "+
					"single = EXP(RAND() * 60 - 30), price = RAND() * 1e12, raw = UNHEX(SHA2(RAND(), 256)), "+
					"at = TIMESTAMPADD(MICROSECOND, RAND() * 1e12, at), text = '\\\\ '' \\r ü'", shard)).Error, "values")
			}
			values := func(shards int) map[int64]string {
				all := map[int64]string{}
				for shard := range shards {
					for _, db := range dbs {
						if !db.Migrator().HasTable(fmt.Sprintf("precises_%02d", shard)) {
							continue
						}
						var rows []struct {
							ID int64
							V  string
						}
						must(t, db.Raw(fmt.Sprintf("SELECT id, CONCAT_WS(' ', HEX(text), big, CAST(single AS DOUBLE), "+
							"price, HEX(raw), at, code) AS v FROM precises_%02d", shard)).Scan(&rows).Error, "reading")
						for _, row := range rows {
							all[row.ID] = row.V
						}
					}
				}
				return all
			}
			before := values(2)
			d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{
				Databases: dbs, Place: func(shard int) int { return shard / 2 * (databases - 1) }, Chunk: 9,
			})
			must(t, err, "Reshard")
			_, err = d.Cutover(t.Context())
			must(t, err, "Cutover")
			after := values(4)
			same(t, "rows", len(after), len(before))
			for id, value := range before {
				same(t, fmt.Sprintf("row %d with %d databases", id, databases), after[id], value)
			}
		}
	})
}
