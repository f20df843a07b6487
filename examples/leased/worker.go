package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	nameVar = "LEASED_NAME" // the environment variables that make a worker of this program
	fileVar = "LEASED_FILE"

	span       = 3 * time.Second       // of a window
	lastNumber = 1                     // the numbers are 0 and 1
	pause      = 10 * time.Millisecond // between two rows
)

// Order is the row that all processes insert into the same table.
type Order struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	MadeBy string             // the name of the process
}

// event is what a worker reports to the story, as one line of JSON each.
type event struct {
	What    string // leased, refused, row or closed
	At      time.Time
	Node    int64          // that was leased
	ID      int64          // of the row, which is stored by then
	Holders []lease.Record // of the numbers, when it was refused

	who   *process // as the story knows
	ended bool     // said by nobody, and found out by the story
}

// work is a whole process. It leases a number, inserts rows until stdin is closed, and gives the
// number back.
func work(ctx context.Context, name, path string, stdin io.Reader, stdout io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // also ends if the story itself is killed
		cancel()
	}()
	out := json.NewEncoder(stdout)
	say := func(e event) error {
		e.At = time.Now()
		return out.Encode(e)
	}

	db, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB(db)) }()
	plugin := snowflakeplugin.New(
		snowflakeplugin.WithLease(nil, // nil: in this very database
			lease.WithSpan(span),
			lease.WithNodes(0, lastNumber),
			lease.WithOwner(fmt.Sprintf("process %s, pid %d", name, os.Getpid())),
		),
		snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
			Level: slog.LevelWarn,
		}))),
	)
	if err := join(ctx, db, plugin, say); err != nil {
		return err
	}
	defer func() {
		// So that the number is free at once, and not only when its window ends.
		free := context.WithoutCancel(ctx) // because ctx is over by then
		err = errors.Join(err, plugin.Close(free), say(event{What: "closed"}))
	}()
	if err := say(event{What: "leased", Node: plugin.Stats().Node}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		order := Order{MadeBy: name}
		if err := db.Create(&order).Error; err != nil {
			return err
		}
		if err := say(event{What: "row", ID: order.ID.Int64()}); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// join puts the plugin to use. While every number is held, it reports the holders and retries when
// the first number may become free. A real program would be given more numbers: the default layout
// has 1,024.
func join(
	ctx context.Context, db *gorm.DB, plugin *snowflakeplugin.Plugin, say func(event) error,
) error {
	for {
		err := db.Use(plugin)
		var none *lease.NoFreeNodeError // what wraps lease.ErrNoFreeNode
		if !errors.As(err, &none) {
			return err
		}
		if err := say(event{What: "refused", Holders: none.Holders}); err != nil {
			return err
		}
		select {
		case <-time.After(none.Free.Sub(none.Now) + pause):
		case <-ctx.Done():
			return err
		}
	}
}

// open opens the file and creates the table. If another process is writing, a writer waits for up
// to 10 s. With the write-ahead log, a reader never waits.
func open(path string) (*gorm.DB, error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	file.RawQuery = "_busy_timeout=10000&_journal_mode=WAL&_txlock=immediate"
	db, err := gorm.Open(sqlite.Open(file.String()), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, fmt.Errorf("open SQLite, which needs cgo and a C compiler: %w", err)
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		return nil, errors.Join(err, closeDB(db))
	}
	return db, nil
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}
