package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// Create gives every row its ID first, because the ID decides on the shard. Then it stores the rows of
// each database in one transaction.
func (r *Router) Create(ctx context.Context, rows any) error {
	m, err := r.modelOf(rows)
	if err != nil {
		return err
	}
	list, err := addressable(rows)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: create %s: %w", m.base.Name, err)
	}
	made, err := r.assignKeys(ctx, m, rows)
	if err != nil {
		return err
	}
	if m.broadcast {
		return r.createEverywhere(ctx, list, made)
	}
	byShard, err := r.group(ctx, m, list)
	if err != nil {
		return err
	}
	batches := make([][]shardBatch, len(r.dbs))
	for shard, rows := range byShard {
		if rows.IsValid() {
			at := r.place[shard]
			batches[at] = append(batches[at], shardBatch{shard, route{shard: shard}, rows.Interface(), made})
		}
	}
	return r.store(ctx, batches)
}

// addressable lists the structs of an argument of Create. Each of them can be written to.
func addressable(rows any) ([]reflect.Value, error) {
	v := reflect.ValueOf(rows)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		if !v.CanAddr() {
			return nil, fmt.Errorf("%w: pass a pointer, so that the row can be given an ID", gorm.ErrInvalidValue)
		}
		return []reflect.Value{v}, nil
	}
	if v.Kind() != reflect.Slice && (v.Kind() != reflect.Array || !v.CanAddr()) {
		return nil, fmt.Errorf("%w: %T", gorm.ErrInvalidValue, rows)
	}
	list := make([]reflect.Value, v.Len())
	for i := range list {
		list[i] = v.Index(i)
		if list[i].Kind() == reflect.Pointer {
			if list[i].IsNil() {
				return nil, fmt.Errorf("%w: row %d is nil", gorm.ErrInvalidData, i)
			}
			list[i] = list[i].Elem()
		}
	}
	return list, nil
}

// assignKeys gives IDs to the rows that have none, and returns them.
func (c *cluster) assignKeys(ctx context.Context, m *shardModel, rows any) (made []int64, err error) {
	numbers, err := c.engine.Numbers(ctx)
	if err != nil {
		return nil, err
	}
	return fill.AssignAll(ctx, c.dbs[0], c.engine.Plans, numbers, m.base, rows)
}

// group puts the rows of each shard into a slice of pointers. A shard without rows has the zero Value.
func (r *Router) group(ctx context.Context, m *shardModel, rows []reflect.Value) ([]reflect.Value, error) {
	byShard := make([]reflect.Value, r.shards)
	slice := reflect.SliceOf(reflect.PointerTo(m.base.ModelType))
	for i, row := range rows {
		shard, err := r.Shard(m.idOf(ctx, row))
		if err == nil {
			err = r.checkLocked(ctx, shard)
		}
		if err != nil {
			return nil, fmt.Errorf("create %s: row %d: %w", m.base.Name, i, err)
		}
		if !byShard[shard].IsValid() {
			byShard[shard] = reflect.MakeSlice(slice, 0, len(rows)/r.shards+1)
		}
		byShard[shard] = reflect.Append(byShard[shard], row.Addr())
	}
	return byShard, nil
}

// shardBatch is what goes to one shard, or, for a broadcast model, to one database.
type shardBatch struct {
	shard int
	to    route
	rows  any
	made  []int64 // the keys that were made for them
}

// createEverywhere stores the rows of a broadcast model in every database, one database after the other
// because each writes to the same structs.
func (c *cluster) createEverywhere(ctx context.Context, rows []reflect.Value, made []int64) error {
	if len(rows) == 0 {
		return nil
	}
	slice := reflect.MakeSlice(reflect.SliceOf(rows[0].Addr().Type()), 0, len(rows))
	for _, row := range rows {
		slice = reflect.Append(slice, row.Addr())
	}
	var txs storeTxs
	defer func() { txs.end() }() // of all that are there then
	for i, db := range c.dbs {
		t := &storeTx{batches: []shardBatch{{i, route{all: true}, slice.Interface(), made}}}
		txs = append(txs, t)
		if t.run(ctx, c, db); t.err != nil {
			return txs.abandon()
		}
	}
	return txs.commit()
}

