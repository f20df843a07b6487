package merge_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// item is a row of the table of itemsTable.
type item struct {
	id, player   int64
	kind, amount int32
	props        string
	made         int64
}

const itemColumns = "id, player_id, kind, amount, props, made"

// byHand copies that table into a target by the best statements of reference for the pair of databases,
// written for this one table, without a journal or anything else. It returns how long it took.
func byHand(b *testing.B, from, to base) time.Duration {
	b.Helper()
	pool, err := to.DB.DB()
	if err != nil {
		b.Fatal(err)
	}
	// The driver of SQLite starts a goroutine for each row if its context can end. Who writes it by hand for
	// the speed gives it one that cannot.
	ctx := context.Background()
	conn, err := pool.Conn(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	switch {
	case from.target.Name == to.target.Name && to.target.Dialect != "postgres":
		err = insertSelect(ctx, conn, from, to)
	default:
		var items *items
		if items, err = readItems(ctx, from); err != nil {
			break
		}
		if to.target.Dialect == "postgres" {
			err = copyItems(ctx, conn, items)
		} else {
			err = insertItems(ctx, conn, items, map[string]int{"sqlite": 100, "mysql": 1000}[to.target.Dialect])
		}
		items.close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// insertSelect has the target read the source itself.
func insertSelect(ctx context.Context, conn *sql.Conn, from, to base) error {
	statements := []string{"", "", ""}
	if to.target.Dialect == "sqlite" {
		statements[0] = "ATTACH '" + from.dsn[:strings.IndexAny(from.dsn+"?", "?")] + "' AS src"
		statements[1] = "INSERT INTO items (" + itemColumns + ") SELECT " + itemColumns + " FROM src.items ORDER BY id"
		statements[2] = "DETACH src"
	} else {
		config, err := mysql.ParseDSN(from.dsn)
		if err != nil {
			return err
		}
		statements[1] = "INSERT INTO items (" + itemColumns + ") SELECT " + itemColumns + " FROM " + config.DBName +
			".items ORDER BY id"
	}
	for _, s := range statements {
		if s == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// items are the rows of a source, one after the other.
type items struct {
	row  item
	scan func(into ...any) error
	next func() bool
	err  func() error
	// close ends the reading.
	close func()
}

// readItems asks for all rows of a source.
func readItems(ctx context.Context, from base) (*items, error) {
	const query = "SELECT " + itemColumns + " FROM items ORDER BY id"
	if from.target.Dialect == "postgres" {
		conn, err := pgx.Connect(ctx, from.dsn)
		if err != nil {
			return nil, err
		}
		rows, err := conn.Query(ctx, query) //nolint:sqlclosecheck // it ends with its connection
		if err != nil {
			return nil, err
		}
		return &items{scan: rows.Scan, next: rows.Next, err: rows.Err, close: func() { conn.Close(ctx) }}, nil
	}
	pool, err := from.DB.DB()
	if err != nil {
		return nil, err
	}
	rows, err := pool.QueryContext(ctx, query) //nolint:rowserrcheck // items has it
	if err != nil {
		return nil, err
	}
	return &items{scan: rows.Scan, next: rows.Next, err: rows.Err, close: func() { rows.Close() }}, nil
}

// Next reads the next row.
func (i *items) Next() bool { return i.next() }

// Values are those of the row, as CopyFrom takes them.
func (i *items) Values() ([]any, error) {
	r := &i.row
	err := i.scan(&r.id, &r.player, &r.kind, &r.amount, &r.props, &r.made)
	return []any{r.id, r.player, r.kind, r.amount, r.props, r.made}, err
}

// Err is what ended the reading.
func (i *items) Err() error { return i.err() }

// copyItems takes rows to PostgreSQL.
func copyItems(ctx context.Context, conn *sql.Conn, from *items) error {
	return conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{"items"},
			strings.Split(itemColumns, ", "), from)
		return err
	})
}

// insertItems takes rows to the others, so many with one statement, in one transaction.
func insertItems(ctx context.Context, conn *sql.Conn, from *items, size int) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // there is nothing left of it if all went well
	text := func(n int) string {
		return "INSERT INTO items (" + itemColumns + ") VALUES " + strings.Repeat("(?, ?, ?, ?, ?, ?), ", n-1) +
			"(?, ?, ?, ?, ?, ?)"
	}
	full, err := tx.PrepareContext(ctx, text(size))
	if err != nil {
		return err
	}
	defer full.Close()
	args := make([]any, 0, size*6)
	for from.Next() {
		values, err := from.Values()
		if err != nil {
			return err
		}
		if args = append(args, values...); len(args) == cap(args) {
			if _, err := full.ExecContext(ctx, args...); err != nil {
				return err
			}
			args = args[:0]
		}
	}
	if err := from.Err(); err != nil {
		return err
	}
	if len(args) > 0 {
		if _, err := tx.ExecContext(ctx, text(len(args)/6), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
