package snowflakeplugin

import (
	"context"

	"gorm.io/gorm"
)

// ShardTx is a transaction on one shard.
type ShardTx struct {
	router *Router
	shard  int
	ctx    context.Context //nolint:containedctx // it is the transaction's, as that of a *gorm.DB
	tx     *gorm.DB
}

// Transaction runs fn in a transaction on the shard where the row with that ID is. When fn returns
// nil it is committed, otherwise, and after a panic, rolled back. All rows that are beside each other
// by the tag snowflake:"like:Field" are in its reach, and no others: those are an error wrapping
// [ErrCrossShard].
//
// It returns the error of fn, of the database, or of [Router.Shard].
func (r *Router) Transaction(ctx context.Context, id ID, fn func(tx *ShardTx) error) error {
	shard, err := r.Shard(id)
	if err != nil {
		return err
	}
	if err := r.checkLocked(ctx, shard); err != nil {
		return err
	}
	to := route{shard: shard, locked: true}
	return r.handle(ctx, r.dbs[r.place[shard]], to, nil).Transaction(func(tx *gorm.DB) error {
		return fn(&ShardTx{router: r, shard: shard, ctx: tx.Statement.Context, tx: tx})
	})
}

// Shard returns the number of the transaction's shard.
func (t *ShardTx) Shard() int { return t.shard }

// Context returns the context of the transaction. With it the methods of the router refuse to leave
// the shard; they are not part of the transaction all the same.
func (t *ShardTx) Context() context.Context { return t.ctx }

// DB returns a handle of the transaction that is bound to the model. The row with that ID has to be
// on the transaction's shard; otherwise the error wraps [ErrCrossShard].
func (t *ShardTx) DB(model any, id ID) (*gorm.DB, error) {
	m, err := t.router.modelOf(model)
	if err != nil {
		return nil, err
	}
	shard, err := t.router.Shard(id)
	if err != nil {
		return nil, err
	}
	if err := t.router.checkLocked(t.ctx, shard); err != nil {
		return nil, err
	}
	return t.tx.Model(m.subject(t.ctx, model)).Session(&gorm.Session{}), nil
}

// Gorm returns the transaction itself, bound to no model: each statement goes to the table of its
// model on this shard.
func (t *ShardTx) Gorm() *gorm.DB { return t.tx.Session(&gorm.Session{}) }

// Create stores a row, or a slice of rows. Those without an ID get one on this shard. The error wraps
// [ErrCrossShard] for a row whose ID, or whose parent, is on another one.
func (t *ShardTx) Create(rows any) error {
	if _, err := t.router.modelOf(rows); err != nil {
		return err
	}
	return t.Gorm().Create(rows).Error
}