// store writes the batches, which are grouped by database, in one transaction for each database.
func (c *cluster) store(ctx context.Context, batches [][]shardBatch) error {
	var txs storeTxs
	defer func() { txs.end() }() // of all that are there then
	var dbs []*gorm.DB
	for i, of := range batches {
		if len(of) > 0 {
			txs = append(txs, &storeTx{batches: of})
			dbs = append(dbs, c.dbs[i])
		}
	}
	if len(txs) == 1 {
		txs[0].run(ctx, c, dbs[0])
	} else {
		_ = scatter(ctx, len(txs), func(i int) error {
			txs[i].run(ctx, c, dbs[i])
			return nil
		})
		for _, t := range txs {
			if t.tx == nil && t.err == nil {
				t.err = errs.Ended(ctx) // which is why scatter did not start it
			}
		}
	}
	if slices.ContainsFunc(txs, func(t *storeTx) bool { return t.err != nil || t.tx == nil }) {
		return txs.abandon()
	}
	return txs.commit()
}

// storeTx is the transaction of Create in one database.
type storeTx struct {
	batches []shardBatch
	tx      *gorm.DB // nil if it is not open
	err     error
}

// run begins the transaction and writes the batches. It leaves the transaction open.
func (t *storeTx) run(ctx context.Context, c *cluster, db *gorm.DB) {
	t.err = errUnfinished
	tx := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin()
	if tx.Error != nil {
		t.err = tx.Error
		return
	}
	t.tx = tx
	for _, b := range t.batches {
		err := recoverPanic(func() error {
			on := tx.Session(&gorm.Session{NewDB: true})
			return c.handle(ctx, on, b.to, nil).Set(fill.KeysMade, b.made).Create(b.rows).Error
		})
		if err != nil {
			t.err = fmt.Errorf("shard %d: %w", b.shard, err)
			return
		}
	}
	t.err = nil
}

// storeTxs are the transactions of one Create.
type storeTxs []*storeTx

// end rolls back what is still open. It is deferred, because a hook can end the goroutine of the caller.
func (txs storeTxs) end() {
	for _, t := range txs {
		if t.tx != nil {
			_ = t.tx.Rollback() // nobody is there to tell
		}
	}
}

// abandon rolls all transactions back.
func (txs storeTxs) abandon() error {
	var failures []error
	for _, t := range txs {
		failures = append(failures, t.err)
		if t.tx != nil {
			failures = append(failures, t.tx.Rollback().Error)
			t.tx = nil
		}
	}
	return fmt.Errorf("snowflakeplugin: nothing was stored: %w", errors.Join(failures...))
}

// commit commits all transactions. If some fail, the error says which shards have their rows.
func (txs storeTxs) commit() error {
	e := &PartialError{Failed: map[int]error{}}
	for _, t := range txs {
		err := t.tx.Commit().Error
		t.tx = nil
		for _, b := range t.batches {
			if err == nil {
				e.OK = append(e.OK, b.shard)
			} else {
				// The database may have committed, and only its answer was lost.
				e.Failed[b.shard] = fmt.Errorf("the commit was not confirmed, so the rows may be stored or not: "+
					"look for them by Router.Find, and create again those that are missing: %w", err)
			}
		}
	}
	if len(e.Failed) == 0 {
		return nil
	}
	slices.Sort(e.OK)
	return e
}

// ShardTx is a transaction on one shard.
type ShardTx struct {
	router *Router
	shard  int
	ctx    context.Context //nolint:containedctx // it belongs to the transaction, as that of a *gorm.DB does
	tx     *gorm.DB
}

// Transaction gives fn a handle with a locked route.
func (r *Router) Transaction(ctx context.Context, id int64, fn func(tx *ShardTx) error) error {
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

// Shard returns the number of the shard.
func (t *ShardTx) Shard() int { return t.shard }

// Context returns a context that carries the locked route.
func (t *ShardTx) Context() context.Context { return t.ctx }

// DB returns a handle of the transaction for the model.
func (t *ShardTx) DB(model any, id int64) (*gorm.DB, error) {
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

// Gorm returns a handle of the transaction that is bound to no model.
func (t *ShardTx) Gorm() *gorm.DB { return t.tx.Session(&gorm.Session{}) }

// Create stores rows of any model of the router; the guard and the plans check their shards.
func (t *ShardTx) Create(rows any) error {
	if _, err := t.router.modelOf(rows); err != nil {
		return err
	}
	return t.Gorm().Create(rows).Error
}
