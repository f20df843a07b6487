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
	write func(ctx context.Context, dialect string, pool *sql.DB, pinned bool) error
	done  atomic.Pointer[[]*sql.DB]
	// inTx and inConn are where a transaction and a connection of database/sql keep their pool; nil if they do
	// not.
	inTx, inConn []int
}

// NewNotes returns notes of no database yet. The function writes a note, and may do so twice. The nil pool
// stands for the database that gorm.Open was given. pinned means that the caller has a connection of the
// pool, perhaps in a transaction, until the note is written or refused.
func NewNotes(write func(ctx context.Context, dialect string, pool *sql.DB, pinned bool) error) *Notes {
	return &Notes{
		write: write, inTx: poolField(reflect.TypeFor[sql.Tx]()), inConn: poolField(reflect.TypeFor[sql.Conn]()),
	}
}

func poolField(owner reflect.Type) []int {
	if field, found := owner.FieldByName("db"); found && field.Type == reflect.TypeFor[*sql.DB]() {
		return field.Index
	}
	return nil
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
	pool, pinned := n.poolOf(db.Statement.ConnPool)
	if done := n.done.Load(); done != nil && slices.Contains(*done, pool) {
		return nil
	}
	if err := n.write(db.Statement.Context, db.Name(), pool, pinned); err != nil {
		return err
	}
	n.Add(pool)
	return nil
}

// poolOf returns the pool of database/sql on which a statement runs, or nil if nothing tells it, and whether
// the statement has one of its connections already. A transaction belongs to a pool as well, but database/sql
// keeps it to itself.
func (n *Notes) poolOf(pool gorm.ConnPool) (found *sql.DB, pinned bool) {
	switch p := pool.(type) {
	case *sql.DB:
		return p, false
	case *gorm.PreparedStmtDB:
		return n.poolOf(p.ConnPool)
	case *gorm.PreparedStmtTX:
		return n.poolOf(p.Tx)
	case *sql.Tx:
		if p != nil && n.inTx != nil {
			return (*sql.DB)(reflect.ValueOf(p).Elem().FieldByIndex(n.inTx).UnsafePointer()), true
		}
	case *sql.Conn:
		if p != nil && n.inConn != nil {
			return (*sql.DB)(reflect.ValueOf(p).Elem().FieldByIndex(n.inConn).UnsafePointer()), true
		}
	case gorm.GetDBConnector:
		if db, err := p.GetDBConn(); err == nil {
			return db, inTransaction(pool)
		}
	}
	return nil, false
}
