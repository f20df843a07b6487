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

// Beginner is a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Transact does something in a transaction, and commits that unless there is an error.
func Transact(ctx context.Context, b Beginner, opts *sql.TxOptions, do func(tx *sql.Tx) error) error {
	tx, err := b.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Query reads all rows of a statement, each as a slice with the values of the driver or of another type, and
// the names of their columns if there is a row.
func Query[R ~[]V, V any](
	ctx context.Context, q Querier, statement string, args ...any,
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

// Texts reads all rows of a statement as texts. NULL is the empty one.
func Texts(ctx context.Context, q Querier, statement string, args ...any) (all [][]string, err error) {
	_, rows, err := Query[[]sql.NullString](ctx, q, statement, args...)
	for _, row := range rows {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = cell.String
		}
		all = append(all, line)
	}
	return all, err
}

// Ask asks the catalog about a table. In the query for PostgreSQL, $1 is the quoted name. In the others, the
// first placeholder is the name, for MySQL a second one is the schema, and for SQLite main is the schema.
func (k Kind) Ask(ctx context.Context, q Querier, table, query string) ([][]string, error) {
	query, args := k.about(table, query)
	if k == MySQL {
		query += " LIMIT 18446744073709551615" // whatever sql_select_limit says
	}
	return Texts(ctx, q, query, args...)
}

// HasTable reports whether a table is there, whose name may have a schema. Without one it has to be in that
// of the connection, where a table would be made, and not in another one of the search path. GORM's own look
// answers no on MySQL if the name has a schema, and everywhere if it cannot ask.
func (k Kind) HasTable(ctx context.Context, q Querier, table string) (bool, error) {
	rows, err := k.Ask(ctx, q, table, map[Kind]string{
		PostgreSQL: "SELECT relname FROM pg_class WHERE oid = " + regclass(table),
		MySQL: "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" +
			InSchema,
		SQLite: "SELECT name FROM `main`.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
	}[k])
	return len(rows) > 0, err
}

// Indexes returns the names of the indexes of a table, which is found as by HasTable.
func (k Kind) Indexes(ctx context.Context, q Querier, table string) (names []string, err error) {
	rows, err := k.Ask(ctx, q, table, map[Kind]string{
		PostgreSQL: "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = " +
			regclass(table),
		MySQL: "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_NAME = ? AND " +
			"TABLE_SCHEMA" + InSchema,
		SQLite: "SELECT name FROM `main`.sqlite_master WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE",
	}[k])
	for _, row := range rows {
		names = append(names, row[0])
	}
	return names, err
}

// regclass is the expression of PostgreSQL for the table whose quoted name is the first argument.
func regclass(table string) string {
	if schema, _ := Split(table); schema != "" {
		return "to_regclass($1)"
	}
	return "to_regclass(quote_ident(current_schema()) || '.' || $1)"
}
