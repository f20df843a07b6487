package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const (
	shardingName  = pluginName + "_sharding"
	callbackRoute = pluginName + ":route"
	callbackCheck = pluginName + ":check_shard"
	handleName    = pluginName + "_handle"
)

// route says where a statement goes.
type route struct {
	shard int
	all   bool // it is the router's own, over several shards or databases
	// open: the name of the table is left open, for a template.
	open *opening
	// locked: a transaction, in which other shards cannot be had.
	locked bool
}

// routeKey is the key of a route in a context, and in the settings of a statement: hooks get a new
// session with the old context, and WithContext makes a new context with the old settings.
type routeKey struct{ of *routing }

// handleRoute is the route of a handle, among the plugins in the copy of the configuration that each
// handle has: gorm.G makes a new session with a new context.
type handleRoute struct {
	of *routing
	to route
}

// Name and Initialize make it something that GORM keeps among plugins.
func (handleRoute) Name() string              { return handleName }
func (handleRoute) Initialize(*gorm.DB) error { return nil }

// routeOf returns the route of a statement.
func (r *routing) routeOf(stmt *gorm.Statement) (route, bool) {
	if to, ok := stmt.Context.Value(routeKey{r}).(route); ok {
		return to, true
	}
	value, _ := stmt.Settings.Load(routeKey{r})
	if to, ok := value.(route); ok {
		return to, true
	}
	handle, ok := stmt.Plugins[handleName].(handleRoute)
	return handle.to, ok && handle.of == r
}

// handle makes a handle of a session, to be used again and again, whose statements take a route and
// are bound to a model, unless that is nil.
func (r *routing) handle(ctx context.Context, db *gorm.DB, to route, model any) *gorm.DB {
	tx := db.Model(model)
	tx.Statement.Context = context.WithValue(ctx, routeKey{r}, to)
	tx = tx.Session(&gorm.Session{}) // which copies the configuration
	tx.Plugins = r.withRoute(tx.Plugins, to)
	return tx
}

// withRoute adds a route to plugins. What is only for a shard is made once.
func (r *routing) withRoute(plugins map[string]gorm.Plugin, to route) map[string]gorm.Plugin {
	simple := to == route{shard: to.shard}
	if simple {
		made := r.schemas[to.shard].plugins.Load()
		if made != nil && len(*made) == len(plugins)+1 {
			return *made
		}
	}
	more := make(map[string]gorm.Plugin, len(plugins)+1)
	maps.Copy(more, plugins)
	more[handleName] = handleRoute{r, to}
	if simple {
		r.schemas[to.shard].plugins.Store(&more)
	}
	return more
}

// handleOn is handle for a shard.
func (r *routing) handleOn(ctx context.Context, shard int, model any) *gorm.DB {
	return r.handle(ctx, r.dbs[r.place[shard]], route{shard: shard}, model)
}

// session returns a handle whose statements take a route.
func (r *routing) session(ctx context.Context, database int, to route) *gorm.DB {
	return r.bind(ctx, r.dbs[database], to, nil).Session(&gorm.Session{})
}

// bind begins a statement that takes a route, and that is bound to a model, unless that is nil. The
// handle is a new session of a database or of a transaction. To use what is returned more than once
// takes a Session, which copies the whole configuration of the database.
func (r *routing) bind(ctx context.Context, db *gorm.DB, to route, model any) *gorm.DB {
	tx := db.Model(model)
	tx.Statement.Context = context.WithValue(ctx, routeKey{r}, to)
	tx.Statement.Settings.Store(routeKey{r}, to)
	return tx
}

// shardGuard routes the statements of one database. It is a plugin of GORM's, so that each database
// has one, however many routers it serves.
type shardGuard struct {
	// types is replaced as a whole: reading is what every statement does.
	types atomic.Pointer[map[reflect.Type]*routing]
}

var _ gorm.Plugin = (*shardGuard)(nil)

// Name returns the name under which GORM registers the guard.
func (g *shardGuard) Name() string { return shardingName }

// Initialize hangs the guard in front of everything else that GORM does with a statement.
func (g *shardGuard) Initialize(db *gorm.DB) error {
	callbacks := db.Callback()
	return errors.Join(
		callbacks.Create().Before("*").Register(callbackRoute, g.routeWrite),
		callbacks.Create().Before("gorm:create").Register(callbackCheck, checkShard),
		callbacks.Update().Before("*").Register(callbackRoute, g.routeUpdate),
		callbacks.Delete().Before("*").Register(callbackRoute, g.routeWrite),
		callbacks.Query().Before("*").Register(callbackRoute, g.routeRead),
		callbacks.Row().Before("*").Register(callbackRoute, g.routeRead),
	)
}

// install makes the guards of all databases know the models of the router. It takes the place of
// another one, unless that is nil.
func (r *routing) install(instead *routing) error {
	for i, db := range r.dbs {
		guard, ok := db.Plugins[shardingName].(*shardGuard)
		if !ok {
			guard = &shardGuard{}
			if err := db.Use(guard); err != nil {
				return fmt.Errorf("database %d: %w", i, err)
			}
		}
		r.guards = append(r.guards, guard)
	}
	for i, guard := range r.guards {
		if err := guard.add(r, instead); err != nil {
			return fmt.Errorf("database %d: %w", i, err)
		}
	}
	return nil
}

