// Command merge makes one game server of three:
//
//	go run ./examples/merge
//
// It fills three SQLite files with what game servers have, accounts, roles, guilds, items, mail and more,
// by generators with different server numbers, and merges them into a fourth by plan.yaml. The names of
// many roles and guilds are equal, settings and counters are on every server, one has lost a few roles
// whose items are still there, and the keys of the log of logins were counted from 1.
//
// servers.go makes the servers, merging.go is what a program of yours would have of this, and report.go
// prints what was seen. On databases of your own the command snowflake merge does the same;
// docs/merge.md is its runbook.
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
		fmt.Fprintln(os.Stderr, "merge:", err)
		os.Exit(1)
	}
}

// run does all in a directory of its own, which it removes.
func run(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "merge")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := play(ctx, dir)
	if err != nil {
		return err
	}
	s.print(w)
	return nil
}
