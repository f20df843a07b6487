package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

// process is what a program has. There may be any number of them on one database.
type process struct {
	opened
	db     *gorm.DB
	plugin *snowflakeplugin.Plugin
}

// newProcess opens a database with counters. The clock decides which day an invoice is of.
func newProcess(ctx context.Context, dir string, clock func() time.Time) (p *process, err error) {
	p = &process{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.db, err = openDB(ctx, dir, "main.db"); err != nil {
		return p, err
	}
	p.opened = append(p.opened, func() error { return closeDB(p.db) })
	store, err := gormsegment.New(p.db)
	if err != nil {
		return p, err
	}
	p.opened = append(p.opened, store.Close)

	invoices, err := segment.Daily(store, "invoice", 6, time.UTC, segment.WithClock(clock),
		segment.WithText(func(n int64) string { return fmt.Sprintf("SO-%d-%06d", n/1e6, n%1e6) }))
	if err != nil {
		return p, err
	}
	p.opened = append(p.opened, invoices.Close)
	orders, err := segment.New(store, "order", segment.WithBlock(100, 10_000))
	if err != nil {
		return p, err
	}
	p.opened = append(p.opened, orders.Close)

	p.plugin = snowflakeplugin.New(
		snowflakeplugin.WithNumbers("invoice", invoices),
		snowflakeplugin.WithNumbers("order", orders),
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err := p.db.Use(p.plugin); err != nil {
		return p, err
	}
	p.opened = append(p.opened, func() error { return p.plugin.Close(context.WithoutCancel(ctx)) })
	return p, nil
}
