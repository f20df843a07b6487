// Package router spreads the rows of models over the tables and databases of shards.
//
// A shardmap.Topology computes where a row is. A cluster adds what GORM needs to run statements there:
// handles that carry a route, schemas whose tables have the number of a shard, and a guard in each database
// that refuses statements without a route. The methods of a Router and of a Resharding build on that.
//
// An ID is an int64 in this package. The root package converts between that and its own types, and
// documents what applications call; comments here say how it is done.
package router

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// NewRouter compares the configuration with what the databases have recorded before it installs
// anything. Its errors wrap [errs.ErrSharding].
func NewRouter(cfg shardmap.Config, models ...any) (*Router, error) {
	c, err := firstCluster(cfg, models)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	return &Router{cluster: c}, nil
}

func firstCluster(cfg shardmap.Config, models []any) (*cluster, error) {
	t, err := shardmap.NewTopology(cfg, models)
	if err != nil {
		return nil, err
	}
	for i, db := range t.Databases {
		if err := shardmap.RefuseOpenSessions(db.Statement.Context, i, db); err != nil {
			return nil, err
		}
	}
	t, silent, err := shardmap.Registry{Topology: t}.Compare()
	if err != nil {
		return nil, err
	}
	valid := &current{}
	c := newCluster(t, valid)
	for _, e := range c.Entries() {
		if slices.Contains(silent, e.Database) {
			if err := migratorIn(c, e.Database).examine(t.Databases[0].Statement.Context, e); err != nil {
				return nil, err
			}
		}
	}
	valid.cluster.Store(c)
	return c, c.install(nil)
}

// At returns the router with the cluster of the valid map. It reads that again after a table was not found.
func (r *Router) At(ctx context.Context) (*Router, error) {
	c := r.current.cluster.Load()
	if c.isLocked(ctx) || !c.doubted.Load() {
		return r.onCluster(c), nil
	}
	if err := r.current.reread(ctx, c); err != nil {
		return nil, err
	}
	return r.Known(), nil
}

// Known returns the router with the cluster that the process has used last, without asking a database.
func (r *Router) Known() *Router { return r.onCluster(r.current.cluster.Load()) }

// Settled is Adopt that waits while a shard is between its old tables and its new ones. Whoever makes tables
// that are missing must not make those that a cutover has just renamed.
func (r *Router) Settled(ctx context.Context) (*Router, error) {
	for {
		current, err := r.Adopt(ctx)
		if err != nil || !hasClosed(current.cluster) {
			return current, err
		}
		if _, err = r.current.await(ctx, current.cluster); err != nil {
			return nil, err
		}
	}
}

// Adopt reads the map that the databases have recorded, and returns the router with that.
func (r *Router) Adopt(ctx context.Context) (*Router, error) {
	if err := r.current.reread(ctx, r.current.cluster.Load()); err != nil {
		return nil, err
	}
	return r.Known(), nil
}

// Missed reports whether a method of the router failed because a table of its map was not there, and another
// call is worth it. If the map is being changed, it waits for that. The first call is always repeated,
// because the cutover may have been given up in between.
func (r *Router) Missed(ctx context.Context, err error, first bool) (again bool, _ error) {
	if !dialect.Missing(err) {
		return false, nil
	}
	r.doubted.Store(true)
	if r.isLocked(ctx) {
		return false, nil
	}
	changed, err := r.current.await(ctx, r.cluster)
	return changed || first && err == nil, err
}

// onCluster returns a router with the same scopes on a cluster.
func (r *Router) onCluster(c *cluster) *Router {
	if r.cluster == c {
		return r
	}
	return &Router{cluster: c, scopes: r.scopes}
}

// Scopes returns a router on the same cluster. The slice is clipped first, so that two routers made
// from one do not write to the same array.
func (r *Router) Scopes(fns ...func(*gorm.DB) *gorm.DB) *Router {
	return &Router{cluster: r.cluster, scopes: append(r.scopes[:len(r.scopes):len(r.scopes)], fns...)}
}

