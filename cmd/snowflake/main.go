// Command snowflake inspects IDs, time ranges and layouts, manages the node leases and the counters in a
// database, shows the shards of a router and resumes or undoes a resharding, and merges the databases of
// several game servers into one.
//
//	go run github.com/snowflakeplugin/snowflakeplugin/cmd/snowflake help
//
// # Exit codes
//
//	0  The command did what was asked.
//	1  The command failed: a database did not answer, a value does not fit the layout, a sealed text does
//	   not open, or "merge verify" found a difference.
//	2  Usage error: a command, a flag or an argument is missing or cannot be understood. Nothing was done.
//	3  The command refused, because a live process could be hurt, because numbers could repeat, because a
//	   file would be overwritten, or because the plan of a merge leaves something undecided. Nothing was
//	   changed.
//	4  Only "merge check": there are conflicts, and the plan resolves all of them.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal kills the process, in case a database hangs.
	code := execute(ctx, os.Args[1:], &env{
		out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
	})
	stop()
	os.Exit(code)
}

// env is everything that a command uses of the process, so that tests can replace it.
type env struct {
	out, err io.Writer
	getenv   func(string) string
}
