package dbtest

import (
	"context"
	"database/sql"
	"os"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"
)

// killer ends the process when its steps are used up.
type killer struct{ left atomic.Int64 }

// step is called before and after each statement.
func (k *killer) step() {
	if k.left.Add(-1) == 0 {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
}

// KillAfter lets a handle end this process by kill -9 at a step. There are two steps in each statement and in
// each commit, one before and one after it. It must be called before anything else is done with the handle.
func KillAfter(tb testing.TB, db *gorm.DB, steps int) {
	tb.Helper()
	pool, err := db.DB()
	if err != nil {
		tb.Fatal(err)
	}
	k := &killer{}
	k.left.Store(int64(steps))
	wrapped := &killPool{pool, k}
	db.ConnPool, db.Statement.ConnPool = wrapped, wrapped
}

// killPool is a pool whose statements count.
type killPool struct {
	*sql.DB
	k *killer
}

// GetDBConn is that of gorm.GetDBConnector.
func (p *killPool) GetDBConn() (*sql.DB, error) { return p.DB, nil }

func (p *killPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.k.step()
	defer p.k.step()
	return p.DB.ExecContext(ctx, query, args...)
}

func (p *killPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.k.step()
	defer p.k.step()
	return p.DB.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // the caller closes them
}

// BeginTx is that of gorm.ConnPoolBeginner.
func (p *killPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, opts)
	return &killTx{tx, p.k}, err
}

// killTx is a transaction whose statements count, and its commit.
type killTx struct {
	*sql.Tx
	k *killer
}

func (p *killTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.k.step()
	defer p.k.step()
	return p.Tx.ExecContext(ctx, query, args...)
}

func (p *killTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.k.step()
	defer p.k.step()
	return p.Tx.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // the caller closes them
}

func (p *killTx) Commit() error {
	p.k.step()
	defer p.k.step()
	return p.Tx.Commit()
}
