package partition_test

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/partition"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// madeAt is the first ID that could be made at an instant.
func madeAt(t *testing.T, at time.Time) snowflakeplugin.ID {
	t.Helper()
	id, _, err := generator.Default().Range(at, at)
	must(t, err, "Range")
	return snowflakeplugin.ID(id)
}

// monthsOf counts the rows of each partition of the table, by its name.
func monthsOf(t *testing.T, db *gorm.DB) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	var names []string
	if db.Name() == "postgres" {
		must(t, db.Raw("SELECT oid::regclass::text FROM pg_class WHERE relispartition AND relkind = 'r'").Scan(&names).Error, "partitions")
	} else {
		must(t, db.Raw("SELECT partition_name FROM information_schema.partitions WHERE "+
			"table_schema = DATABASE() AND table_name = 'partitioneds'").Scan(&names).Error, "partitions")
	}
	for _, name := range names {
		from := name
		if db.Name() != "postgres" {
			from = "partitioneds PARTITION (" + name + ")"
		}
		var n int64
		must(t, db.Raw("SELECT count(*) FROM "+from).Scan(&n).Error, name)
		counts[strings.TrimPrefix(name, "partitioneds_")] = n
	}
	return counts
}

func sameMonths(t *testing.T, db *gorm.DB, when string, want map[string]int64) {
	t.Helper()
	got := monthsOf(t, db)
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %s has %d rows, want %d", when, name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: the partitions are %v, want %v", when, got, want)
	}
}

func TestMonthsOfATableCanBeDroppedAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		must(t, db.AutoMigrate(&partitioned{}), "AutoMigrate")
		month := func(year, month int) time.Time {
			return time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
		}
		var rows []partitioned
		for _, at := range []time.Time{
			month(2025, 6), month(2025, 11).Add(-time.Millisecond), // before all
			month(2025, 11), month(2025, 12).Add(-time.Millisecond),
			month(2025, 12),
			month(2026, 1).Add(time.Hour), month(2026, 2).Add(-time.Millisecond), month(2026, 1),
			month(2026, 2), // after all
		} {
			rows = append(rows, partitioned{ID: madeAt(t, at)})
		}
		must(t, db.Create(&rows).Error, "Create")
		// The day and the zone do not matter: in UTC it is November.
		first := time.Date(2025, 10, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600))
		statements, err := partition.ByMonth(db, &partitioned{}, first, month(2026, 1))
		if target.Dialect == "sqlite" {
			wantErr(t, err, snowflakeplugin.ErrSharding, "SQLite")
			_, err = partition.AddMonth(db, &partitioned{}, first)
			wantErr(t, err, snowflakeplugin.ErrSharding, "SQLite")
			return
		}
		must(t, err, "ByMonth")
		for _, statement := range statements {
			must(t, db.Exec(statement).Error, statement)
		}
		sameMonths(t, db, "at first", map[string]int64{"p2025_11": 4, "p2025_12": 1, "p2026_01": 3, "p_later": 1})

		february, err := partition.AddMonth(db, &partitioned{}, month(2026, 2))
		must(t, err, "AddMonth")
		if err := db.Exec(february).Error; target.Dialect == "postgres" {
			if err == nil || !strings.Contains(err.Error(), "partition") {
				t.Errorf("a month that has begun already: %v", err)
			}
			must(t, db.Exec("DELETE FROM partitioneds_p_later").Error, "DELETE")
			must(t, db.Exec(february).Error, february)
			must(t, db.Create(&partitioned{ID: madeAt(t, month(2026, 2))}).Error, "Create")
		} else {
			must(t, err, february)
		}
		march, err := partition.AddMonth(db, &partitioned{}, month(2026, 3).Add(50*time.Hour))
		must(t, err, "AddMonth")
		must(t, db.Exec(march).Error, march)
		must(t, db.Create(&partitioned{ID: madeAt(t, month(2026, 3).Add(time.Hour))}).Error, "Create")
		must(t, db.Create(&partitioned{}).Error, "a row of today")
		sameMonths(t, db, "with two more", map[string]int64{"p2025_11": 4, "p2025_12": 1, "p2026_01": 3,
			"p2026_02": 1, "p2026_03": 1, "p_later": 1})

		drop := "ALTER TABLE partitioneds DROP PARTITION p2025_11"
		if target.Dialect == "postgres" {
			drop = "DROP TABLE partitioneds_p2025_11"
		}
		must(t, db.Exec(drop).Error, drop)
		var left int64
		must(t, db.Model(&partitioned{}).Count(&left).Error, "Count")
		same(t, "rows that are left", left, 7)
	})
}

func TestMonthsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("it has no partitions")
		}
		db := target.Open(t, nil)
		now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
		_, err := partition.ByMonth(db, &partitioned{}, now, now)
		wantErr(t, err, snowflakeplugin.ErrSharding, "without the plugin")
		leased(t, db)
		for what, months := range map[string][2]time.Time{
			"the wrong order":      {now.AddDate(0, 1, 0), now},
			"before the layout":    {now.AddDate(-2, 0, 0), now},
			"after the layout":     {now, now.AddDate(80, 0, 0)},
			"as many as can be":    {now, now.AddDate(700, 0, 0)},
			"another time of zero": {time.Time{}, now},
		} {
			_, err := partition.ByMonth(db, &partitioned{}, months[0], months[1])
			wantErr(t, err, snowflakeplugin.ErrSharding, what)
		}
		_, err = partition.AddMonth(db, &partitioned{}, now.AddDate(-2, 0, 0))
		wantErr(t, err, snowflakeplugin.ErrSharding, "a month before the layout")
		says(t, err, "no ID of layout default is made in July 2024")
		_, err = partition.ByMonth(db, &partitionedUniquely{}, now, now)
		wantErr(t, err, snowflakeplugin.ErrSharding, "another unique key")
	})
}
