package router

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// cluster is a topology with what GORM needs to run statements on it. All routers that Scopes returns
// share one.
type cluster struct {
	*shardmap.Topology
	handles
	schemas   schemas
	relations relations
	guards    []*shardGuard // by database; empty until install
	// doubted is set when a table of the map was not found, until the map has been read again.
	doubted atomic.Bool
}

func newCluster(t *shardmap.Topology, of *current) *cluster {
	c := &cluster{
		Topology: t, handles: newHandles(t, of), schemas: newSchemas(t), relations: relationsOf(t),
	}
	t.Examines = migrator{c}.refuseStrangersIn
	return c
}

// install registers the models of the cluster with the guards of its databases, in place of those of
// another cluster, unless that is nil.
func (c *cluster) install(instead *cluster) error {
	for i, db := range c.Databases {
		guard, ok := db.Plugins[guardName].(*shardGuard)
		if !ok {
			guard = &shardGuard{plans: c.Engine.Plans}
			if err := db.Use(guard); err != nil {
				return fmt.Errorf("database %d: %w", i, err)
			}
		}
		c.guards = append(c.guards, guard)
	}
	for i, guard := range c.guards {
		if err := guard.add(c, instead); err != nil {
			return fmt.Errorf("database %d: %w", i, err)
		}
	}
	return nil
}

const (
	guardName      = fill.PluginName + "_sharding"
	callbackRoute  = fill.PluginName + ":route"
	callbackCheck  = fill.PluginName + ":check_shard"
	callbackNested = fill.PluginName + ":check_nested"
)

// shardGuard routes the statements of one database. It is a plugin of GORM, so that each database has
// one, however many routers it serves.
type shardGuard struct {
	plans *fill.PlanCache // of the plugin that the database uses

	// types is never changed but replaced as a whole, because every statement reads it.
	types atomic.Pointer[map[reflect.Type]*cluster]
}

var _ gorm.Plugin = (*shardGuard)(nil)

// Name returns the name under which GORM registers the guard.
func (g *shardGuard) Name() string { return guardName }