// Shard checks the ID before it computes the number of the shard.
func (r *Router) Shard(id int64) (int, error) {
	shard, err := r.shardOf(id)
	if err != nil {
		return 0, err
	}
	return r.Entry(shard).Residue, nil
}

// TableOf names the table by the entry of the shard.
func (r *Router) TableOf(model any, id int64) (string, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return "", err
	}
	shard, err := r.shardOf(id)
	if err != nil {
		return "", err
	}
	return r.TableOn(m, shard), nil
}

// locate returns the model of a value, and the shard of an ID, which a context may refuse.
func (r *Router) locate(ctx context.Context, model any, id int64) (m *shardmap.Model, shard int, err error) {
	if m, err = r.ModelOf(model); err == nil {
		shard, err = r.reach(ctx, id)
	}
	return m, shard, err
}

// Handle returns a handle with the route of the shard.
func (r *Router) Handle(ctx context.Context, model any, id int64) (*gorm.DB, error) {
	m, shard, err := r.locate(ctx, model, id)
	if err != nil {
		return nil, err
	}
	one := r.routeTo(shard)
	one.id = id
	return r.handle(ctx, r.databaseOf(shard), one, m.Subject(ctx, model)), nil
}

// ShardOfStatement looks at the route of the statement.
func (r *Router) ShardOfStatement(tx *gorm.DB) (shard int, routed bool) {
	one, routed, err := r.routeOf(tx.Statement)
	switch {
	case err != nil || !routed:
		return 0, false
	case one.all:
		return -1, true
	}
	return one.number(), true
}

// Explain decomposes the ID, looks up the place of its shard, and says both in a sentence.
func (r *Router) Explain(id int64) (string, error) {
	shard, err := r.shardOf(id)
	if err != nil {
		return "", err
	}
	parts, _ := r.Layout.Decompose(id) // It is one that the layout can have made.
	var tables []string
	for _, m := range r.Sharded {
		tables = append(tables, r.TableOn(m, shard))
	}
	e := r.Entry(shard)
	return fmt.Sprintf("%d is on shard %d, in database %d (%s), table %s; made %s on node %d, sequence %d",
		id, e.Residue, e.Database, r.databaseOf(shard).Name(), strings.Join(tables, " or "),
		parts.Time.UTC().Format(time.RFC3339Nano), parts.Node, parts.Sequence), nil
}

// MakeTables makes the tables of all models for an entry that the map does not have yet.
func (r *Router) MakeTables(ctx context.Context, e shardmap.Entry) error {
	if err := migratorIn(r.cluster, e.Database).makeTables(ctx, e, nil); err != nil {
		return fmt.Errorf("snowflakeplugin: %w", err)
	}
	return nil
}

// AutoMigrate makes the broadcast tables first, then the tables of all shards, and records the number of
// shards at last.
func (r *Router) AutoMigrate(ctx context.Context) error {
	r.warnOfIdleTags(ctx)
	for i := range r.Databases {
		for _, m := range r.Models {
			if !m.Broadcast {
				continue
			}
			session := migratorIn(r.cluster, i).session(ctx)
			if err := shardmap.MakeOrMigrate(session, m.Base.Table, m.Value); err != nil {
				return fmt.Errorf("snowflakeplugin: migrate %s in database %d: %w", m.Base.Name, i, err)
			}
		}
	}
	registry := shardmap.Registry{Topology: r.Topology}
	if err := whenFree(func() error { return registry.MakeTables(ctx) }); err != nil {
		return err
	}
	failures := slices.Repeat([]error{shardmap.ErrUnfinished}, r.ShardCount)
	// Each database changes one table at a time: several would wait for each other, or fail.
	databases := shardmap.Singles(len(r.Databases))
	_ = shardmap.Scatter(context.WithoutCancel(ctx), databases, func(database int) error {
		var held error
		for shard, e := range r.Entries() {
			if e.Database == database {
				failures[shard] = shardmap.RecoverPanic(func() error {
					return migratorIn(r.cluster, database).migrate(ctx, e, &held)
				})
			}
		}
		return nil
	})
	if err := shardmap.PartialOf(r.numbers(), failures); err != nil {
		return err
	}
	return whenFree(func() error { return registry.RecordMissing(ctx) })
}

