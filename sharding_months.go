package snowflakeplugin

import (
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// laterPartition takes the rows of all months that have no partition yet: without it they would be
// refused.
const laterPartition = "_later"

// PartitionByMonthSQL returns the statements that divide a table into native partitions of its
// database, one for each month (UTC) from the first instant to the last, so that old months can be
// dropped at once. An ID has its time in it, so conditions on the key alone find the month. It runs none
// of them: read them first, since they copy the whole table and lock it meanwhile. db has to use the
// plugin.
//
// The partition of July 2026 is p2026_07 on MySQL and MariaDB, and the table orders_p2026_07 on
// PostgreSQL. Earlier rows are in the first partition. Those of months without a partition are in the
// last one, p_later; call [AddMonthSQL] before there are any. To drop a month is
//
//	ALTER TABLE orders DROP PARTITION p2026_07   -- MySQL and MariaDB
//	DROP TABLE orders_p2026_07                   -- PostgreSQL
//
// What [PartitionSQL] says of unique keys, of foreign keys and of the old table on PostgreSQL holds
// here too. It returns an error wrapping [ErrSharding] as that does, and for months that are in the
// wrong order, outside of the layout, or more than 8191.
func PartitionByMonthSQL(db *gorm.DB, model any, first, last time.Time) ([]string, error) {
	statements, err := partitionByMonthSQL(db, model, first, last)
	if err != nil {
		return nil, fmt.Errorf("%w: partitions of %T: %w", ErrSharding, model, err)
	}
	return statements, nil
}

func partitionByMonthSQL(db *gorm.DB, model any, first, last time.Time) ([]string, error) {
	t, err := partitionable(db, model)
	if err != nil {
		return nil, err
	}
	var months []partitionMonth
	for at := monthOf(first); !at.After(monthOf(last)); at = at.AddDate(0, 1, 0) {
		if len(months) == mostPartitions-1 {
			return nil, fmt.Errorf("more than %d months", mostPartitions-1)
		}
		month, err := t.month(at)
		if err != nil {
			return nil, err
		}
		months = append(months, month)
	}
	if len(months) == 0 {
		return nil, errors.New("the first month is after the last")
	}
	if t.mysql {
		ranges := ""
		for _, m := range months {
			ranges += m.mysql(t) + ", "
		}
		return []string{fmt.Sprintf("ALTER TABLE %s PARTITION BY RANGE (%s) (%s%s)", t.table, t.column, ranges,
			t.mysqlLater())}, nil
	}
	var parts []string
	for i, m := range months {
		from := fmt.Sprint(m.first)
		if i == 0 {
			from = "MINVALUE"
		}
		parts = append(parts, m.postgres(t, from))
	}
	parts = append(parts, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT",
		t.partition(laterPartition), t.table))
	return t.divided("RANGE", parts), nil
}

// AddMonthSQL returns the statement that adds the partition of a month (UTC) to a table that
// [PartitionByMonthSQL] has divided. The months have to be added in order. Do it while the month lies
// ahead: then nothing is copied. With rows of it in p_later, PostgreSQL refuses, and MySQL and
// MariaDB copy them.
//
// The errors are those of PartitionByMonthSQL.
func AddMonthSQL(db *gorm.DB, model any, month time.Time) (string, error) {
	t, err := partitionable(db, model)
	var m partitionMonth
	if err == nil {
		m, err = t.month(monthOf(month))
	}
	if err != nil {
		return "", fmt.Errorf("%w: partitions of %T: %w", ErrSharding, model, err)
	}
	if t.mysql {
		return fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s, %s)", t.table,
			t.partition(laterPartition), m.mysql(t), t.mysqlLater()), nil
	}
	return m.postgres(t, fmt.Sprint(m.first)), nil
}

// partitionMonth is a month with the IDs that were made in it: first, and so on up to before end.
type partitionMonth struct {
	name       string
	first, end int64
}

func (t partitionTable) month(at time.Time) (partitionMonth, error) {
	first, end, err := t.layout.Range(at, at.AddDate(0, 1, 0))
	if err == nil && first == end {
		err = fmt.Errorf("no ID of layout %s is made in %s", t.layout.Name, at.Format("January 2006"))
	}
	return partitionMonth{at.Format("2006_01"), first, end}, err
}

func (m partitionMonth) mysql(t partitionTable) string {
	return fmt.Sprintf("PARTITION %s VALUES LESS THAN (%d)", t.partition(m.name), m.end)
}

func (m partitionMonth) postgres(t partitionTable, from string) string {
	return fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%s) TO (%d)", t.partition(m.name),
		t.table, from, m.end)
}

func (t partitionTable) mysqlLater() string {
	return fmt.Sprintf("PARTITION %s VALUES LESS THAN MAXVALUE", t.partition(laterPartition))
}

// monthOf is the first instant of the month.
func monthOf(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}