// Initialize registers the guard before all other callbacks of a statement.
func (g *shardGuard) Initialize(db *gorm.DB) error {
	callbacks := db.Callback()
	route := func(what verb) func(*gorm.DB) { return func(db *gorm.DB) { g.route(db, what) } }
	for _, of := range []struct {
		name    string
		what    verb
		get     func(name string) func(*gorm.DB)
		replace func(name string, fn func(*gorm.DB)) error
	}{
		{"gorm:query", reads, callbacks.Query().Get, callbacks.Query().Replace},
		{"gorm:row", reads, callbacks.Row().Get, callbacks.Row().Replace},
		{"gorm:raw", reads, callbacks.Raw().Get, callbacks.Raw().Replace},
		{"gorm:create", creates, callbacks.Create().Get, callbacks.Create().Replace},
		{"gorm:update", updates, callbacks.Update().Get, callbacks.Update().Replace},
		{"gorm:delete", deletes, callbacks.Delete().Get, callbacks.Delete().Replace},
	} {
		if run := of.get(of.name); run != nil {
			if err := of.replace(of.name, g.repeating(run, of.what)); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		callbacks.Create().Before("*").Register(callbackRoute, route(creates)),
		callbacks.Raw().Before("*").Register(callbackRoute, func(db *gorm.DB) { g.locate(db) }),
		callbacks.Create().Before("gorm:save_before_associations").Register(callbackNested, g.checkNested(true)),
		callbacks.Update().Before("gorm:save_before_associations").Register(callbackNested, g.checkNested(false)),
		callbacks.Create().Before("gorm:create").Register(callbackCheck, fill.CheckShard(g.plans)),
		callbacks.Update().Before("*").Register(callbackRoute, g.routeUpdate),
		callbacks.Delete().Before("*").Register(callbackRoute, route(deletes)),
		callbacks.Query().Before("*").Register(callbackRoute, route(reads)),
		callbacks.Row().Before("*").Register(callbackRoute, route(reads)),
	)
}

// add registers the models of a cluster, and the join tables that GORM makes for them. The cluster that
// it replaces is removed in the same step: in between, statements without a route would get through.
func (g *shardGuard) add(c, instead *cluster) error {
	types := map[reflect.Type]*cluster{}
	if old := g.types.Load(); old != nil {
		maps.Copy(types, *old)
	}
	maps.DeleteFunc(types, func(_ reflect.Type, of *cluster) bool { return of == instead })
	for _, m := range c.Models {
		t := m.Base.ModelType
		if other := types[t]; other != nil && other != c {
			return fmt.Errorf("%s belongs to another router", m.Base.Name)
		}
		types[t] = c
		if m.Broadcast {
			continue
		}
		for _, relation := range m.Base.Relationships.Many2Many {
			types[relation.JoinTable.ModelType] = c
		}
	}
	g.types.Store(&types)
	return nil
}

// verb is what a statement does.
type verb int

const (
	reads verb = iota
	creates
	updates
	deletes
)

// of returns the cluster that has the model of a statement, or nil if there is none, or nothing more to do.
func (g *shardGuard) of(db *gorm.DB) *cluster {
	if db.Error != nil || db.Statement.Schema == nil {
		return nil
	}
	return (*g.types.Load())[db.Statement.Schema.ModelType]
}

// checkNested looks at the rows that GORM is about to save together with those of the statement, after
// hooks have run. creates tells an INSERT from an UPDATE.
func (g *shardGuard) checkNested(creates bool) func(*gorm.DB) {
	return func(db *gorm.DB) {
		if c := g.of(db); c != nil {
			_ = db.AddError(c.relations.checkNested(db.Statement, creates))
		}
	}
}

// routeUpdate routes an update. A handle is bound to an empty row of its model. GORM would take that for
// the row to update and find no condition, so a row with a key that is passed to Save or Updates takes
// its place.
func (g *shardGuard) routeUpdate(db *gorm.DB) {
	g.route(db, updates)
	stmt, c := db.Statement, g.of(db)
	if c == nil || c.ByType[stmt.Schema.ModelType] == nil {
		return
	}
	if m := c.ByType[stmt.Schema.ModelType]; stmt.Model == m.Value {
		stmt.Model = reflect.New(m.Base.ModelType).Interface() // because GORM writes new values into it
	}
	key, row := stmt.Schema.PrioritizedPrimaryField, reflect.PointerTo(stmt.Schema.ModelType)
	same := reflect.TypeOf(stmt.Model) == row && reflect.TypeOf(stmt.Dest) == row
	if !same || stmt.Model == stmt.Dest || key == nil {
		return
	}
	_, unbound := key.ValueOf(stmt.Context, reflect.ValueOf(stmt.Model).Elem())
	_, keyless := key.ValueOf(stmt.Context, reflect.ValueOf(stmt.Dest).Elem())
	if unbound && !keyless {
		stmt.Model = stmt.Dest
	}
}

// route gives a statement the schema and the table of its shard.
func (g *shardGuard) route(db *gorm.DB, what verb) {
	stmt := db.Statement
	at := g.locate(db)
	if db.Error != nil || stmt.Schema == nil || stmt.SQL.Len() > 0 {
		return
	}
	c := (*g.types.Load())[stmt.Schema.ModelType]
	if c == nil && len(stmt.Preloads) == 0 && len(stmt.Joins) == 0 {
		return
	}
	if c != nil && c != at.of { // The handle is that of another router, or the map has changed since.
		at = located{of: c}
		at.to, at.routed, at.err = c.routeOf(stmt)
	}
	var err error
	if c == nil {
		err = g.checkUnsharded(stmt)
	} else {
		err = g.apply(at, stmt, what)
	}
	if err != nil {
		_ = db.AddError(err)
		if stmt.DryRun {
			// It may be a subquery, whose error GORM drops. Without any text it would become IN (), which
			// SQLite accepts as an empty list. Every database refuses this text.
			stmt.SQL.WriteString("a statement that is not routed to a shard")
		}
	}
}

// apply finds the table of a statement, or the reason to refuse it.
func (g *shardGuard) apply(at located, stmt *gorm.Statement, what verb) error {
	c, to, routed := at.of, at.to, at.routed
	m := c.ByType[stmt.Schema.ModelType]
	if what == deletes {
		if err := c.relations.checkDeleted(stmt); err != nil {
			return err
		}
	}
	switch {
	case at.err != nil:
		return at.err
	case m != nil && m.Broadcast:
		if what != reads && !to.all {
			return fmt.Errorf("%w: %s has its rows in every database of the router: use Router.Create or "+
				"Router.Each", errs.ErrNotRouted, m.Base.Name)
		}
		return c.relations.checkFollowed(stmt)
	case to.together && what == creates && m != nil:
		on, err := c.schemas.on(to.shard, stmt.Schema.ModelType)
		if err == nil {
			on.name(stmt, what) // The plugin looks at the database of this table.
		}
		return err
	case namesTable(stmt):
		if m != nil && (stmt.Table == m.Base.Table || namesAlias(stmt, m.Base.Table)) {
			return c.notRouted(stmt)
		}
		return c.relations.checkFollowed(stmt) // It is the table of a shard, or not of the router.
	case !routed || to.all:
		return c.notRouted(stmt)
	case c.guards[c.Place[to.shard]] != g:
		return fmt.Errorf("%w: %s: this is not the database of %s", errs.ErrCrossShard, stmt.Schema.Name, to)
	}
	if carried, ok := c.carried(stmt); ok && carried.of != to.of {
		// What hooks and relations do belongs to this statement, and has its map.
		stmt.Context = &routeContext{stmt.Context, c.current, to}
	}
	on, err := c.schemas.on(to.shard, stmt.Schema.ModelType)
	if err != nil {
		return err
	}
	stmt.Schema = on.schema
	if err := c.relations.checkFollowed(stmt); err != nil {
		return err
	}
	if !to.open {
		err = c.relations.checkAssociation(stmt)
	}
	if err != nil {
		return err
	}
	on.renames(on.name(stmt, what)).in(stmt)
	if to.open {
		return nil
	}
	return keyRules{c.Topology}.checkKeys(stmt, to.shard, what != reads)
}

// checkUnsharded refuses a statement on a model that is not of a router, if it leads to the rows of one.
func (g *shardGuard) checkUnsharded(stmt *gorm.Statement) error {
	for _, c := range *g.types.Load() {
		if err := c.relations.checkFollowed(stmt); err != nil {
			return err
		}
	}
	return nil
}

// notRouted is the error of a statement without a route.
func (c *cluster) notRouted(stmt *gorm.Statement) error {
	base := stmt.Schema.Table
	return fmt.Errorf("%w: the rows of %s are in %s to %s: use a handle of Router.DB or a method of the Router",
		errs.ErrNotRouted, stmt.Schema.Name, c.Entry(0).TableOn(base), c.Entry(c.ShardCount-1).TableOn(base))
}

// named is the name that the guard gives to the table of a statement. The mark, which means nothing in a text
// without arguments, tells it from that of an application where the statement runs once more.
func named(table string) *clause.Expr { return &clause.Expr{SQL: table, WithoutParentheses: true} }

// namesTable reports whether the application named the table of the statement by db.Table.
func namesTable(stmt *gorm.Statement) bool {
	if stmt.TableExpr == nil || stmt.TableExpr.WithoutParentheses {
		return false
	}
	// For a table name that includes a schema, GORM sets the expression itself.
	return !strings.Contains(stmt.Schema.Table, ".") || stmt.TableExpr.SQL != stmt.Quote(stmt.Schema.Table)
}

// namesAlias reports whether it named that table by "table AS alias".
func namesAlias(stmt *gorm.Statement, table string) bool {
	first, _, more := strings.Cut(strings.TrimSpace(stmt.TableExpr.SQL), " ")
	return more && strings.Trim(first, "`\"") == table
}

// located is where a statement goes, by the cluster that its handle belongs to.
type located struct {
	of     *cluster // nil for a statement that is none of a router's
	to     route
	routed bool
	err    error
}

// locate finds out where a statement goes, and looks at the database of a shard before its first use. A route
// of an older map is refused where it cannot be followed.
func (g *shardGuard) locate(db *gorm.DB) (at located) {
	stmt := db.Statement
	if at.of = g.clusterOf(stmt); db.Error != nil || at.of == nil {
		return at
	}
	if at.to, at.routed, at.err = at.of.routeOf(stmt); stmt.DryRun {
		return at
	}
	err := at.err
	if err == nil && at.routed && !at.to.all { // Reads of all shards look themselves.
		err = at.of.LookOnce(stmt.Context, at.of.Place[at.to.shard], inTransaction(stmt))
	}
	_ = db.AddError(err)
	return at
}

// clusterOf returns the cluster that a statement belongs to, or nil.
func (g *shardGuard) clusterOf(stmt *gorm.Statement) *cluster {
	if handle, ok := stmt.Plugins[handleName].(handleRoute); ok {
		return handle.of.cluster.Load()
	}
	if stmt.Schema != nil {
		return (*g.types.Load())[stmt.Schema.ModelType]
	}
	return nil
}

// explainName says what to write if a text has a name for the table in front of a column that the statement
// does not know. An INSERT, and some forms of DELETE, call the table as it is called on the shard, and all
// other statements as it is called in the model.
func (g *shardGuard) explainName(db *gorm.DB) {
	stmt := db.Statement
	if stmt.Schema == nil || stmt.DryRun {
		return
	}
	c := (*g.types.Load())[stmt.Schema.ModelType]
	if c == nil || c.ByType[stmt.Schema.ModelType] == nil {
		return
	}
	text := db.Error.Error()
	for _, table := range []string{c.ByType[stmt.Schema.ModelType].Base.Table, stmt.Schema.Table} {
		name := table[strings.LastIndexByte(table, '.')+1:]
		for _, complaint := range []string{
			"no such column: " + name + ".", "Unknown column '" + name + ".",
			"FROM-clause entry for table \"" + name + "\"",
		} {
			if name != stmt.Table && strings.Contains(text, complaint) {
				db.Error = fmt.Errorf("%w: in this statement the table is called %s: write the column without a "+
					"table, or as gorm.Expr(\"?\", clause.Column{Table: clause.CurrentTable, Name: ...})",
					db.Error, stmt.Table)
				return
			}
		}
	}
}
