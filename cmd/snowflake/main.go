// Command snowflake looks at IDs, times and layouts, and at the node leases in a database, and makes
// one game server of several.
//
//	go run github.com/snowflakeplugin/snowflakeplugin/cmd/snowflake help
//
// Its exit codes are 0 for success, 1 for a failure, 2 for a mistake in how it was called, and 3
// for something that it refuses to do because a live process could be hurt, or because something is
// undecided; those of "snowflake merge check" are in its help.
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
	context.AfterFunc(ctx, stop) // a second signal ends it at once, should a database hang
	code := execute(ctx, os.Args[1:], &env{
		out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
	})
	stop()
	os.Exit(code)
}

// env is what a command has of the world.
type env struct {
	out, err io.Writer
	getenv   func(string) string
}
