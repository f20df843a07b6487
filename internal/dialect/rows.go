package dialect

import (
	"cmp"
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
