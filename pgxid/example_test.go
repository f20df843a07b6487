package pgxid_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/pgxid"
)

func ExampleRegister() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxid.Register(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	ids := []snowflakeplugin.ID{1541815603606036480, 1541815603606036481}
	rows, err := pool.Query(ctx, "SELECT id FROM orders WHERE id = ANY($1)", ids)
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[snowflakeplugin.ID])
	fmt.Println(found, err)
}
