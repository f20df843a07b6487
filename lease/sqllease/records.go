package sqllease

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	remedyOfTwins = "the table lacks its primary key; delete the row with the earlier until, and add the key"
	remedyByHand  = "somebody changed it by hand; put it right while no process uses the node, with an " +
		"until that is after the last ID of the node"
)

// argsOf returns the columns of a record, or an error if they would not come back as they are.
func argsOf(r lease.Record) ([]any, error) {
	for column, text := range map[int]string{columnOwner: r.Owner, columnLayout: r.Layout} {
		if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("%w of node %d: the %s %.40q is not up to %d bytes of UTF-8",
				lease.ErrInvalidRecord, r.Node, names()[column], text, maxText)
		}
	}
	var times [columnCount]string
	for column, t := range map[int]time.Time{columnUntil: r.Until, columnUpdatedAt: r.UpdatedAt} {
		t = t.UTC()
		if t.Year() < 0 || t.Year() > 9999 {
			return nil, fmt.Errorf("%w of node %d: %s is in the year %d", lease.ErrInvalidRecord,
				r.Node, names()[column], t.Year())
		}
		times[column] = t.Format(sqlconn.TimeForm)
	}
	return []any{r.Node, r.Owner, times[columnUntil], r.Version, r.Layout, times[columnUpdatedAt]}, nil
}

// records reads the rows of the table.
func records(rows [][]any) ([]lease.Record, error) {
	all := make([]lease.Record, 0, len(rows))
	seen := make(map[int64]bool, len(rows))
	for _, row := range rows {
		r, err := record(row)
		if err != nil {
			return nil, err
		}
		if seen[r.Node] {
			return nil, fmt.Errorf("%w of node %d: there are several rows of it: %s", lease.ErrInvalidRecord,
				r.Node, remedyOfTwins)
		}
		seen[r.Node] = true
		all = append(all, r)
	}
	return all, nil
}

// record reads one row.
func record(row []any) (r lease.Record, err error) {
	var ok bool
	if r.Node, ok = sqlconn.Integer(row[columnNode]); !ok {
		return r, fmt.Errorf("%w in column node: %s is no number: %s", lease.ErrInvalidRecord,
			sqlconn.Shown(row[columnNode]), remedyByHand)
	}
	fault := func(column int, wanted string) error {
		return fmt.Errorf("%w of node %d in column %s: %s is no %s: %s", lease.ErrInvalidRecord, r.Node,
			names()[column], sqlconn.Shown(row[column]), wanted, remedyByHand)
	}
	if r.Owner, ok = sqlconn.Text(row[columnOwner]); !ok {
		return r, fault(columnOwner, "text")
	}
	if r.Until, ok = sqlconn.Instant(row[columnUntil]); !ok {
		return r, fault(columnUntil, "time like "+sqlconn.TimeForm)
	}
	if r.Version, ok = sqlconn.Integer(row[columnVersion]); !ok {
		return r, fault(columnVersion, "number")
	}
	if r.Layout, ok = sqlconn.Text(row[columnLayout]); !ok {
		return r, fault(columnLayout, "text")
	}
	if r.UpdatedAt, ok = sqlconn.Instant(row[columnUpdatedAt]); !ok {
		return r, fault(columnUpdatedAt, "time like "+sqlconn.TimeForm)
	}
	if err := r.Validate(); err != nil {
		return r, fmt.Errorf("%w: %s", err, remedyByHand)
	}
	return r, nil
}

// floorMicros is t in microseconds since 1970, or as much as the database understands.
func floorMicros(t time.Time) int64 {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return t.UnixMicro()
}

func ceilMicros(t time.Time) int64 {
	return floorMicros(t.Add(time.Microsecond - time.Nanosecond))
}
