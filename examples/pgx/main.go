// Command pgx shows how to use IDs without GORM: a generator, and pgx with its own protocol. It
// works on any PostgreSQL server and uses only temporary tables, which disappear with its
// connection:
//
//	go run ./examples/pgx [DSN]
//
// Without an argument it uses the DSN in SNOWFLAKE_POSTGRES_DSN. Without that variable it tries the
// server on this machine.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(start(context.Background(), os.Args[1:], os.Getenv(variable), os.Stdout, os.Stderr))
}

func start(ctx context.Context, args []string, env string, stdout, stderr io.Writer) int {
	conn, err := connect(ctx, args, env)
	if err != nil {
		fmt.Fprintf(stderr, "pgx: %v\n\n%s", err, remedy)
		return 1
	}
	defer func() { _ = conn.Close(ctx) }() // an error of Close does not matter here
	if err := run(ctx, stdout, conn); err != nil {
		fmt.Fprintln(stderr, "pgx:", err)
		return 1
	}
	return 0
}
