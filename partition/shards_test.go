package partition_test

import (
	"context"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/partition"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type partitioned struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"index"`
}

type partitionedUniquely struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"size:40;uniqueIndex"`
}

// The statements are run on all databases that have partitions, and the rows are counted in each.
func TestByShardDividesATable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		for _, n := range []int{16, 12} {
			db := target.Open(t, nil)
			leased(t, db)
			must(t, db.AutoMigrate(&partitioned{}), "AutoMigrate")
			rows := make([]partitioned, 600)
			must(t, db.Create(&rows).Error, "Create")
			statements, err := partition.ByShard(db, &partitioned{}, n)
			if target.Dialect == "sqlite" {
				wantErr(t, err, snowflakeplugin.ErrSharding, "SQLite")
				continue
			}
			must(t, err, "ByShard")
			for _, statement := range statements {
				must(t, db.Exec(statement).Error, statement)
			}
			var all, after int64
			must(t, db.Model(&partitioned{}).Count(&all).Error, "Count")
			must(t, db.Create(&partitioned{}).Error, "Create afterwards")
			must(t, db.Model(&partitioned{}).Count(&after).Error, "Count")
			if all != 600 || after != 601 {
				t.Errorf("%d rows, then %d", all, after)
			}
			if target.Dialect == "postgres" {
				const each = "SELECT tableoid::regclass::text, count(*) FROM partitioneds GROUP BY 1"
				for _, row := range partitionRows(t, db, each) {
					if row < 10 || row > 120 {
						t.Errorf("a partition of %d has %d rows", n, row)
					}
				}
				continue
			}
			// The partition is the shard that a router would choose.
			for shard := range n {
				var in, of int64
				partition := db.Raw("SELECT count(*) FROM partitioneds PARTITION (p" + itoa(shard) + ")").Scan(&in)
				must(t, partition.Error, "a partition")
				formula := db.Raw("SELECT count(*) FROM partitioneds WHERE (id & 4095) % ? = ?", n, shard).Scan(&of)
				must(t, formula.Error, "a shard")
				if in != of {
					t.Errorf("partition %d of %d has %d rows, the shard has %d", shard, n, in, of)
				}
			}
		}
	})
}

func itoa(n int) string { return strings.TrimSpace(snowflakeplugin.ID(n).String()) }

func partitionRows(t *testing.T, db *gorm.DB, query string) []int64 {
	t.Helper()
	rows, err := db.Raw(query).Rows()
	must(t, err, query)
	defer func() { must(t, rows.Close(), "Close") }()
	var counts []int64
	for rows.Next() {
		var name string
		var n int64
		must(t, rows.Scan(&name, &n), "Scan")
		counts = append(counts, n)
	}
	must(t, rows.Err(), query)
	return counts
}

func TestByShardRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		_, err := partition.ByShard(db, &partitioned{}, 16)
		wantErr(t, err, snowflakeplugin.ErrSharding, "without the plugin")
		leased(t, db)
		for _, n := range []int{-1, 0, 1, 8193} {
			_, err := partition.ByShard(db, &partitioned{}, n)
			wantErr(t, err, snowflakeplugin.ErrSharding, "a number of partitions")
		}
		_, err = partition.ByShard(db, &partitionedUniquely{}, 16)
		wantErr(t, err, snowflakeplugin.ErrSharding, "another unique key")
		if !strings.Contains(err.Error(), "Name") {
			t.Errorf("%v does not name the field", err)
		}
	})
}

// counted is a source of numbers that have no layout.
type counted struct{}

func (counted) Fill(context.Context, []int64) error { return nil }

func TestNumbersWithoutALayoutAreNotPartitioned(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite has no partitions")
		}
		db := target.Open(t, nil)
		must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(counted{}))), "Use")
		_, err := partition.ByShard(db, &partitioned{}, 4)
		if err == nil || !strings.Contains(err.Error(), "WithSource") {
			t.Errorf("ByShard under WithSource: %v", err)
		}
	})
}
