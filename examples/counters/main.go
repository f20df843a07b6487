// Command counters shows numbers that are taken from counters, beside IDs that are taken from a clock:
//
//	go run ./examples/counters
//
// Two processes write invoices, whose numbers have the date in them and no gaps, and orders, which have a
// short number beside their ID. Then two ticket databases give numbers in turn, and one of them stops
// answering for a while.
//
// The file models.go has the tables, process.go what a program of yours would have of this, tickets.go the
// ticket databases, story.go what happens, and databases.go the SQLite files in which it happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "counters:", err)
		os.Exit(1)
	}
}

// run runs the story in a directory of its own, and leaves nothing behind.
func run(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "counters")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return tell(ctx, w, dir)
}
