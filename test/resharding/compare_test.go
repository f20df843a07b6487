package resharding_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// precise has columns whose values can differ although the database takes them for equal.
type precise struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text   string             `gorm:"size:20"`
	Note   *string            `gorm:"size:20"`
	Code   string             `gorm:"size:40;uniqueIndex:uq_precise_code"`
	Double float64            `gorm:"column:big;type:double precision"`
	Single float32
	Price  float64 `gorm:"type:decimal(20,6)"`
	Raw    []byte
	At     time.Time `gorm:"precision:6"`
}

// planted are changes of a copy, each of which must be found. Some databases do not have all values.
func planted(dialect string) []string {
	list := []string{
		"text = 'A'", "text = 'a '", "text = 'á'", "note = ''", "single = 1.2345679", "price = 0.000001",
		"raw = NULL", "code = NULL",
	}
	switch dialect {
	case "sqlite":
		return append(list, "text = x'61'", "at = 'tomorrow'")
	case "mysql":
		return append(list, "big = 1e-300", "raw = x'0000'", "at = at + INTERVAL 1 MICROSECOND")
	}
	return append(list, "big = '-0'", "big = 'NaN'", "raw = '\\x0000'", "at = at + INTERVAL '1 microsecond'")
}

// newPrecise makes a router with rows on two shards.
func newPrecise(t *testing.T, rows int, dbs ...*gorm.DB) *snowflakeplugin.Router {
	t.Helper()
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithNode(7))
	for _, db := range dbs {
		must(t, db.Use(plugin), "Use")
	}
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 2, Databases: dbs[:1]}, &precise{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	shortLease(t, dbs[0])
	made := make([]precise, rows)
	for i := range made {
		made[i] = precise{
			Text: "a", Code: fmt.Sprint("c", i), Single: 1.2345678, Raw: []byte{0},
			At: time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC),
		}
	}
	must(t, r.Create(t.Context(), made), "Create")
	return r
}

// A change that the database takes for none is found, by the server and by reading both tables.
func TestACopyIsComparedByteForByte(t *testing.T) {
	t.Parallel()
	onServers(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		for _, databases := range []int{1, 2} {
			dbs := []*gorm.DB{target.Open(t, nil), target.Open(t, nil)}[:databases]
			r := newPrecise(t, 200, dbs...)
			d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{
				Databases: dbs, Place: func(shard int) int { return shard / 2 * (databases - 1) },
			})
			must(t, err, "Reshard")
			must(t, d.Copy(t.Context()), "Copy")
			must(t, d.Verify(t.Context()), "Verify")
			into := dbs[databases-1]
			var ids []int64
			must(t, into.Raw("SELECT id FROM precises_02 ORDER BY id").Scan(&ids).Error, "the copies")
			changes := planted(into.Name())
			if target.Name == "mysql" && databases == 1 {
				changes = append(changes, "big = -0e0") // which MariaDB keeps as 0, and no driver sends
			}
			for i, set := range changes {
				must(t, into.Exec("UPDATE precises_02 SET "+set+" WHERE id = ?", ids[i]).Error, set)
				err := d.Verify(t.Context())
				var e *snowflakeplugin.DifferenceError
				switch {
				case !errors.As(err, &e):
					t.Errorf("with %d databases, %s: %v", databases, set, err)
				case e.Rows != 1 || int64(e.First[0].ID) != ids[i] || e.First[0].What != "changed":
					t.Errorf("with %d databases, %s: %v", databases, set, e)
				}
				must(t, into.Exec("DELETE FROM precises_02 WHERE id = ?", ids[i]).Error, "the difference")
				must(t, dbs[0].Exec("DELETE FROM precises_00 WHERE id = ?", ids[i]).Error, "its row")
			}
			must(t, d.Verify(t.Context()), "Verify without the planted differences")
		}
	})
}

// While copies are outdated, the values of a unique column change their rows. A chunk that meets such a copy
// goes on, and in the end all rows are right.
func TestValuesOfAUniqueColumnChangeRowsDuringAResharding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, databases := range []int{1, 2} {
			dbs := []*gorm.DB{target.Open(t, nil), target.Open(t, nil)}[:databases]
			r := newPrecise(t, 60, dbs...)
			d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{
				Databases: dbs, Place: func(shard int) int { return shard / 2 * (databases - 1) }, Chunk: 4,
				Progress: rotateCodes(t, dbs[0]),
			})
			must(t, err, "Reshard")
			_, err = d.Cutover(t.Context())
			must(t, err, "Cutover")
			n, err := r.Count(t.Context(), &precise{})
			must(t, err, "Count")
			same(t, "rows", n, 60)
			must(t, d.Clean(t.Context()), "Clean")
		}
	})
}

// rotateCodes returns a function that once, after the first chunk, gives every row the code of the next one.
func rotateCodes(t *testing.T, db *gorm.DB) func(snowflakeplugin.ReshardProgress) {
	t.Helper()
	done := false
	return func(p snowflakeplugin.ReshardProgress) {
		if done || p.Step != "copy" {
			return
		}
		done = true
		var rows []struct {
			ID   int64
			Code string
		}
		must(t, db.Raw("SELECT id, code FROM precises_00 ORDER BY id").Scan(&rows).Error, "reading")
		for _, statement := range []string{"x", ""} {
			for i, row := range rows {
				code := statement + rows[(i+len(rows)-2)%len(rows)].Code
				must(t, db.Exec("UPDATE precises_00 SET code = ? WHERE id = ?", code, row.ID).Error, "rotating")
			}
		}
	}
}
