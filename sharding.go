package snowflakeplugin

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// ShardingConfig says how rows are spread. See [NewRouter].
type ShardingConfig struct {
	// Layout is that of the IDs. It has to be the layout of the plugin that the databases use, and
	// the zero Layout stands for that.
	Layout generator.Layout
	// Shards is their number, from 1 to the size of the layout's sequence. It has to divide the
	// number that the plugin's IDs are spread over evenly: every power of two up to 256 does with
	// the default layout; for another number pass [WithShards] to the plugin.
	Shards int
	// Databases are where the shards are: one at least, of any of the three kinds, mixed if need
	// be. All of them use one plugin.
	Databases []*gorm.DB
	// Place returns the index of the database of a shard. By default it is shard modulo the number
	// of databases. It is called by NewRouter, once for each shard. Each database notes which shards
	// it has, and a configuration that would look for them elsewhere is refused.
	Place func(shard int) int
}

// Router spreads the rows of some models over tables and databases. The shard of a row is
//
//	(id & MaxSequence) % Shards
//
// which for powers of two is id % Shards, in any SQL. The table of shard 7 is orders_07. One number
// decides on both the table and the database, so no combination of them stays empty.
//
// The models of a router share their shards: a row whose key is tagged
//
//	ID ID `gorm:"primaryKey" snowflake:"like:OrderID"`
//
// lies beside the row that OrderID refers to, in a table of the same number. So joins, preloads,
// associations and transactions work within a shard as they do without a router. No SQL is parsed:
// a handle that the router hands out is an ordinary *gorm.DB, for which the models have other
// tables. A statement on a sharded model that was not routed is refused.
//
// Its methods are safe for concurrent use. What a method finds on some shards only, because others
// failed, is never returned: the error is a [*PartialError] then.
type Router struct {
	*routing
	scopes []func(*gorm.DB) *gorm.DB // see Scopes
}

// routing is what the routers that [Router.Scopes] returns have in common. It is immutable once
// NewRouter has returned it, but for what the end of a doubling changes.
type routing struct {
	plugin  *Plugin
	layout  generator.Layout
	mask    int64 // of the sequence
	shards  int
	dbs     []*gorm.DB    // new sessions, each of which begins a statement of its own
	guards  []*shardGuard // of the databases
	place   []int         // of each shard
	models  []*shardModel // in the order of NewRouter
	horizon int64         // IDs below it were not made in the far future, or are old enough by now
	byType  map[reflect.Type]*shardModel
	schemas []shardSchemas // of each shard
	far     map[relationOf]*schema.Relationship

	// uncleaned is the number of shards before a doubling that left rows behind: the tables of these
	// shards have rows that are of others by now.
	uncleaned atomic.Int64
}

// shardModel is a model of a router.
type shardModel struct {
	value     any // a pointer to a zero struct, never written to
	base      *schema.Schema
	broadcast bool
	key       *schema.Field
	tables    []string // of each shard
	joins     []joinTable
}

// joinTable is a table that GORM makes for a many-to-many relation.
type joinTable struct {
	base string // its name, without a number
	of   reflect.Type
}

// table returns the name of the model's table on a shard.
func (m *shardModel) table(shard int) string {
	if m.broadcast {
		return m.base.Table
	}
	return m.tables[shard]
}

// slice returns a pointer to an empty slice of the model.
func (m *shardModel) slice() any { return reflect.New(reflect.SliceOf(m.base.ModelType)).Interface() }

