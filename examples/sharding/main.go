// Command sharding spreads a shop over sixteen shards in two SQLite files, runs typical queries,
// and doubles the number of shards during reads:
//
//	go run ./examples/sharding
//	go run ./examples/sharding -postgres postgres://user@host/database    # a third database
//
// The file models.go defines which rows are colocated. The file shop.go opens the databases and
// creates the router. The chapters are in questions.go, transactions.go and resharding.go. At the
// end, checks.go checks all rows.
//
// In PostgreSQL the command creates tables whose names begin with sharding_example_ and drops them
// at the end. If such tables exist already, it returns an error and changes nothing.
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

// run runs everything in its own directory and removes the directory afterwards.
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

// tell runs the chapters in order.
func (s *shop) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.fill, s.spread, s.pages, s.customer, s.transactions, s.resharding, s.checks,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}
