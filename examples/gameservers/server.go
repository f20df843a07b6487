package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

const (
	writers          = 4   // goroutines that create players on one server
	playersPerWriter = 200 // players that each of them creates
	itemsPerPlayer   = 4

	players = writers * playersPerWriter
	items   = players * itemsPerPlayer
)

// server is one game server with a database file of its own.
type server struct {
	number int64
	path   string
	db     *gorm.DB
	plugin *snowflakeplugin.Plugin
}

// startServer opens the server's database. The number goes into every key.
func startServer(ctx context.Context, path string, number int64) (*server, error) {
	layout := generator.Game()
	node, err := layout.PackNode(number)
	if err != nil {
		return nil, err
	}
	db, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &server{number: number, path: path, db: db, plugin: snowflakeplugin.New(
		snowflakeplugin.WithLayout(layout), snowflakeplugin.WithNode(node))}
	if err := db.Use(s.plugin); err != nil {
		return nil, errors.Join(err, closeFile(db))
	}
	return s, nil
}

// fill creates players with their items from several goroutines at once.
func (s *server) fill() error {
	faults := make([]error, writers)
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() { faults[writer] = s.write(writer) })
	}
	group.Wait()
	return errors.Join(faults...)
}

func (s *server) write(writer int) error {
	for n := range playersPerWriter {
		number := writer*playersPerWriter + n + 1
		player := Player{
			// Every server has a Player 1. Nothing in a key settles whose name that is.
			Name: fmt.Sprint("Player ", number),
			Gold: int64(number) * (100 + s.number) % 1000,
		}
		for i := range itemsPerPlayer {
			player.Items = append(player.Items, Item{
				Name:   []string{"sword", "shield", "potion", "map"}[i],
				Amount: int64(number+i)%9 + 1,
			})
		}
		if err := s.db.Create(&player).Error; err != nil {
			return fmt.Errorf("server %d: %s: %w", s.number, player.Name, err)
		}
	}
	return nil
}

// stop ends the server; its file stays.
func (s *server) stop(ctx context.Context) error {
	return errors.Join(s.plugin.Close(ctx), closeFile(s.db))
}

// openFile opens a database file and makes the tables. SQLite has one writer at a time, so one
// connection is as fast as many; and the files live for seconds, so nothing waits for the disk.
func openFile(ctx context.Context, path string) (*gorm.DB, error) {
	dialect := sqlite.Open(fileURL(path, "_foreign_keys=1&_synchronous=OFF"))
	db, err := gorm.Open(dialect, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, fmt.Errorf("open SQLite, which needs cgo and a C compiler: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	db = db.WithContext(ctx)
	if err := db.AutoMigrate(&Player{}, &Item{}); err != nil {
		return nil, errors.Join(err, closeFile(db))
	}
	return db, nil
}

func closeFile(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// fileURL names a database file the way SQLite takes parameters.
func fileURL(path, query string) string {
	file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: query}
	return file.String()
}
