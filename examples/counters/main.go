// Command counters shows numbers that are taken from counters, beside IDs that are taken from a clock:
//
//	go run ./examples/counters                                     # in SQLite files of its own
//	go run ./examples/counters -postgres postgres://user@host/db   # in an empty database of a server
//	go run ./examples/counters -mysql 'user@tcp(host)/db'          # of MySQL or MariaDB, likewise
//
// Two processes write invoices, whose numbers have the date in them and no gaps, and orders, which have a
// short number beside their ID. Then two ticket databases give numbers in turn, and one of them stops
// answering for a while.
//
// The file models.go has the tables, process.go what a program of yours would have of this, tickets.go the
// ticket databases, story.go what happens, and databases.go where it happens.
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
	postgres := flag.String("postgres", "", "the `DSN` of an empty database of PostgreSQL")
	mysql := flag.String("mysql", "", "the `DSN` of an empty database of MySQL or MariaDB")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // to drop the tables then, too
	err := run(ctx, os.Stdout, *postgres, *mysql)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "counters:", err)
		os.Exit(1)
	}
}

// run chooses the databases, runs the story on them, and leaves nothing behind.
func run(ctx context.Context, w io.Writer, postgres, mysql string) (err error) {
	if postgres != "" && mysql != "" {
		return errors.New("give one DSN, not two")
	}
	var place databases
	switch {
	case postgres != "":
		place = onPostgres(postgres)
	case mysql != "":
		place = onMySQL(mysql)
	default:
		dir, err := os.MkdirTemp("", "counters")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		return tell(ctx, w, onSQLite(dir))
	}
	if err := place.empty(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.clean(context.WithoutCancel(ctx))) }()
	return tell(ctx, w, place)
}
