package snowflakeplugin_test

import (
	"math"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

type partitioned struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"index"`
}

type partitionedUniquely struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"size:40;uniqueIndex"`
}

// The statements are run on the databases that have partitions, and the rows are counted in each.
func TestPartitionSQLDividesATable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for _, n := range []int{16, 12} {
			db := target.Open(t, nil)
			leased(t, db)
			must(t, db.AutoMigrate(&partitioned{}), "AutoMigrate")
			rows := make([]partitioned, 600)
			must(t, db.Create(&rows).Error, "Create")
			statements, err := snowflakeplugin.PartitionSQL(db, &partitioned{}, n)
			if target.Dialect == "sqlite" {
				wantErr(t, err, snowflakeplugin.ErrSharding, "SQLite")
				continue
			}
			must(t, err, "PartitionSQL")
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

func TestPartitionSQLRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		_, err := snowflakeplugin.PartitionSQL(db, &partitioned{}, 16)
		wantErr(t, err, snowflakeplugin.ErrSharding, "without the plugin")
		leased(t, db)
		for _, n := range []int{-1, 0, 1, 8193} {
			_, err := snowflakeplugin.PartitionSQL(db, &partitioned{}, n)
			wantErr(t, err, snowflakeplugin.ErrSharding, "a number of partitions")
		}
		_, err = snowflakeplugin.PartitionSQL(db, &partitionedUniquely{}, 16)
		wantErr(t, err, snowflakeplugin.ErrSharding, "another unique key")
		if !strings.Contains(err.Error(), "Name") {
			t.Errorf("%v does not name the field", err)
		}
	})
}

// Against figures worked out by hand.
func TestADistributionIsJudged(t *testing.T) {
	t.Parallel()
	db := dbtest.Targets()[0].Open(t, nil)
	leased(t, db)
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &partitioned{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	d, err := r.Distribution(t.Context(), &partitioned{})
	must(t, err, "Distribution")
	if d.Total != 0 || d.ChiSquare != 0 || d.Z != 0 || len(d.Rows) != 4 {
		t.Errorf("without rows: %+v", d)
	}
	for shard, n := range []int{30, 20, 10, 20} {
		rows := make([]partitioned, n)
		for i := range rows {
			rows[i].ID = snowflakeplugin.ID(4*(i+1) + shard)
		}
		must(t, r.Create(t.Context(), rows), "Create")
	}
	d, err = r.Distribution(t.Context(), &partitioned{})
	must(t, err, "Distribution")
	// (10² + 10²) / 20 = 10; ((10/3)^(1/3) - (1 - 2/27)) / sqrt(2/27) = 2.0864
	if d.Total != 80 || d.Least != 10 || d.Most != 30 || d.ChiSquare != 10 || math.Abs(d.Z-2.0864) > 0.001 {
		t.Errorf("%+v", d)
	}
	if text := d.String(); !strings.Contains(text, "80 rows, from 10 to 30") || strings.Count(text, "\n") != 5 {
		t.Errorf("it reads\n%s", text)
	}
}
