package resharding_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A cutover removes moved rows, and with ON DELETE CASCADE the database would delete what refers to them.
func TestAForeignKeyOfAnotherTableStandsInTheWayOfAResharding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
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

// A key that is added while Cutover copies would do the same, and also one that is there when somebody goes on
// without the models, as the command does.
func TestAForeignKeyThatIsAddedDuringAReshardingStandsInTheWayOfACutover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		d := newDoubled(t, 60, db)
		during := func() {}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Progress: func(p snowflakeplugin.ReshardProgress) {
			if p.Step == "repair" {
				during()
				during = func() {}
			}
		}})
		must(t, resharding.Copy(t.Context()), "Copy")
		var moved doubledOrder
		must(t, db.Table("doubled_orders_03").Order("id").Take(&moved).Error, "a row that moves")
		refused := func(err error, what string) {
			t.Helper()
			wantErr(t, err, snowflakeplugin.ErrSharding, what)
			says(t, err, "from the table notes to doubled_orders_01", "drop it first")
			d.check(d.router, what)
			var notes int64
			must(t, db.Table("notes").Count(&notes).Error, "the notes")
			same(t, "notes", notes, 1)
			must(t, db.Exec("DROP TABLE notes").Error, "drop")
		}
		addNotes(t, db, "doubled_orders_01", moved.ID)
		other, err := router.OpenResharding(t.Context(), router.ReshardConfig{Databases: []*gorm.DB{db}})
		must(t, err, "OpenResharding")
		_, err = other.Cutover(t.Context())
		refused(err, "Cutover without the models")
		during = func() { addNotes(t, db, "doubled_orders_01", moved.ID) }
		_, err = resharding.Cutover(t.Context())
		refused(err, "Cutover while a key is added")
		_, err = resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		d.check(d.router, "after Cutover")
	})
}

// branch refers to a row that need not move with it.
type branch struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Previous *snowflakeplugin.ID
}

// With ON DELETE CASCADE, removing a row that moves would remove a row that stays.
func TestAForeignKeyToARowThatMovesElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 1, Databases: []*gorm.DB{db}}, &branch{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		shortLease(t, db)
		if target.Name == "sqlite" { // which cannot add a constraint
			must(t, db.Exec("DROP TABLE branches_00").Error, "drop")
			must(t, db.Exec("CREATE TABLE branches_00 (id INTEGER PRIMARY KEY, previous INTEGER "+
				"REFERENCES branches_00 ON DELETE CASCADE)").Error, "a foreign key")
		} else {
			must(t, db.Exec("ALTER TABLE branches_00 ADD CONSTRAINT fk_previous FOREIGN KEY (previous) "+
				"REFERENCES branches_00 (id) ON DELETE CASCADE").Error, "a foreign key")
		}
		rows := make([]branch, 2)
		must(t, r.Create(t.Context(), rows[:1]), "Create")
		for rows[1].ID == 0 || int64(rows[1].ID^rows[0].ID)&1 == 0 {
			rows[1].ID = 0
			must(t, r.Create(t.Context(), rows[1:]), "Create")
		}
		if rows[0].ID&1 == 0 {
			rows[0], rows[1] = rows[1], rows[0]
		}
		stays, err := r.DB(t.Context(), &branch{}, rows[1].ID)
		must(t, err, "DB")
		must(t, stays.Where("id = ?", rows[1].ID).Update("previous", rows[0].ID).Error, "Update")
		_, err = r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "Reshard")
		says(t, err, "from the table branches_00 to branches_00", "drop it first")
	})
}
