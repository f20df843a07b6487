package fill

import (
	"context"
	"database/sql"
	"reflect"
	"slices"
	"sync/atomic"

	"gorm.io/gorm"
)

// Notes knows on which databases it is noted where their IDs come from, and notes it on others before the
// first row gets an ID there. The handles of a configuration may lead to several databases: dbresolver sets
// the pool of each statement. Its methods are safe for concurrent use. A nil *Notes notes nothing.
type Notes struct {
	write func(ctx context.Context, dialect string, pool *sql.DB) error
	done  atomic.Pointer[[]*sql.DB]
}

// NewNotes returns notes of no database yet. The function writes a note, and may do so twice. The nil pool
// stands for the database that gorm.Open was given.
func NewNotes(write func(ctx context.Context, dialect string, pool *sql.DB) error) *Notes {
	return &Notes{write: write}
}

// Add says that a database has its note.
func (n *Notes) Add(pools ...*sql.DB) {
	for {
		before := n.done.Load()
		var all []*sql.DB
		if before != nil {
			all = slices.Clone(*before)
		}
		all = append(all, pools...)
		if n.done.CompareAndSwap(before, &all) {
			return
		}
	}
}

// ensure notes on the database of a statement where its IDs come from, unless that is known to be noted.
func (n *Notes) ensure(db *gorm.DB) error {
	if n == nil || db.DryRun {
		return nil
	}
	pool := sqlPool(db.Statement.ConnPool)
	if done := n.done.Load(); done != nil && slices.Contains(*done, pool) {
		return nil
	}
	if err := n.write(db.Statement.Context, db.Name(), pool); err != nil {
		return err
	}
	n.Add(pool)
	return nil
}

// sqlPool returns the pool of database/sql on which a statement runs, or nil if nothing tells it. A
// transaction belongs to a pool as well, but database/sql keeps it to itself.
func sqlPool(pool gorm.ConnPool) *sql.DB {
	switch p := pool.(type) {
	case *sql.DB:
		return p
	case *gorm.PreparedStmtDB:
		return sqlPool(p.ConnPool)
	case *gorm.PreparedStmtTX:
		return sqlPool(p.Tx)
	case *sql.Tx:
		return poolIn(reflect.ValueOf(p))
	case *sql.Conn:
		return poolIn(reflect.ValueOf(p))
	case gorm.GetDBConnector:
		if db, err := p.GetDBConn(); err == nil {
			return db
		}
	}
	return nil
}

// poolIn reads the field db of a transaction or connection of database/sql.
func poolIn(v reflect.Value) *sql.DB {
	if v.IsNil() {
		return nil
	}
	field := v.Elem().FieldByName("db")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*sql.DB]() {
		return nil
	}
	return (*sql.DB)(field.UnsafePointer())
}
