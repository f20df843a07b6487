package snowflakeplugin

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// farFuture is how far ahead of the clock an ID may be made: further than any generator and any
// lease allows. One beyond it is of another layout, or no ID at all.
const farFuture = 48 * time.Hour

// shardOf is the formula, without any check.
func (r *routing) shardOf(id int64) int { return int(id & r.mask % int64(r.shards)) }

// Shard returns the number of the shard where the row with that ID is, or would be. It returns an
// error wrapping [ErrInvalidID] for an ID that is zero or negative, that has more bits than the
// layout, or that was made further in the future than any generator allows, so by another layout.
func (r *Router) Shard(id ID) (int, error) {
	if err := r.checkID(id); err != nil {
		return 0, err
	}
	return r.shardOf(int64(id)), nil
}

// checkID tells what cannot be an ID of the layout.
func (r *routing) checkID(id ID) error {
	if id <= 0 {
		return fmt.Errorf("%w: %d is on no shard: IDs are greater than 0", ErrInvalidID, int64(id))
	}
	if int64(id) < r.horizon {
		return nil // the clock need not be asked
	}
	parts, err := r.layout.Decompose(int64(id))
	if err != nil {
		return fmt.Errorf("%w: %d is on no shard: %w", ErrInvalidID, int64(id), err)
	}
	if parts.Time.After(time.Now().Add(farFuture)) {
		return fmt.Errorf("%w: by layout %s %d was made at %s, in the future: it is of another layout",
			ErrInvalidID, r.layout.Name, int64(id), parts.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// modelOf returns the model of a value: a struct, a pointer to one, a slice of either, or a pointer
// to that.
func (r *routing) modelOf(value any) (*shardModel, error) {
	t := reflect.TypeOf(value)
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		t = t.Elem()
	}
	if m := r.byType[t]; m != nil {
		return m, nil
	}
	var known []string
	for _, m := range r.models {
		known = append(known, m.base.Name)
	}
	return nil, fmt.Errorf("%w: %T; it has %s", ErrNotSharded, value, strings.Join(known, ", "))
}

// Table returns the name of the table where the model's row with that ID is, such as orders_07. The
// number has two digits, or more where it needs them, and does not depend on the number of shards.
// A model marked by [Broadcast] has one table of its own name. The errors are those of
// [Router.Shard], and one wrapping [ErrNotSharded] for a model that is not of the router.
func (r *Router) Table(model any, id ID) (string, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return "", err
	}
	shard, err := r.Shard(id)
	if err != nil {
		return "", err
	}
	return m.table(shard), nil
}

// DB returns a handle that is bound to the model, on the shard where the row with that ID is:
//
//	db, err := router.DB(ctx, &Order{}, id)
//	...
//	err = db.Preload("Items").First(&order, id).Error
//
// It is an ordinary handle that may be used again and again. What it creates without an ID gets one
// on this shard. A row or a condition with the key of another shard is an error wrapping
// [ErrCrossShard]; other conditions see the rows of this shard only. SQL of your own, by Raw and
// Exec, goes to the right database as it stands: [Router.Table] has the name of the table.
//
// The errors are those of [Router.Table], and ErrCrossShard inside of [Router.Transaction], if ctx
// is that of a transaction on another shard.
func (r *Router) DB(ctx context.Context, model any, id ID) (*gorm.DB, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return nil, err
	}
	shard, err := r.Shard(id)
	if err != nil {
		return nil, err
	}
	if err := r.checkLocked(ctx, shard); err != nil {
		return nil, err
	}
	return r.handleOn(ctx, shard, m.subject(ctx, model)), nil
}

// subject is what a handle for a value is bound to: the value itself where that is a row, with a key,
// which GORM then takes as a condition. An empty one only says which model it is. It may be shared
// by goroutines, as the handle may, so another one stands for it.
func (m *shardModel) subject(ctx context.Context, value any) any {
	t := reflect.TypeOf(value)
	if t.Kind() != reflect.Pointer || t.Elem() != m.base.ModelType || reflect.ValueOf(value).IsNil() {
		return m.value
	}
	if m.key != nil {
		if _, empty := m.key.ValueOf(ctx, reflect.ValueOf(value).Elem()); empty {
			return m.value
		}
	}
	return value
}

// checkLocked refuses to leave the shard of a transaction.
func (r *routing) checkLocked(ctx context.Context, shard int) error {
	if to, ok := ctx.Value(routeKey{r}).(route); ok && to.locked && to.shard != shard {
		return fmt.Errorf("%w: the transaction is on shard %d, the row on shard %d", ErrCrossShard,
			to.shard, shard)
	}
	return nil
}

// Explanation is what an ID says of its row.
type Explanation struct {
	ID       ID
	Shard    int
	Database int      // index into ShardingConfig.Databases
	Dialect  string   // of that database
	Tables   []string // of the models of the router, in the order of NewRouter
	Parts    generator.Parts
}

// Explain tells where the row with an ID is, and when and on which node the ID was made. The errors
// are those of [Router.Shard].
func (r *Router) Explain(id ID) (Explanation, error) {
	shard, err := r.Shard(id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{ID: id, Shard: shard, Database: r.place[shard]}
	e.Dialect = r.dbs[e.Database].Name()
	for _, m := range r.models {
		if !m.broadcast {
			e.Tables = append(e.Tables, m.table(shard))
		}
	}
	e.Parts, err = r.layout.Decompose(int64(id))
	return e, err
}

// String returns the explanation as a sentence.
func (e Explanation) String() string {
	return fmt.Sprintf("%d is on shard %d, in database %d (%s), table %s; made %s on node %d, sequence %d",
		int64(e.ID), e.Shard, e.Database, e.Dialect, strings.Join(e.Tables, " or "),
		e.Parts.Time.UTC().Format(time.RFC3339Nano), e.Parts.Node, e.Parts.Sequence)
}
