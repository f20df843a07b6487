// Command gameservers fills the databases of two game servers and joins them by plain SQL:
//
//	go run ./examples/gameservers
//
// With keys that count up from 1 on every server, that would need new keys for one of them, and
// new values wherever another row refers to one. Here the number of the server is part of every
// key, so no two rows of any two servers share one.
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
		fmt.Fprintln(os.Stderr, "gameservers:", err)
		os.Exit(1)
	}
}

// run does all in a directory of its own, which it removes.
func run(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "gameservers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	result, err := play(ctx, dir, [2]int64{1, 2})
	if err != nil {
		return err
	}
	result.print(w)
	return nil
}
