package resharding_test

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// sealed has columns that a model may not create, or not read, and one that drivers round.
type sealed struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Changed *string            `gorm:"<-:update"`
	Shown   *string            `gorm:"->"`
	Hidden  string             `gorm:"->:false;<-"`
	Rate    float32
	Code    string `gorm:"size:40;uniqueIndex:uq_sealed_code"`
	Raw     []byte
}

// TestEveryColumnIsMoved compares the tables by SQL of its own, between two databases and within one.
func TestEveryColumnIsMoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, databases := range []int{1, 2} {
			var dbs []*gorm.DB
			plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithNode(7))
			for range databases {
				dbs = append(dbs, target.Open(t, nil))
				must(t, dbs[len(dbs)-1].Use(plugin), "Use")
			}
			r, err := snowflakeplugin.NewRouter(
				snowflakeplugin.ShardingConfig{Shards: 2, Databases: dbs[:1]}, &sealed{})
			must(t, err, "NewRouter")
			must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
			shortLease(t, dbs[0])
			rows := make([]sealed, 40)
			for i := range rows {
				rows[i] = sealed{Hidden: fmt.Sprint("h", i), Rate: 1.2345678 * float32(i), Code: fmt.Sprint("c", i)}
				if i%2 == 0 {
					rows[i].Raw = []byte{0, 255, byte(i)}
				}
			}
			must(t, r.Create(t.Context(), rows), "Create")
			for shard := range 2 {
				must(t, dbs[0].Exec(fmt.Sprintf("UPDATE sealeds_%02d SET changed = 'x', shown = 'y'", shard)).Error,
					"values that the model cannot store")
			}
			before := dumpSealed(t, dbs, 2)
			d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{
				Databases: dbs, Chunk: 7, Place: func(shard int) int { return shard / 2 * (databases - 1) },
			})
			must(t, err, "Reshard")
			_, err = d.Cutover(t.Context())
			must(t, err, "Cutover")
			if after := dumpSealed(t, dbs, 4); after != before {
				t.Errorf("with %d databases, before\n%s\nafter\n%s", databases, before, after)
			}
		}
	})
}

// dumpSealed lists all rows in the order of their keys, as the database writes them.
func dumpSealed(t *testing.T, dbs []*gorm.DB, shards int) string {
	t.Helper()
	rate, char := "rate", "VARCHAR(40)"
	if dbs[0].Name() == "mysql" {
		rate, char = "CAST(rate AS DOUBLE)", "CHAR(40)"
	}
	lines := make([]string, 41)
	for shard := range shards {
		for _, db := range dbs {
			table := fmt.Sprintf("sealeds_%02d", shard)
			if !db.Migrator().HasTable(table) {
				continue
			}
			var rows []struct {
				Code, Changed, Shown, Hidden, Rate string
				Raw                                []byte
			}
			must(t, db.Raw(fmt.Sprintf("SELECT code, changed, shown, hidden, CAST(%s AS %s) AS rate, raw FROM %s "+
				"ORDER BY id", rate, char, table)).Scan(&rows).Error, "reading")
			for _, row := range rows {
				var number int
				_, err := fmt.Sscanf(row.Code, "c%d", &number)
				must(t, err, "the code")
				lines[number] += fmt.Sprintln(row)
			}
		}
	}
	return strings.Join(lines, "")
}

func TestATableWithAColumnThatTheModelLacksIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 1)
		dbs := l.open(0)
		r := l.fill(2, dbs)
		for shard := range 2 {
			must(t, dbs[0].Exec(fmt.Sprintf("ALTER TABLE lots_%02d ADD COLUMN extra INTEGER", shard)).Error, "ALTER")
			must(t, dbs[0].Exec(fmt.Sprintf("UPDATE lots_%02d SET extra = 7", shard)).Error, "UPDATE")
		}
		_, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "a column that would be lost")
		says(t, err, "lots_00 has a column extra", "lots_02")
		for shard := range 4 {
			if shard >= 2 {
				must(t, dbs[0].Exec(fmt.Sprintf("ALTER TABLE lots_%02d ADD COLUMN extra INTEGER", shard)).Error, "ALTER")
			}
		}
		d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard")
		_, err = d.Cutover(t.Context())
		must(t, err, "Cutover")
		sevens := int64(0)
		for shard := range 4 {
			var n int64
			must(t, dbs[0].Table(fmt.Sprintf("lots_%02d", shard)).Where("extra = 7").Count(&n).Error, "counting")
			sevens += n
		}
		same(t, "rows with the extra value", sevens, 2)
	})
}

// After a cutover no table has a row of another shard, so statements that hit such a row cannot go wrong.
func TestAfterACutoverEveryRowIsClaimedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 64, target.Open(t, nil))
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		d.onShards()
		claimed := make(chan int64, 2*doubledFrom)
		must(t, r.Each(t.Context(), &doubledOrder{}, func(_ int, tx *gorm.DB) error {
			done := tx.Where("name <> ?", "").Update("name", "claimed")
			claimed <- done.RowsAffected
			return done.Error
		}), "Each")
		close(claimed)
		sum := int64(0)
		for n := range claimed {
			sum += n
		}
		same(t, "claimed orders", sum, int64(len(d.live)))

		// Clean stops at a row that came late, also at one with an older key than others.
		table, late := "", snowflakeplugin.ID(0)
		for id := d.live[0] - 1; table == ""; id-- {
			if int64(id)%(2*doubledFrom) >= doubledFrom {
				table, late = fmt.Sprintf("doubled_orders_%02d", int64(id)%doubledFrom), id
			}
		}
		must(t, d.dbs[0].Table(table).Create(&doubledOrder{ID: late, Name: "late"}).Error, "a late row")
		if err := resharding.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), "after the cutover") {
			t.Errorf("Clean with a late row: %v", err)
		}
		var n int64
		must(t, d.dbs[0].Table(table).Where("id = ?", late).Count(&n).Error, "counting")
		same(t, "late rows", n, 1)
	})
}

// Two processes cut over, although only one may. The second one must not copy or repair any more.
func TestAReshardingThatIsOvertakenByAnotherChangesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 30, target.Open(t, nil))
		slow := d.reshard(snowflakeplugin.ReshardConfig{})
		r, err := d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
		must(t, err, "Cutover")
		d.add(r, 20)
		before := d.dump()
		_, err = slow.Cutover(t.Context())
		wantErr(t, err, snowflakeplugin.ErrSharding, "the second Cutover")
		must(t, slow.Copy(t.Context()), "Copy, which has nothing to do")
		same(t, "the rows", d.dump(), before)
		d.check(r, "afterwards")
	})
}

// onShards fails unless every table holds only the rows of its shard.
func (d *doubled) onShards() {
	d.Helper()
	const shards = 2 * doubledFrom
	for shard := range shards {
		for _, db := range d.dbs {
			for _, table := range []string{"doubled_orders", "doubled_items"} {
				table = fmt.Sprintf("%s_%02d", table, shard)
				if !db.Migrator().HasTable(table) {
					continue
				}
				var foreign int64
				must(d.T, db.Table(table).Where("id % ? <> ?", shards, shard).Count(&foreign).Error, table)
				if foreign > 0 {
					d.Errorf("%d rows of other shards are in %s", foreign, table)
				}
			}
		}
	}
}
