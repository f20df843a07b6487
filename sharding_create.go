package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
)

// Create stores rows on their shards: a pointer to a struct, or a slice of structs or of pointers,
// or a pointer to that. Rows without an ID get one: with one reservation for all, so that they are
// spread evenly, or, where the tag of the key says snowflake:"like:Field", beside the row that the
// field refers to. Associations are created with them, on the same shard.
//
// All rows of one database are stored in one transaction, and the transactions are committed when
// all of them are complete. So an error before that means that nothing was stored. If a database
// fails to commit, after others have, the error is a [*PartialError] that says which shards have
// their rows. Either way the rows keep their IDs, and those that were not stored can be created again.
// Hooks of rows in different databases run at the same time.
//
// The error wraps [ErrNotSharded], [ErrInvalidID], [ErrCrossShard] or [ErrNoParent] for a row that
// has no place, an error of the generator when there is no ID, or that of the database.
func (r *Router) Create(ctx context.Context, rows any) error {
	m, err := r.modelOf(rows)
	if err != nil {
		return err
	}
	list, err := addressable(rows)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: create %s: %w", m.base.Name, err)
	}
	if err := r.assignKeys(ctx, m, rows); err != nil {
		return err
	}
	if m.broadcast {
		return r.createEverywhere(ctx, list)
	}
	byShard, err := r.group(ctx, m, list)
	if err != nil {
		return err
	}
	batches := make([][]shardBatch, len(r.dbs))
	for shard, rows := range byShard {
		if rows.IsValid() {
			at := r.place[shard]
			batches[at] = append(batches[at], shardBatch{shard, route{shard: shard}, rows.Interface()})
		}
	}
	return r.store(ctx, batches)
}

// addressable lists the structs of a destination, each of which can be written to.
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

// assignKeys gives IDs to the rows that have none.
func (r *routing) assignKeys(ctx context.Context, m *shardModel, rows any) error {
	numbers, err := r.plugin.numbers(ctx, nil)
	if err != nil {
		return err
	}
	plan := r.plugin.plans.of(m.base)
	fr := &frame{Context: ctx, stmt: &gorm.Statement{DB: r.dbs[0], Context: ctx}, plan: plan}
	v := reflect.ValueOf(rows)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !fr.structs.over(plan, v) {
		return fmt.Errorf("%w: %T", gorm.ErrInvalidValue, rows)
	}
	fr.rows = &fr.structs
	f := filler{plans: &r.plugin.plans, numbers: numbers}
	tx := &gorm.DB{Config: r.dbs[0].Config, Statement: fr.stmt}
	f.assign(tx, fr)
	return tx.Error
}

// group puts the rows of each shard into a slice of pointers; the zero Value where there are none.
func (r *Router) group(ctx context.Context, m *shardModel, rows []reflect.Value) ([]reflect.Value, error) {
	byShard := make([]reflect.Value, r.shards)
	slice := reflect.SliceOf(reflect.PointerTo(m.base.ModelType))
	for i, row := range rows {
		value, _ := m.key.ValueOf(ctx, row)
		id, _ := likeKey(value)
		shard, err := r.Shard(ID(id))
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

// shardBatch is what goes into one shard, or, of a broadcast model, into one database.
type shardBatch struct {
	shard int
	to    route
	rows  any
}

// createEverywhere stores the rows of a broadcast model in every database. One comes after the
// other, because they write to the same structs.
func (r *routing) createEverywhere(ctx context.Context, rows []reflect.Value) error {
	if len(rows) == 0 {
		return nil
	}
	slice := reflect.MakeSlice(reflect.SliceOf(rows[0].Addr().Type()), 0, len(rows))
	for _, row := range rows {
		slice = reflect.Append(slice, row.Addr())
	}
	var txs []*storing
	for i, db := range r.dbs {
		t := &storing{batches: []shardBatch{{i, route{all: true}, slice.Interface()}}}
		txs = append(txs, t)
		if t.run(ctx, r, db); t.err != nil {
			return abandon(txs)
		}
	}
	return commit(txs)
}

// store writes the batches of every database in one transaction each.
func (r *routing) store(ctx context.Context, batches [][]shardBatch) error {
	var txs []*storing
	var dbs []*gorm.DB
	for i, of := range batches {
		if len(of) > 0 {
			txs = append(txs, &storing{batches: of})
			dbs = append(dbs, r.dbs[i])
		}
	}
	if len(txs) == 1 {
		txs[0].run(ctx, r, dbs[0])
	} else {
		_ = scatter(ctx, len(txs), func(i int) error {
			txs[i].run(ctx, r, dbs[i])
			return nil
		})
		for _, t := range txs {
			if t.tx == nil && t.err == nil {
				t.err = ended(ctx) // which is why it did not run
			}
		}
	}
	if slices.ContainsFunc(txs, func(t *storing) bool { return t.err != nil || t.tx == nil }) {
		return abandon(txs)
	}
	return commit(txs)
}

// storing is the transaction of one database.
type storing struct {
	batches []shardBatch
	tx      *gorm.DB
	err     error
}

// run begins the transaction and writes into it.
func (t *storing) run(ctx context.Context, r *routing, db *gorm.DB) {
	tx := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin()
	if t.err = tx.Error; t.err != nil {
		return
	}
	t.tx = tx
	for _, b := range t.batches {
		err := guarded(func() error {
			on := tx.Session(&gorm.Session{NewDB: true})
			return r.handle(ctx, on, b.to, nil).Create(b.rows).Error
		})
		if err != nil {
			t.err = fmt.Errorf("shard %d: %w", b.shard, err)
			return
		}
	}
}

// abandon rolls all transactions back.
func abandon(txs []*storing) error {
	var errs []error
	for _, t := range txs {
		errs = append(errs, t.err)
		if t.tx != nil {
			errs = append(errs, t.tx.Rollback().Error)
		}
	}
	return fmt.Errorf("snowflakeplugin: nothing was stored: %w", errors.Join(errs...))
}

// commit commits all transactions, and says of which shards if some fail.
func commit(txs []*storing) error {
	e := &PartialError{Failed: map[int]error{}}
	for _, t := range txs {
		err := t.tx.Commit().Error
		for _, b := range t.batches {
			if err == nil {
				e.OK = append(e.OK, b.shard)
			} else {
				e.Failed[b.shard] = fmt.Errorf("the transaction could not be committed: %w", err)
			}
		}
	}
	if len(e.Failed) == 0 {
		return nil
	}
	slices.Sort(e.OK)
	return e
}
