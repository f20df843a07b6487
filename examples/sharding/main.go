// Command sharding spreads a shop over sixteen shards in two SQLite files, asks it the usual
// questions, and doubles the shards while somebody reads:
//
//	go run ./examples/sharding
//	go run ./examples/sharding -postgres postgres://user@host/database    # a third database
//
// What lies beside what is said in models.go; shop.go opens the databases and makes the router. The
// chapters are in questions.go, transactions.go and doubling.go, and checks.go looks at everything
// once more.
//
// In PostgreSQL it makes tables whose names begin with sharding_example_, and drops them at the end.
// If there are such tables already it does nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	postgres := flag.String("postgres", "", "the `DSN` of a PostgreSQL database to use as well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // to drop the tables then, too
	err := run(ctx, os.Stdout, *postgres)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sharding:", err)
		os.Exit(1)
	}
}

// run does all in a directory of its own, which it removes.
func run(ctx context.Context, w io.Writer, postgres string) (err error) {
	dir, err := os.MkdirTemp("", "sharding")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(ctx, w, dir, postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	return s.tell(ctx)
}

// tell tells the story.
func (s *shop) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.fill, s.spread, s.pages, s.customer, s.transactions, s.doubling, s.checks,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}