// add makes the guard know the models of a router, and the join tables that GORM makes for them. It
// forgets the router that this one replaces in the same moment: in between, statements that nobody
// routed would get through.
func (g *shardGuard) add(r, instead *routing) error {
	types := map[reflect.Type]*routing{}
	if old := g.types.Load(); old != nil {
		maps.Copy(types, *old)
	}
	maps.DeleteFunc(types, func(_ reflect.Type, of *routing) bool { return of == instead })
	for _, m := range r.models {
		t := m.base.ModelType
		if other := types[t]; other != nil && other != r {
			return fmt.Errorf("%s belongs to another router", m.base.Name)
		}
		types[t] = r
		if m.broadcast {
			continue
		}
		for _, relation := range m.base.Relationships.Many2Many {
			types[relation.JoinTable.ModelType] = r
		}
	}
	g.types.Store(&types)
	return nil
}

func (g *shardGuard) routeWrite(db *gorm.DB) { g.route(db, true) }
func (g *shardGuard) routeRead(db *gorm.DB)  { g.route(db, false) }

// routeUpdate is routeWrite. A handle is bound to an empty row of its model, which GORM takes for the
// one to be updated, and then misses a condition: Save and Updates of a row with a key mean that row.
func (g *shardGuard) routeUpdate(db *gorm.DB) {
	g.route(db, true)
	stmt := db.Statement
	if db.Error != nil || stmt.Schema == nil {
		return
	}
	r := (*g.types.Load())[stmt.Schema.ModelType]
	if r == nil || r.byType[stmt.Schema.ModelType] == nil {
		return
	}
	if m := r.byType[stmt.Schema.ModelType]; stmt.Model == m.value {
		stmt.Model = reflect.New(m.base.ModelType).Interface() // GORM writes the new values into it
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
func (g *shardGuard) route(db *gorm.DB, writes bool) {
	stmt := db.Statement
	if db.Error != nil || stmt.Schema == nil || stmt.SQL.Len() > 0 {
		return
	}
	r := (*g.types.Load())[stmt.Schema.ModelType]
	if r == nil {
		return
	}
	if err := g.apply(r, stmt, writes); err != nil {
		_ = db.AddError(err)
		if stmt.DryRun {
			// As a subquery, whose error GORM drops: without a text it would be the list IN (), which
			// SQLite takes for an empty one. This text is refused by every database.
			stmt.SQL.WriteString("a statement that is not routed to a shard")
		}
	}
}

func (g *shardGuard) apply(r *routing, stmt *gorm.Statement, writes bool) error {
	m := r.byType[stmt.Schema.ModelType]
	to, routed := r.routeOf(stmt)
	switch {
	case m != nil && m.broadcast:
		if writes && !to.all {
			return fmt.Errorf("%w: %s is in every database of the router: use Router.Create or Router.Each",
				ErrNotRouted, m.base.Name)
		}
		return nil
	case namesTable(stmt):
		if m != nil && (stmt.Table == m.base.Table || namesAlias(stmt, m.base.Table)) {
			return r.notRouted(stmt)
		}
		return nil // the caller knows better
	case !routed || to.all:
		return r.notRouted(stmt)
	case r.guards[r.place[to.shard]] != g:
		return fmt.Errorf("%w: %s: this is not the database of shard %d", ErrCrossShard,
			stmt.Schema.Name, to.shard)
	}
	s, err := r.schemaOn(to.shard, stmt.Schema.ModelType)
	if err != nil {
		return err
	}
	stmt.Schema, stmt.TableExpr, stmt.Table = s, nil, s.Table
	renamed := r.schemas[to.shard].names.in(stmt)
	if err := r.checkRelations(stmt); err != nil {
		return err
	}
	if to.open != nil {
		if renamed || len(stmt.Joins) > 0 || m != to.open.of {
			to.open.others = true
		}
		nameOpen(stmt)
		return nil
	}
	if _, table, qualified := strings.Cut(s.Table, "."); qualified {
		stmt.TableExpr, stmt.Table = &clause.Expr{SQL: stmt.Quote(s.Table)}, table
	}
	return r.checkKeys(stmt, to.shard, writes)
}

// nameOpen leaves open which shard's table it is.
func nameOpen(stmt *gorm.Statement) {
	if space, _, qualified := strings.Cut(stmt.Table, "."); qualified {
		stmt.TableExpr = &clause.Expr{SQL: stmt.Quote(space) + "." + stmt.Quote(string(holeTable))}
	}
	stmt.Table = string(holeTable)
}

// notRouted is the error of a statement that nobody routed.
func (r *routing) notRouted(stmt *gorm.Statement) error {
	return fmt.Errorf("%w: the rows of %s are in %s to %s: use a handle of Router.DB or a method of the Router",
		ErrNotRouted, stmt.Schema.Name, tableOn(stmt.Schema.Table, 0), tableOn(stmt.Schema.Table, r.shards-1))
}

// namesTable reports whether the application named the table of a statement by db.Table.
func namesTable(stmt *gorm.Statement) bool {
	if stmt.TableExpr == nil {
		return false
	}
	// GORM sets the expression itself for names with a schema.
	return !strings.Contains(stmt.Schema.Table, ".") || stmt.TableExpr.SQL != stmt.Quote(stmt.Schema.Table)
}

// namesAlias reports whether it did so by "table AS alias".
func namesAlias(stmt *gorm.Statement, table string) bool {
	first, _, more := strings.Cut(strings.TrimSpace(stmt.TableExpr.SQL), " ")
	return more && strings.Trim(first, "`\"") == table
}
