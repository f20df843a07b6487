package dialect

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
)

// EachRow calls read at every row, and closes them. It takes what a query has returned.
func EachRow(rows *sql.Rows, err error, read func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = read(rows)
	}
	return errors.Join(cmp.Or(err, rows.Err()), rows.Close())
}

// Query reads all rows of a statement, each as a slice with the values of the driver or of another type, and
// the names of their columns if there is a row.
func Query[R ~[]V, V any](
	ctx context.Context, q interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}, statement string, args ...any,
) (names []string, all []R, err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
	err = EachRow(rows, err, func(rows *sql.Rows) (err error) {
		if names, err = rows.Columns(); err != nil {
			return err
		}
		row, dest := make(R, len(names)), make([]any, len(names))
		for i := range row {
			dest[i] = &row[i]
		}
		all = append(all, row)
		return rows.Scan(dest...)
	})
	if err != nil {
		return nil, nil, err
	}
	return names, all, nil
}
