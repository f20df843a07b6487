package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// The statements that join the file of a server, parents before children. The columns are named on
// both sides: two servers that were migrated differently may have them in another order.
const (
	copyPlayers = "INSERT INTO players (id, name, gold) SELECT id, name, gold FROM %s.players"
	copyItems   = "INSERT INTO items (id, player_id, name, amount) " +
		"SELECT id, player_id, name, amount FROM %s.items"
)

// play runs two servers with these numbers at the same time and joins their files.
func play(ctx context.Context, dir string, numbers [2]int64) (*report, error) {
	began := time.Now()
	paths, err := fillServers(ctx, dir, numbers)
	if err != nil {
		return nil, err
	}
	filled := time.Since(began)
	result, err := joinFiles(ctx, filepath.Join(dir, "world.db"), paths, numbers)
	if err != nil {
		return nil, fmt.Errorf("join servers %d and %d: %w", numbers[0], numbers[1], err)
	}
	result.filled = filled
	return result, nil
}

// fillServers runs both servers side by side and returns their files.
func fillServers(ctx context.Context, dir string, numbers [2]int64) (paths [2]string, err error) {
	var faults [2]error
	var group sync.WaitGroup
	for i, number := range numbers {
		paths[i] = filepath.Join(dir, fmt.Sprintf("server%d.db", number))
		group.Go(func() {
			s, err := startServer(ctx, paths[i], number)
			if err != nil {
				faults[i] = err
				return
			}
			faults[i] = errors.Join(s.fill(), s.stop(ctx))
		})
	}
	group.Wait()
	return paths, errors.Join(faults[:]...)
}

// joinFiles copies what the files of two servers hold into a new file, and checks the result.
func joinFiles(
	ctx context.Context, target string, paths [2]string, numbers [2]int64,
) (result *report, err error) {
	world, err := openFile(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeFile(world)) }()
	for i, path := range paths {
		// Read-only: whatever goes wrong, the servers' files stay as they are.
		err := world.Exec("ATTACH DATABASE ? AS "+source(i), fileURL(path, "mode=ro")).Error
		if err != nil {
			return nil, err
		}
	}
	result = &report{numbers: numbers}
	if err := result.compare(world); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := copyRows(world); err != nil {
		return nil, err
	}
	result.joined = time.Since(began)
	return result, result.verify(world, generator.Game())
}

// copyRows copies all rows of both servers, keys and all, or none.
func copyRows(world *gorm.DB) error {
	return world.Transaction(func(tx *gorm.DB) error {
		for i := range 2 {
			for _, statement := range []string{copyPlayers, copyItems} {
				if err := tx.Exec(fmt.Sprintf(statement, source(i))).Error; err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// source is the name under which the file of a server is attached.
func source(i int) string { return fmt.Sprint("server", i+1) }
