package shardmap

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
)

var errBroken = errors.New("the connection is broken")

// brokenOnce is a pool whose first query fails. The next one has another connection.
type brokenOnce struct {
	gorm.ConnPool
	failed bool
}

func (b *brokenOnce) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !b.failed {
		b.failed = true
		return nil, errBroken
	}
	return b.ConnPool.QueryContext(ctx, query, args...)
}

func (b *brokenOnce) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if !b.failed {
		b.failed = true
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return b.ConnPool.QueryRowContext(ended, query, args...)
	}
	return b.ConnPool.QueryRowContext(ctx, query, args...)
}

// Without its records a router would take the map of its first start for the one that is valid.
func TestATableIsNotTakenForMissingWhenItsDatabaseDoesNotAnswer(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&Record{}); err != nil {
		t.Fatal(err)
	}
	pool := &brokenOnce{ConnPool: db.ConnPool}
	tx := db.Session(&gorm.Session{NewDB: true})
	tx.Statement.ConnPool = pool
	read := func() error {
		_, err := readAll[Record](t.Context(), []*gorm.DB{tx}, ShardsTable, func(tx *gorm.DB) *gorm.DB { return tx })
		return err
	}
	if err := read(); !errors.Is(err, errBroken) {
		t.Errorf("reading on a connection that breaks returned %v", err)
	}
	if err := read(); err != nil {
		t.Error(err)
	}
}