// NewRouter returns a router for the models, each given as a pointer to a struct, such as &Order{},
// or by [Broadcast]. The databases must use the plugin already, all of them the same. It installs
// a callback on them that routes statements, and refuses those on sharded models that were not
// routed. Tables are made by [Router.AutoMigrate]. It asks each database once over how many shards
// the rows are spread already and which of them it has, and refuses another number and other places.
// Like db.Use it belongs to start-up.
//
// It returns an error wrapping [ErrSharding] that lists everything that is wrong.
func NewRouter(cfg ShardingConfig, models ...any) (*Router, error) {
	r, err := newRouting(cfg, models)
	if err == nil {
		err = r.readState()
	}
	if err == nil {
		err = r.install(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	return &Router{routing: r}, nil
}

// newRouting checks and completes the configuration; nothing knows of it yet.
func newRouting(cfg ShardingConfig, models []any) (*routing, error) {
	r := &routing{layout: cfg.Layout, byType: map[reflect.Type]*shardModel{}}
	if err := r.configure(cfg); err != nil {
		return nil, err
	}
	var faults []error
	for i, model := range models {
		faults = append(faults, r.addModel(i, model))
	}
	if len(models) == 0 {
		faults = append(faults, errors.New("no model: pass those whose rows are to be spread, such as &Order{}"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	r.relate()
	return r, nil
}

// broadcastModel marks a model whose rows are in every database.
type broadcastModel struct{ model any }

// Broadcast marks a model for [NewRouter] whose rows are the same in every database of the router,
// such as countries or prices, so that rows of every shard can be joined with them. Its table keeps
// its name. [Router.Create] writes to all databases, and so does [Router.Each]; a write to one of
// them alone is refused. Reads go to any.
func Broadcast(model any) any { return broadcastModel{model} }

// addModel takes a model in.
func (r *routing) addModel(i int, model any) error {
	m := &shardModel{}
	if b, ok := model.(broadcastModel); ok {
		model, m.broadcast = b.model, true
	}
	stmt := &gorm.Statement{DB: r.dbs[0]}
	if err := stmt.Parse(model); err != nil {
		return fmt.Errorf("model %d, %T: %w", i, model, err)
	}
	m.base = stmt.Schema
	m.value = reflect.New(m.base.ModelType).Interface()
	if r.byType[m.base.ModelType] != nil {
		return fmt.Errorf("model %d, %s: it is given twice", i, m.base.Name)
	}
	plan, err := r.plugin.plans.prepare(m.base)
	if err != nil {
		return fmt.Errorf("model %d: %w", i, err)
	}
	for _, column := range plan.columns {
		single := column.field.PrimaryKey && len(m.base.PrimaryFields) == 1
		if single && column.kind == kindInt && !column.pointer {
			m.key = column.field
		}
	}
	if m.key == nil && !m.broadcast {
		return fmt.Errorf("model %d, %s: its primary key has to be a single field of type ID or int64 with the "+
			"tag %s", i, m.base.Name, tagName)
	}
	for shard := range r.shards {
		m.tables = append(m.tables, tableOn(m.base.Table, shard))
	}
	// Noted here, as GORM writes to the schemas of join tables whenever it parses the model.
	for _, relation := range m.base.Relationships.Many2Many {
		m.joins = append(m.joins, joinTable{relation.JoinTable.Table, relation.JoinTable.ModelType})
	}
	r.models = append(r.models, m)
	r.byType[m.base.ModelType] = m
	return nil
}

// configure checks the configuration and fills in what it leaves out.
func (r *routing) configure(cfg ShardingConfig) error {
	if len(cfg.Databases) == 0 {
		return errors.New("no database: Databases needs one at least")
	}
	for i, db := range cfg.Databases {
		if db == nil || db.Config == nil || db.Statement == nil {
			return fmt.Errorf("database %d is nil, or does not come from gorm.Open", i)
		}
		plugin, ok := db.Plugins[pluginName].(*Plugin)
		switch {
		case !ok || db.Callback().Create().Get(callbackFill) == nil:
			return fmt.Errorf("database %d does not use the plugin: call db.Use first, with one for all", i)
		case r.plugin != nil && r.plugin != plugin:
			return fmt.Errorf("database %d uses another plugin than database 0: one has to serve all of them", i)
		}
		for other, before := range r.dbs {
			// One pool may serve several schemas, whose tables have other names.
			if before.ConnPool == db.ConnPool && internalTable(before, "") == internalTable(db, "") {
				return fmt.Errorf("database %d is database %d again: give each once, and say by Place where the "+
					"shards are", i, other)
			}
		}
		r.plugin = plugin
		r.dbs = append(r.dbs, db.Session(&gorm.Session{NewDB: true}))
	}
	n := r.plugin.node.Load()
	if n == nil {
		return errors.New("the plugin takes its numbers from WithSource, which cannot choose shards: a router " +
			"needs the plugin's own generator")
	}
	own := n.generator.Layout()
	if isZeroLayout(r.layout) {
		r.layout = own
	} else if readsOtherwise(r.layout, own) {
		return fmt.Errorf("layout %s is not that of the plugin, %s", r.layout.Name, own.Name)
	}
	r.mask, r.shards = r.layout.MaxSequence(), cfg.Shards
	if spread := n.generator.Shards(); r.shards < 1 || int64(r.shards) > r.mask+1 || spread%r.shards != 0 {
		return fmt.Errorf("%d shards: the number has to be from 1 to %d and divide %d, over which the plugin "+
			"spreads its IDs; pass WithShards(%d) to snowflakeplugin.New for another",
			r.shards, r.mask+1, spread, max(r.shards, 1))
	}
	r.schemas = make([]shardSchemas, r.shards)
	if first, err := r.layout.Compose(generator.Parts{Time: time.Now().Add(farFuture)}); err == nil {
		r.horizon = first
	}
	return r.configurePlaces(cfg.Place)
}

// configurePlaces asks for the database of each shard.
func (r *routing) configurePlaces(place func(int) int) error {
	if place == nil {
		place = func(shard int) int { return shard % len(r.dbs) }
	}
	for shard := range r.shards {
		at := place(shard)
		if at < 0 || at >= len(r.dbs) {
			return fmt.Errorf("Place(%d) returned %d, where there are %d databases", shard, at, len(r.dbs))
		}
		r.place = append(r.place, at)
	}
	return nil
}

func isZeroLayout(l generator.Layout) bool {
	return l.TimeBits == 0 && l.SequenceBits == 0 && l.Node == nil && l.Tick == 0
}

// readsOtherwise reports whether two layouts read an ID differently.
func readsOtherwise(a, b generator.Layout) bool {
	return !a.Epoch.Equal(b.Epoch) || a.Tick != b.Tick || a.TimeBits != b.TimeBits ||
		a.NodeBits() != b.NodeBits() || a.SequenceBits != b.SequenceBits
}

// Shards returns the number of shards.
func (r *Router) Shards() int { return r.shards }

// Scopes returns a router whose reads over several shards go through fns as well, as those of
// db.Scopes do: to page, count and sum only some of the rows.
//
//	open := router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("state = ?", "open") })
//	err := open.Latest(ctx, &orders, 50)
//
// Order, Limit and Offset have no place in them. Handles by [Router.DB] are not affected.
func (r *Router) Scopes(fns ...func(*gorm.DB) *gorm.DB) *Router {
	return &Router{routing: r.routing, scopes: append(r.scopes[:len(r.scopes):len(r.scopes)], fns...)}
}
