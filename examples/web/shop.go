package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/opaque"
)

const (
	// importNode makes the IDs of old orders. No process leases it.
	importNode = 0

	oldOrders       = 90 // of the day before yesterday and earlier
	yesterdayOrders = 40
	todayOrders     = 20
)

// Order is the only table. When it was made is in its key.
type Order struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Customer string
	Total    int64 // in cents
}

// shop is the state of the program.
type shop struct {
	db     *gorm.DB
	plugin *snowflakeplugin.Plugin
	codec  *opaque.Codec
	now    func() time.Time // by which yesterday is yesterday
}

func openShop(ctx context.Context, dir string) (s *shop, err error) {
	s = &shop{now: time.Now}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	// A program that runs on reads its key from where it keeps secrets, or old addresses end with it.
	key := make([]byte, opaque.KeySize)
	_, _ = rand.Read(key) // which never fails
	if s.codec, err = opaque.NewCodec([][]byte{key}, opaque.WithOnlyKeyedTags()); err != nil {
		return s, err
	}
	file := filepath.Join(dir, "shop.db") + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate"
	if s.db, err = gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard}); err != nil {
		return s, fmt.Errorf("open SQLite, which needs cgo and a C compiler: %w", err)
	}
	s.plugin = snowflakeplugin.New(
		snowflakeplugin.WithLease(nil, lease.WithNodes(importNode+1, generator.Default().MaxNode())),
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)),
	)
	db := s.db.WithContext(ctx)
	return s, errors.Join(db.Use(s.plugin), db.AutoMigrate(&Order{}))
}

func (s *shop) close(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	var errs []error
	if s.plugin != nil {
		errs = append(errs, s.plugin.Close(ctx))
	}
	pool, err := s.db.DB()
	if err == nil {
		err = pool.Close()
	}
	return errors.Join(append(errs, err)...)
}

// midnight is when a day began.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// fill creates orders of the last days, whose IDs are made for their times, and of today.
func (s *shop) fill(ctx context.Context) error {
	now := s.now()
	past, err := generator.Backfill(s.plugin.Layout(), importNode)
	if err != nil {
		return err
	}
	orders := make([]Order, oldOrders+yesterdayOrders, oldOrders+yesterdayOrders+todayOrders)
	for i := range orders {
		made := midnight(now).AddDate(0, 0, -2).Add(-time.Duration(i) * time.Hour)
		if i >= oldOrders { // the first of them is of the very first moment of yesterday
			made = midnight(now).AddDate(0, 0, -1).Add(time.Duration(i-oldOrders) * time.Minute)
		}
		id, err := past.At(made)
		if err != nil {
			return err
		}
		orders[i].ID = snowflakeplugin.ID(id)
	}
	orders = orders[:cap(orders)] // those of today get their IDs from the plugin
	for i := range orders {
		orders[i].Customer, orders[i].Total = fmt.Sprint("customer ", i%7), int64(i+1)*100
	}
	return s.db.WithContext(ctx).Create(&orders).Error
}

// page returns the newest orders below a cursor, and the cursor of the next page, which is 0 after the last
// one. It reads the primary key alone. An order that is added meanwhile moves no other to another page.
func (s *shop) page(
	ctx context.Context, since, below snowflakeplugin.ID, limit int,
) (orders []Order, next snowflakeplugin.ID, err error) {
	query := s.db.WithContext(ctx).Order("id DESC").Limit(limit + 1)
	if !since.IsZero() {
		query = query.Where("id >= ?", since)
	}
	if !below.IsZero() {
		query = query.Where("id < ?", below)
	}
	if err := query.Find(&orders).Error; err != nil {
		return nil, 0, err
	}
	if len(orders) > limit {
		orders = orders[:limit]
		next = orders[limit-1].ID
	}
	return orders, next, nil
}

// sinceYesterday returns the least ID of yesterday.
func (s *shop) sinceYesterday() (snowflakeplugin.ID, error) {
	now := s.now()
	least, _, err := s.plugin.Range(midnight(now).AddDate(0, 0, -1), now)
	return least, err
}