// whenFree repeats what a server has given up because of other transactions. A cutover changes the same
// records, and programs that start at the same time write the same notes.
func whenFree(do func() error) error {
	for try := 1; ; try++ {
		if err := do(); try == maxTries || !dialect.Busy(err) {
			return err
		}
	}
}

// warnOfIdleTags warns of tags for foreign keys, which AutoMigrate does not make.
func (r *Router) warnOfIdleTags(ctx context.Context) {
	for _, m := range r.Models {
		for _, relation := range allRelations(m.Base) {
			action := schema.ParseTagSetting(relation.Field.TagSettings["CONSTRAINT"], ",")["ONDELETE"]
			if action == "" {
				continue
			}
			r.Databases[0].Logger.Warn(ctx, "snowflakeplugin: the tag constraint:OnDelete:%s of %s.%s does "+
				"nothing, because the tables of a router have no foreign keys: let the program delete or change "+
				"such rows, and remove the tag", action, m.Base.Name, pathOf(relation))
		}
	}
}

// CheckTables looks at all tables first, and then compares those of one kind of database with each other.
func (r *Router) CheckTables(ctx context.Context) error {
	shapes := make([][]shape, r.ShardCount)
	err := shardmap.Scatter(ctx, r.numbers(), func(shard int) (err error) {
		e := r.Entry(shard)
		shapes[shard], err = migratorIn(r.cluster, e.Database).shapesOf(ctx, e)
		return err
	})
	if err != nil {
		return err
	}
	var drifts []string
	first := map[string]shape{} // by model and kind of database
	for _, s := range slices.Concat(shapes...) {
		key := r.Databases[s.Entry.Database].Name() + " " + s.model.Name
		other, seen := first[key]
		if !seen && len(s.missing) == 0 {
			first[key] = s
		}
		for _, column := range s.model.DBNames {
			if a, b := s.types[column], other.types[column]; seen && a != "" && a != b {
				s.missing = append(s.missing,
					fmt.Sprintf("column %s is of type %s, and in %s of type %s", column, a, other.Name, b))
			}
		}
		for _, what := range s.missing {
			drifts = append(drifts, fmt.Sprintf("%s in database %d: %s", s.Name, s.Entry.Database, what))
		}
	}
	if len(drifts) > 0 {
		return fmt.Errorf("%w: tables of shards differ from their models: %s", errs.ErrSharding,
			errs.Listed(drifts, "; "))
	}
	return nil
}

// Create gives every row its ID first, because the ID decides on the shard. Then it stores the rows of
// each database in one transaction.
func (r *Router) Create(ctx context.Context, rows any) error {
	m, err := r.ModelOf(rows)
	if err != nil {
		return err
	}
	list, err := addressable(rows)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: create %s: %w", m.Base.Name, err)
	}
	numbers, err := r.Engine.Numbers(ctx)
	if err != nil {
		return err
	}
	made, err := fill.AssignAll(ctx, r.Databases[0], r.Engine.Plans, numbers, m.Base, rows)
	if err != nil {
		return err
	}
	batches, err := group(ctx, r.cluster, m, list, made)
	if err != nil {
		return err
	}
	return storeBatches(ctx, r.cluster, batches)
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

// Transaction gives fn a handle with a locked route, which is bound to no model.
func (r *Router) Transaction(ctx context.Context, id int64, fn func(tx *gorm.DB) error) error {
	shard, err := r.reach(ctx, id)
	if err != nil {
		return err
	}
	one := route{shard: shard, topology: r.Topology, id: id, locked: true}
	return r.handle(ctx, r.databaseOf(shard), one, nil).Transaction(fn)
}

// Bind returns a handle of a transaction that is bound to a model.
func (r *Router) Bind(tx *gorm.DB, model any, id int64) (*gorm.DB, error) {
	ctx := tx.Statement.Context
	m, _, err := r.locate(ctx, model, id)
	if err != nil {
		return nil, err
	}
	return tx.Model(m.Subject(ctx, model)).Session(&gorm.Session{}), nil
}
