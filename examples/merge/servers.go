package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	_ "gorm.io/driver/sqlite" // registers the driver sqlite3

	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

const (
	servers = 3
	roles   = 500  // of each server
	clash   = 0.08 // the share of names that every server has
)

// config says what a server is like.
func config(number int) gameworld.Config {
	c := gameworld.Config{
		Server: int64(number), Roles: roles, Seed: uint64(number), //nolint:gosec // it is 1, 2 or 3
		Clash: clash, Names: gameworld.FoldedNames,
	}
	switch number {
	case 2:
		c.Faults.Taken = 2 // two roles have the very names that others would get
	case 3:
		c.Faults.Orphans = 4 // items, letters and roles lead to what is not there
	}
	return c
}

// realm is a game server.
type realm struct {
	gameworld.Summary
	path string
	sum  [sha256.Size]byte // of its file
}

// fillServers fills the files of all servers side by side.
func fillServers(ctx context.Context, dir string) (realms [servers]realm, err error) {
	var faults [servers]error
	var group sync.WaitGroup
	for i := range realms {
		group.Go(func() { realms[i], faults[i] = fillServer(ctx, dir, i+1) })
	}
	group.Wait()
	return realms, errors.Join(faults[:]...)
}

func fillServer(ctx context.Context, dir string, number int) (r realm, err error) {
	r.path = filepath.Join(dir, fmt.Sprintf("realm%d.db", number))
	db, err := sql.Open("sqlite3", r.path)
	if err != nil {
		return r, err
	}
	r.Summary, err = gameworld.Create(ctx, db, gameworld.SQLite, config(number))
	if err := errors.Join(err, db.Close()); err != nil {
		return r, fmt.Errorf("server %d: %w", number, err)
	}
	r.sum, err = sumOf(r.path)
	return r, err
}

// makeTarget makes a database with the tables of the game and no rows, as its migrations would.
func makeTarget(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "merged.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	statements, err := gameworld.Config{Names: gameworld.FoldedNames}.Schema(gameworld.SQLite)
	if err != nil {
		return "", err
	}
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return "", fmt.Errorf("the target: %w", err)
		}
	}
	return path, nil
}

func sumOf(path string) ([sha256.Size]byte, error) {
	data, err := os.ReadFile(path)
	return sha256.Sum256(data), err
}
