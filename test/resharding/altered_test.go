package resharding_test

import (
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// addColumn adds a column to the tables of some shards, and fills it.
func (d *doubled) addColumn(name string, from, to int) {
	d.Helper()
	for shard := from; shard < to; shard++ {
		table := fmt.Sprintf("doubled_orders_%02d", shard)
		must(d.T, d.dbs[0].Exec("ALTER TABLE "+table+" ADD COLUMN "+name+" VARCHAR(40)").Error, "a column")
		must(d.T, d.dbs[0].Exec("UPDATE "+table+" SET "+name+" = 'filled'").Error, "filling it")
	}
}

// filled counts the rows with a value in a column.
func (d *doubled) filled(name string, shards int) (n int64) {
	d.Helper()
	for shard := range shards {
		var some int64
		must(d.T, d.dbs[0].Table(fmt.Sprintf("doubled_orders_%02d", shard)).Where(name+" = ?", "filled").
			Count(&some).Error, "the values")
		n += some
	}
	return n
}

// A migration adds a column to the tables that are in use, after Reshard has read the columns, or while Cutover
// copies. The values of the rows that move must not stay behind.
func TestAColumnThatIsAddedDuringAReshardingIsMoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 40, target.Open(t, nil))
		all := int64(len(d.made))
		during := func() {}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Progress: func(p snowflakeplugin.ReshardProgress) {
			if p.Step == "repair" {
				during()
				during = func() {}
			}
		}})
		must(t, resharding.Copy(t.Context()), "Copy")
		refused := func(err error, column string) {
			t.Helper()
			wantErr(t, err, snowflakeplugin.ErrSharding, column)
			says(t, err, "has a column "+column)
		}
		cut := func() error {
			_, err := resharding.Cutover(t.Context())
			return err
		}
		d.addColumn("early", 0, doubledFrom)
		refused(cut(), "early")
		d.addColumn("early", doubledFrom, 2*doubledFrom)
		during = func() { d.addColumn("meanwhile", 0, doubledFrom) }
		refused(cut(), "meanwhile")
		d.check(d.router, "after a Cutover that was refused")
		d.addColumn("meanwhile", doubledFrom, 2*doubledFrom)
		must(t, cut(), "Cutover")
		for _, column := range []string{"early", "meanwhile"} {
			same(t, "rows with a value in "+column, d.filled(column, 2*doubledFrom), all)
		}
		d.addColumn("afterwards", doubledFrom, 2*doubledFrom)
		refused(resharding.Undo(t.Context()), "afterwards")
		d.check(d.router, "after an Undo that was refused")
		d.addColumn("afterwards", 0, doubledFrom)
		must(t, resharding.Undo(t.Context()), "Undo")
		for _, column := range []string{"early", "meanwhile", "afterwards"} {
			same(t, "rows with a value in "+column+" after Undo", d.filled(column, doubledFrom), all)
		}
	})
}

// After the cutover the old tables are in use as before. A foreign key to the rows that stay there, or a trigger
// on updates that only a new table has, does not keep Undo from moving the others back.
func TestWhatIsAddedToOldTablesAfterACutoverDoesNotStandInTheWayOfUndo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		_, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		var stayed doubledOrder
		must(t, db.Table("doubled_orders_01").Order("id").Take(&stayed).Error, "a row that has stayed")
		addNotes(t, db, "doubled_orders_01", stayed.ID)
		must(t, db.Exec("CREATE TABLE audits (name VARCHAR(20))").Error, "a table")
		addTrigger(t, db, "noting_changes", "UPDATE", "doubled_orders_03")
		must(t, resharding.Undo(t.Context()), "Undo")
		d.check(d.router, "after Undo")
		var notes int64
		must(t, db.Table("notes").Count(&notes).Error, "the notes")
		same(t, "notes", notes, 1)
	})
}

