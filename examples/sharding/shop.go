package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
)

const (
	shards    = 16
	customers = 500
	orders    = 10_000
	visits    = 2_000
	perBatch  = 1_000
)

// shop is the state of the program.
type shop struct {
	w      io.Writer
	plugin *snowflakeplugin.Plugin
	router *snowflakeplugin.Router
	dbs    []*gorm.DB
	names  []string // of the databases

	customers []Customer
	faults    []string // checks that failed
}

// open makes the databases and the router.
func open(ctx context.Context, w io.Writer, dir string) (s *shop, err error) {
	s = &shop{w: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	// This leaves room to double twice: rows keyed like a customer stay colocated for up to 64
	// shards.
	s.plugin = snowflakeplugin.New(snowflakeplugin.WithShards(64),
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	for _, name := range []string{"a.db", "b.db"} {
		// With the write-ahead log, readers do not wait for writers.
		file := filepath.Join(dir, name) + "?_journal_mode=WAL&_busy_timeout=10000"
		db, err := gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
		if err != nil {
			return s, fmt.Errorf("open %s: %w", name, err)
		}
		s.dbs, s.names = append(s.dbs, db), append(s.names, name)
		if err := db.Use(s.plugin); err != nil {
			return s, err
		}
	}
	return s, s.shard(ctx)
}

// shard spreads the models over the databases. Each model has 16 tables: shard 0 is in a.db, shard
// 1 in b.db, and so on.
func (s *shop) shard(ctx context.Context) error {
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards:    shards,
		Databases: s.dbs,
	}, &Customer{}, &Order{}, &Item{}, &Visit{})
	if err != nil {
		return err
	}
	s.router = router
	return router.AutoMigrate(ctx)
}

// close gives the node back and ends the connections.
func (s *shop) close(ctx context.Context) error {
	errs := []error{s.plugin.Close(ctx)}
	for _, db := range s.dbs {
		pool, err := db.DB()
		if err == nil {
			err = pool.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shardOf returns the shard of a row. Only its ID is needed.
func (s *shop) shardOf(id snowflakeplugin.ID) int {
	shard, err := s.router.Shard(id)
	if err != nil {
		return -1
	}
	return shard
}

func (s *shop) say(format string, args ...any) { fmt.Fprintf(s.w, format, args...) }

func (s *shop) check(holds bool, format string, args ...any) {
	mark, what := "yes", fmt.Sprintf(format, args...)
	if !holds {
		mark, s.faults = "NO ", append(s.faults, what)
	}
	s.say("  %s  %s\n", mark, what)
}
