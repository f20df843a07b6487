package partition

import (
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// laterPartition takes the rows of months that have no partition yet. Without it they would be refused.
const laterPartition = "_later"

// ByMonth returns the statements that divide a table into one partition for each month (UTC), from the month
// of first to the month of last, so that whole months can be dropped at once. The time is part of an ID, so
// a condition on the key is enough to find the month. Read the statements before you run them: they copy
// the whole table and lock it meanwhile. db must use the plugin.
//
// The partition of July 2026 is p2026_07 on MySQL and MariaDB, and the table orders_p2026_07 on PostgreSQL.
// Rows from before the first month are in the first partition. Rows of months without a partition are in
// the last one, p_later; call [AddMonth] before there are any. To drop a month, run
//
//	ALTER TABLE orders DROP PARTITION p2026_07   -- MySQL and MariaDB
//	DROP TABLE orders_p2026_07                   -- PostgreSQL
//
// Unique keys, foreign keys and the old table on PostgreSQL are as for [ByShard]. So are the errors. In
// addition there is one for months in the wrong order, outside of the layout, or more than 8191 of them.
func ByMonth(db *gorm.DB, model any, first, last time.Time) (statements []string, err error) {
	defer complete(&err, model)
	t, err := partitionable(db, model)
	if err != nil {
		return nil, err
	}
	var months []partitionMonth
	for begin := monthOf(first); !begin.After(monthOf(last)); begin = begin.AddDate(0, 1, 0) {
		if len(months) == maxPartitions-1 {
			return nil, fmt.Errorf("more than %d months", maxPartitions-1)
		}
		month, err := t.month(begin)
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
		begin := fmt.Sprint(m.first)
		if i == 0 {
			begin = "MINVALUE"
		}
		parts = append(parts, m.postgres(t, begin))
	}
	parts = append(parts, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT",
		t.partition(laterPartition), t.table))
	return t.divided("RANGE", parts), nil
}

// AddMonth returns the statement that adds the partition of a month (UTC) to a table that [ByMonth] has
// divided. Add months in ascending order, and each before it begins: then nothing is copied. If p_later
// already has rows of the month, PostgreSQL refuses the statement, and MySQL and MariaDB copy the rows.
//
// The errors are those of ByMonth.
func AddMonth(db *gorm.DB, model any, month time.Time) (statement string, err error) {
	defer complete(&err, model)
	t, err := partitionable(db, model)
	if err != nil {
		return "", err
	}
	m, err := t.month(monthOf(month))
	if err != nil {
		return "", err
	}
	if t.mysql {
		return fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s, %s)", t.table,
			t.partition(laterPartition), m.mysql(t), t.mysqlLater()), nil
	}
	return m.postgres(t, fmt.Sprint(m.first)), nil
}

// partitionMonth is a month and the range of its IDs, from first to before end.
type partitionMonth struct {
	name       string
	first, end int64
}

// month computes the range of a month that begins at an instant.
func (t partitionTable) month(begin time.Time) (partitionMonth, error) {
	first, end, err := t.layout.Range(begin, begin.AddDate(0, 1, 0))
	if err == nil && first == end {
		err = fmt.Errorf("no ID of layout %s is made in %s", t.layout.Name, begin.Format("January 2006"))
	}
	return partitionMonth{begin.Format("2006_01"), first, end}, err
}

// mysql is the definition of the month's partition for MySQL and MariaDB.
func (m partitionMonth) mysql(t partitionTable) string {
	return fmt.Sprintf("PARTITION %s VALUES LESS THAN (%d)", t.partition(m.name), m.end)
}

// postgres is the statement that makes the month's partition on PostgreSQL.
func (m partitionMonth) postgres(t partitionTable, begin string) string {
	return fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%s) TO (%d)", t.partition(m.name),
		t.table, begin, m.end)
}

// mysqlLater is the definition of the last partition for MySQL and MariaDB.
func (t partitionTable) mysqlLater() string {
	return fmt.Sprintf("PARTITION %s VALUES LESS THAN MAXVALUE", t.partition(laterPartition))
}

// monthOf returns the first instant of the month.
func monthOf(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}