// addNotes makes a table that refers to a row of another one.
func addNotes(t *testing.T, db *gorm.DB, table string, id snowflakeplugin.ID) {
	t.Helper()
	must(t, db.Exec("CREATE TABLE notes (id BIGINT PRIMARY KEY, order_id BIGINT, "+
		"FOREIGN KEY (order_id) REFERENCES "+table+" (id) ON DELETE CASCADE)").Error, "a table")
	must(t, db.Exec("INSERT INTO notes (id, order_id) VALUES (1, ?)", id).Error, "a note")
}

// SQLite deletes the rows of a table that it drops, and with ON DELETE CASCADE also those that refer to them.
func TestAForeignKeyToANewTableStandsInTheWayOfUndo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		_, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		var moved doubledOrder
		must(t, db.Table("doubled_orders_03").Order("id").Take(&moved).Error, "a row that has moved")
		addNotes(t, db, "doubled_orders_03", moved.ID)
		err = resharding.Undo(t.Context())
		wantErr(t, err, snowflakeplugin.ErrSharding, "Undo")
		says(t, err, "from the table notes to doubled_orders_03")
		d.check(d.router, "after an Undo that was refused")
		var notes int64
		must(t, db.Table("notes").Count(&notes).Error, "the notes")
		same(t, "notes", notes, 1)
		must(t, db.Exec("DROP TABLE notes").Error, "drop")
		must(t, resharding.Undo(t.Context()), "Undo")
		d.check(d.router, "after Undo")
	})
}

// A row that a program has written to a new table before the cutover is not an outdated copy.
func TestACutoverDoesNotRemoveRowsThatAreNoCopies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		must(t, resharding.Copy(t.Context()), "Copy")
		var last doubledOrder
		must(t, db.Table("doubled_orders_03").Unscoped().Order("id DESC").Take(&last).Error, "the last copy")
		// The copy of a row that is deleted meanwhile is removed.
		handle, err := d.router.DB(t.Context(), &doubledOrder{}, last.ID)
		must(t, err, "DB")
		must(t, handle.Unscoped().Delete(&doubledOrder{}, last.ID).Error, "Delete")
		d.live = slices.DeleteFunc(d.live, func(id snowflakeplugin.ID) bool { return id == last.ID })
		stray := doubledOrder{ID: last.ID + 4096, Name: "stray"}
		must(t, db.Table("doubled_orders_03").Create(&stray).Error, "a row of a program without the router")
		_, err = resharding.Cutover(t.Context())
		wantErr(t, err, snowflakeplugin.ErrSharding, "Cutover")
		says(t, err, fmt.Sprint(stray.ID), "doubled_orders_03 only", "move it to doubled_orders_01")
		must(t, db.Exec("INSERT INTO doubled_orders_01 SELECT * FROM doubled_orders_03 WHERE id = ?", stray.ID).Error,
			"moving it")
		_, err = resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		var found []doubledOrder
		must(t, d.router.Find(t.Context(), &found, []snowflakeplugin.ID{stray.ID}), "Find")
		same(t, "the name", found[0].Name, "stray")
		err = d.router.Find(t.Context(), &found, []snowflakeplugin.ID{last.ID})
		wantErr(t, err, gorm.ErrRecordNotFound, "Find of the row that was deleted")
	})
}

// New tables are dropped or emptied after Copy, although the journal says that they are full.
func TestANewTableThatWasDroppedIsFilledAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		must(t, resharding.Copy(t.Context()), "Copy")
		must(t, db.Exec("DROP TABLE doubled_orders_03").Error, "drop")
		must(t, db.Exec("DELETE FROM doubled_orders_02").Error, "empty")
		_, err := resharding.Cutover(t.Context())
		wantErr(t, err, snowflakeplugin.ErrSharding, "Cutover without a table")
		says(t, err, "doubled_orders_03 is not there", "Reshard")
		d.check(d.router, "after a Cutover that was refused")
		_, err = d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
		must(t, err, "Cutover")
		d.check(d.router, "after Cutover")
	})
}
