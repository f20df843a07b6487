// Command dbping tells whether a database server answers the tests:
//
//	dbping [-wait 30s] postgres|mariadb|mysql|tidb
//
// It looks for the server in the same way as the tests, including the environment variables, and
// writes what it found to standard error. The exit status is 0 if the server accepts a login of the
// tests, 3 if no server answers within the wait, 4 if a server answers but refuses every login, and
// 2 for a usage error or an invalid environment variable.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
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
		fmt.Fprintln(stderr, "usage: dbping [-wait 30s] postgres|mariadb|mysql|tidb")
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

// ping retries until the server answers or the wait is over. A refused login ends it at once,
// because waiting does not change a refusal.
func ping(ctx context.Context, name string, wait time.Duration) (string, error) {
	const (
		pause = 250 * time.Millisecond
		limit = 3 * time.Second // for one attempt, if packets are dropped silently
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
