// Command pgx shows IDs without GORM: a generator, and pgx in its own protocol. It works on any
// PostgreSQL, in temporary tables that vanish with its connection:
//
//	go run ./examples/pgx [DSN]
//
// Without an argument it takes the DSN from SNOWFLAKE_POSTGRES_DSN, and without that it tries the
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

// start is the program: it returns the exit code.
func start(ctx context.Context, args []string, env string, stdout, stderr io.Writer) int {
	conn, err := connect(ctx, args, env)
	if err != nil {
		fmt.Fprintf(stderr, "pgx: %v\n\n%s", err, remedy)
		return 1
	}
	defer func() { _ = conn.Close(ctx) }() // the work is done, or its error is what matters
	if err := run(ctx, stdout, conn); err != nil {
		fmt.Fprintln(stderr, "pgx:", err)
		return 1
	}
	return 0
}
