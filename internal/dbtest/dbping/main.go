// Command dbping tells whether a database server answers the tests:
//
//	dbping [-wait 30s] postgres|mariadb
//
// It looks for the server exactly as the tests do, environment included, and says on standard
// error what it found. The exit status is 0 if the server lets the tests in, 3 if nothing answers
// within the wait, 4 if it answers but refuses every login, and 2 for a mistake in the call or in
// the environment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

const (
	exitUsage   = 2
	exitAbsent  = 3
	exitRefused = 4
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) }

func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("dbping", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wait := flags.Duration("wait", 0, "how long to wait for a server that does not answer yet")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: dbping [-wait 30s] postgres|mariadb")
		return exitUsage
	}
	name := flags.Arg(0)
	version, err := ping(ctx, name, *wait)
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "%s answers: %s\n", name, version)
		return 0
	case errors.Is(err, dbtest.ErrAbsent):
		fmt.Fprintln(stderr, err)
		return exitAbsent
	case errors.Is(err, dbtest.ErrRefused):
		fmt.Fprintln(stderr, err)
		return exitRefused
	}
	fmt.Fprintln(stderr, err)
	return exitUsage
}

// ping repeats until the server answers or the wait is over. A refusal is final: waiting does not
// turn a login away from the door into a welcome one.
func ping(ctx context.Context, name string, wait time.Duration) (string, error) {
	const (
		pause = 250 * time.Millisecond
		limit = 3 * time.Second // for one try, where packets vanish instead of being refused
	)
	deadline := time.Now().Add(wait)
	for {
		try, cancel := context.WithTimeout(ctx, limit)
		version, err := dbtest.Ping(try, name)
		cancel()
		if !errors.Is(err, dbtest.ErrAbsent) || time.Now().Add(pause).After(deadline) {
			return version, err
		}
		time.Sleep(pause)
	}
}
