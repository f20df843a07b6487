package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// openDB opens a file of SQLite. With the write-ahead log, readers do not wait for writers.
func openDB(ctx context.Context, dir, name string) (*gorm.DB, error) {
	file := filepath.Join(dir, name) + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate"
	db, err := gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, fmt.Errorf("open SQLite, which needs cgo and a C compiler: %w", err)
	}
	return db.WithContext(ctx), nil
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// opened has what ends the things that were opened, in their order.
type opened []func() error

// close ends everything, beginning with what was opened last.
func (o opened) close() error {
	var errs []error
	for _, end := range slices.Backward(o) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// stop makes a database silent, as one is that is stopped or cut off. The function that it returns makes it
// answer again.
func stop(ctx context.Context, db *gorm.DB) (start func() error, err error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, conn.Close())
	}, nil
}
