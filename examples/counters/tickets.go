package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

const (
	// pace is the time between two numbers.
	pace = 10 * time.Millisecond
	// someTickets are taken while both databases answer, and while one does not.
	someTickets = 20
	// ticketBlock is how many numbers a claim reserves, and lastTickets how many of a database that stops
	// may still come: two blocks, and one of a claim that was under way.
	ticketBlock = 5
	lastTickets = 3 * ticketBlock
	// patience limits the wait for a database that answers, and for the one that comes back.
	patience = 30 * time.Second
)

// tickets are two ticket databases. The first gives the even numbers, the second the odd ones.
type tickets struct {
	dbs    [2]*gorm.DB
	source *segment.Source
	opened
}

func newTickets(ctx context.Context, dir string) (t *tickets, err error) {
	t = &tickets{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	var sources [2]*segment.Source
	for i := range t.dbs {
		if t.dbs[i], err = openDB(ctx, dir, []string{"even.db", "odd.db"}[i]); err != nil {
			return t, err
		}
		t.opened = append(t.opened, func() error { return closeDB(t.dbs[i]) })
		store, err := gormsegment.New(t.dbs[i])
		if err != nil {
			return t, err
		}
		t.opened = append(t.opened, store.Close)
		sources[i], err = segment.New(store, "ticket",
			segment.WithResidue(int64(i), 2), segment.WithBlock(ticketBlock, ticketBlock),
			segment.WithMaxWait(patience), segment.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return t, err
		}
		t.opened = append(t.opened, sources[i].Close)
	}
	t.source, err = segment.Tickets(sources[0], sources[1])
	return t, err
}

func (t *tickets) take(ctx context.Context, count int) ([]int64, error) {
	numbers := make([]int64, 0, count)
	for range count {
		n, err := t.source.Next(ctx)
		if err != nil {
			return numbers, err
		}
		numbers = append(numbers, n)
		time.Sleep(pace)
	}
	return numbers, nil
}

// takeUntilEven takes numbers until the first database gives one again.
func (t *tickets) takeUntilEven(ctx context.Context) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		errors.New("the database that came back gives no numbers"))
	defer cancel()
	var numbers []int64
	for {
		next, err := t.take(ctx, 1)
		if err != nil {
			return numbers, fmt.Errorf("after %d numbers: %w", len(numbers), err)
		}
		if numbers = append(numbers, next...); next[0]%2 == 0 {
			return numbers, nil
		}
	}
}
