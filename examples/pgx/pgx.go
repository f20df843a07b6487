package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

const rows = 1000

// An ID is a bigint. Temporary tables belong to the connection and disappear with it.
const tables = `
	CREATE TEMPORARY TABLE orders (
		id    bigint PRIMARY KEY,
		total bigint NOT NULL
	);
	CREATE TEMPORARY TABLE items (
		id       bigint PRIMARY KEY,
		order_id bigint NOT NULL REFERENCES orders,
		name     text NOT NULL
	)`

// order is a row. pgx sets its fields by their names.
type order struct {
	ID    snowflakeplugin.ID
	Total int64
}

func run(ctx context.Context, w io.Writer, conn *pgx.Conn) error {
	// The caller must make sure that no other running process uses the number 1.
	ids, err := generator.New(generator.Default(), generator.FixedNode(1))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, tables); err != nil {
		return err
	}
	copied, err := copyOrders(ctx, w, conn, ids)
	if err != nil {
		return err
	}
	some := []snowflakeplugin.ID{copied[0], copied[rows/2], copied[rows-1]}
	if err := findAny(ctx, w, conn, some); err != nil {
		return err
	}
	if err := sendBatch(ctx, w, conn, ids); err != nil {
		return err
	}
	return simpleProtocol(ctx, w, conn, some)
}

// copyOrders stores a thousand rows with COPY. One call generates all their IDs.
func copyOrders(
	ctx context.Context, w io.Writer, conn *pgx.Conn, ids *generator.Generator,
) ([]snowflakeplugin.ID, error) {
	numbers := make([]int64, rows)
	began := time.Now()
	if err := ids.Fill(ctx, numbers); err != nil {
		return nil, err
	}
	made := time.Since(began)
	copied := make([]snowflakeplugin.ID, rows)
	for i, number := range numbers {
		copied[i] = snowflakeplugin.ID(number)
	}
	source := pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
		return []any{copied[i], i}, nil
	})
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "total"}, source)
	if err != nil {
		return nil, err
	}
	made = made.Round(time.Microsecond)
	fmt.Fprintf(w, "COPY            %d rows; one call made their IDs in %v\n", count, made)
	fmt.Fprintf(w, "                %d to %d\n", copied[0], copied[rows-1])
	return copied, nil
}

// findAny passes a slice of IDs as one parameter.
func findAny(ctx context.Context, w io.Writer, conn *pgx.Conn, some []snowflakeplugin.ID) error {
	result, err := conn.Query(ctx, `SELECT id, total FROM orders WHERE id = ANY($1) ORDER BY id`, some)
	if err != nil {
		return err
	}
	orders, err := pgx.CollectRows(result, pgx.RowToStructByName[order])
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "= ANY($1)       %d of %d IDs found\n", len(orders), len(some))
	for _, o := range orders {
		fmt.Fprintf(w, "                %d  total %3d\n", o.ID, o.Total)
	}
	return nil
}

// sendBatch stores an order and its items in one round trip. With a key that the database
// generates, this would be impossible, because the items need the key of the order first.
func sendBatch(ctx context.Context, w io.Writer, conn *pgx.Conn, ids *generator.Generator) error {
	names := []string{"book", "pen", "ink"}
	numbers := make([]int64, 1+len(names))
	if err := ids.Fill(ctx, numbers); err != nil {
		return err
	}
	orderID := snowflakeplugin.ID(numbers[0])

	var batch pgx.Batch
	batch.Queue(`INSERT INTO orders (id, total) VALUES ($1, $2)`, orderID, 990)
	for i, name := range names {
		batch.Queue(`INSERT INTO items (id, order_id, name) VALUES ($1, $2, $3)`,
			snowflakeplugin.ID(numbers[i+1]), orderID, name)
	}
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	var items int
	err := conn.QueryRow(ctx, `SELECT count(*) FROM items WHERE order_id = $1`, orderID).Scan(&items)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Batch           order %d and its %d items in one round trip\n", orderID, items)
	return nil
}

// simpleProtocol runs the query of findAny in the mode that some poolers need. In that mode pgx
// does not get types from the server and uses the types that pgxid.Register has added.
func simpleProtocol(ctx context.Context, w io.Writer, conn *pgx.Conn, some []snowflakeplugin.ID) error {
	var found int
	err := conn.QueryRow(ctx, `SELECT count(*) FROM orders WHERE id = ANY($1)`,
		pgx.QueryExecModeSimpleProtocol, some).Scan(&found)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "simple protocol %d of %d IDs found, after pgxid.Register\n", found, len(some))
	return nil
}
