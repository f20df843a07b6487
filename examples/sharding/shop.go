package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
)

const (
	shards    = 16
	customers = 500
	orders    = 10_000
	visits    = 2_000
	perBatch  = 1_000

	prefix = "sharding_example_" // of all tables
)

// shop is the state of the program.
type shop struct {
	shards int // at the end
	w      io.Writer
	plugin *snowflakeplugin.Plugin
	router *snowflakeplugin.Router
	dbs    []*gorm.DB
	names  []string // of the databases
	drop   *gorm.DB // the one whose tables have to be dropped, because it existed before

	customers []Customer
	faults    int // checks that failed
}

// open makes the databases and the router.
func open(ctx context.Context, w io.Writer, dir, dsn string) (s *shop, err error) {
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
		if _, err := s.connect(name, sqlite.Open(file)); err != nil {
			return s, err
		}
	}
	if dsn != "" {
		db, err := s.open("postgres", postgres.Open(dsn))
		if err != nil {
			return s, err
		}
		tables, err := tablesOf(db)
		if err != nil {
			return s, fmt.Errorf("tables of postgres: %w", err)
		}
		if len(tables) > 0 {
			return s, fmt.Errorf("postgres has tables such as %s already: if this example has left them, drop "+
				"them, otherwise use another database", tables[0])
		}
		if err := db.Use(s.plugin); err != nil {
			return s, err
		}
		s.drop = db
	}
	return s, s.shard(ctx)
}

// connect opens a database that uses the plugin.
func (s *shop) connect(name string, kind gorm.Dialector) (*gorm.DB, error) {
	db, err := s.open(name, kind)
	if err != nil {
		return nil, err
	}
	return db, db.Use(s.plugin)
}

func (s *shop) open(name string, kind gorm.Dialector) (*gorm.DB, error) {
	names := schema.NamingStrategy{TablePrefix: prefix}
	db, err := gorm.Open(kind, &gorm.Config{Logger: logger.Discard, NamingStrategy: names})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	s.dbs, s.names = append(s.dbs, db), append(s.names, name)
	return db, nil
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
		if db == s.drop {
			errs = append(errs, dropTables(db.WithContext(ctx)))
		}
		pool, err := db.DB()
		if err == nil {
			err = pool.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tablesOf lists the tables of the example in a database.
func tablesOf(db *gorm.DB) ([]string, error) {
	all, err := db.Migrator().GetTables()
	var own []string
	for _, table := range all {
		if strings.HasPrefix(table, prefix) {
			own = append(own, table)
		}
	}
	return own, err
}

// dropTables drops the tables of the example, and the note that the IDs of the database come from the
// leases of the example, which are gone when it ends.
func dropTables(db *gorm.DB) error {
	tables, err := tablesOf(db)
	for _, table := range append(tables, "snowflake_authority") {
		err = errors.Join(err, db.Migrator().DropTable(table))
	}
	return err
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

// check prints whether something holds, and counts what does not.
func (s *shop) check(holds bool, format string, args ...any) {
	mark := "yes"
	if !holds {
		mark, s.faults = "NO ", s.faults+1
	}
	s.say("  %s  "+format+"\n", append([]any{mark}, args...)...)
}
