package resharding_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// undone fails unless the router has the old shards and nothing of the new ones is left.
func (d *doubled) undone(when string) {
	d.Helper()
	d.check(d.router, when)
	same(d.T, "shards "+when, d.router.Shards(), doubledFrom)
	for _, db := range d.dbs {
		for shard := doubledFrom; shard < 2*doubledFrom; shard++ {
			if db.Migrator().HasTable(fmt.Sprintf("doubled_orders_%02d", shard)) {
				d.Errorf("%s, the table of shard %d is still there", when, shard)
			}
		}
		var left int64
		must(d.T, db.Raw("SELECT COUNT(*) FROM snowflake_moves").Scan(&left).Error, "the journal")
		same(d.T, "records of the journal "+when, left, 0)
	}
	_, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: 2 * doubledFrom, Databases: d.dbs, Place: func(int) int { return 0 },
	}, &doubledOrder{}, &doubledItem{})
	wantErr(d.T, err, snowflakeplugin.ErrSharding, "a router with the new number "+when)
}

func TestAReshardingIsUndoneBeforeItsCutover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 60, target.Open(t, nil))
		must(t, d.reshard(snowflakeplugin.ReshardConfig{}).Undo(t.Context()), "Undo before Copy")
		d.undone("before Copy")

		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 7})
		must(t, resharding.Copy(t.Context()), "Copy")
		// A row that is deleted after it was copied leaves a copy behind.
		gone := d.live[0]
		for _, id := range d.live {
			if int64(id)%(2*doubledFrom) >= doubledFrom {
				gone = id
			}
		}
		db, err := d.router.DB(t.Context(), &doubledOrder{}, gone)
		must(t, err, "DB")
		must(t, db.Unscoped().Delete(&doubledOrder{}, gone).Error, "Delete")
		// A row that somebody has written to a new table is not dropped.
		shard := int64(gone) % (2 * doubledFrom)
		table := fmt.Sprintf("doubled_orders_%02d", shard)
		late := doubledOrder{ID: d.live[len(d.live)-1]&^(2*doubledFrom-1) + 2<<20 + snowflakeplugin.ID(shard)}
		must(t, d.dbs[0].Table(table).Create(&late).Error, "a row of a program without the router")
		err = resharding.Undo(t.Context())
		wantErr(t, err, snowflakeplugin.ErrSharding, "Undo with such a row")
		says(t, err, fmt.Sprint(late.ID), table)
		must(t, d.dbs[0].Table(table).Unscoped().Delete(&late).Error, "the row")
		must(t, resharding.Undo(t.Context()), "Undo")
		must(t, d.router.Create(t.Context(), &doubledOrder{ID: gone, Items: nil}), "the deleted row")
		d.undone("after Copy")

		_, err = d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
		must(t, err, "Cutover after Undo")
		d.check(d.router, "after another resharding")
	})
}

// A table that was there before the resharding is left alone.
func TestUndoDropsOnlyTablesThatTheReshardingHasMade(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 1)
		dbs := l.open(0)
		r := l.fill(2, dbs)
		must(t, dbs[0].Table("lots_03").AutoMigrate(&lot{}), "a table")
		d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard")
		must(t, d.Copy(t.Context()), "Copy")
		must(t, d.Undo(t.Context()), "Undo")
		same(t, "lots_02 is there", dbs[0].Migrator().HasTable("lots_02"), false)
		same(t, "lots_03 is there", dbs[0].Migrator().HasTable("lots_03"), true)
	})
}

// Rows are written, changed and deleted after the cutover, by a process that has followed it. The tables have
// foreign keys, and in the second round the new shards are in a database of their own.
func TestAReshardingIsUndoneAfterItsCutover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		// TestAReshardingEndsWithPoolsOfAnySize goes back from a second database in tier one.
		for _, databases := range nightly.Pick([]int{1}, []int{1, 2}) {
			dsn := target.DSN(t)
			dbs := []*gorm.DB{target.OpenDSN(t, dsn, nil)}
			if databases == 2 {
				dbs = append(dbs, target.Open(t, nil))
			}
			d := newDoubled(t, 60, dbs...)
			if target.Name != "sqlite" { // which cannot add a constraint
				for shard := range doubledFrom {
					must(t, dbs[0].Exec(fmt.Sprintf("ALTER TABLE doubled_items_%02d ADD CONSTRAINT fk_%02[1]d "+
						"FOREIGN KEY (order_id) REFERENCES doubled_orders_%02[1]d (id)", shard)).Error, "a foreign key")
				}
			}
			other := &doubled{T: t, dbs: []*gorm.DB{target.OpenDSN(t, dsn, nil)}}
			must(t, other.dbs[0].Use(dbs[0].Plugins["snowflake"]), "Use")
			follower := other.open(doubledFrom)

			resharding := d.reshard(snowflakeplugin.ReshardConfig{
				Databases: dbs, Place: func(shard int) int { return shard / doubledFrom * (databases - 1) },
			})
			_, err := resharding.Cutover(t.Context())
			must(t, err, "Cutover")
			must(t, d.router.AutoMigrate(t.Context()), "AutoMigrate, which must not stop Undo")
			d.add(d.router, 40)
			for i, id := range d.live[:30] {
				db, err := d.router.DB(t.Context(), &doubledOrder{}, id)
				must(t, err, "DB")
				must(t, db.Where("id = ?", id).Update("name", fmt.Sprint("changed ", i)).Error, "Update")
			}
			if databases == 1 {
				d.check(follower, "by a follower")
				d.add(follower, 10)
			}
			want := d.rows()
			pending, err := d.router.PendingCleanup()
			must(t, err, "PendingCleanup")
			must(t, pending.Undo(t.Context()), "Undo")
			d.undone("after the cutover")
			same(t, "the rows after Undo", d.rows(), want)
			if databases == 1 {
				d.check(follower, "by a follower after Undo")
			}
			must(t, resharding.Undo(t.Context()), "Undo of what is undone")
			_, err = d.reshard(snowflakeplugin.ReshardConfig{
				Databases: dbs, Place: func(shard int) int { return shard / doubledFrom * (databases - 1) },
			}).Cutover(t.Context())
			must(t, err, "Cutover after Undo")
			d.check(d.router, "after another resharding")
		}
	})
}

// rows lists all rows by their keys, wherever they are.
func (d *doubled) rows() string {
	d.Helper()
	var all []doubledOrder
	must(d.T, d.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Unscoped().Preload("Items") }).
		Find(d.Context(), &all, d.live), "Find")
	text := ""
	for _, o := range all {
		text += fmt.Sprintln(o.ID, o.Name, o.Paid, o.Total, string(o.Raw), o.UpdatedAt.UnixMicro(), o.Items)
	}
	return text
}
