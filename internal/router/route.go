package router

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// install registers the models of the cluster with the guards of its databases, in place of those of
// another cluster, unless that is nil.
func (c *cluster) install(instead *cluster) error {
	var guards []*shardGuard
	for i, db := range c.Databases {
		guard, ok := db.Plugins[guardName].(*shardGuard)
		if !ok {
			guard = &shardGuard{plans: c.Engine.Plans}
			if err := db.Use(guard); err != nil {
				return fmt.Errorf("database %d: %w", i, err)
			}
		}
		guards = append(guards, guard)
	}
	for i, guard := range guards {
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

// Initialize registers the guard before all other callbacks of a statement, and around the one that runs it.
func (g *shardGuard) Initialize(db *gorm.DB) error {
	calls := db.Callback()
	for _, one := range []struct {
		name              string
		what              verb
		get               func(name string) func(*gorm.DB)
		replace, register func(name string, fn func(*gorm.DB)) error
	}{
		{"gorm:query", reads, calls.Query().Get, calls.Query().Replace, calls.Query().Before("*").Register},
		{"gorm:row", reads, calls.Row().Get, calls.Row().Replace, calls.Row().Before("*").Register},
		{"gorm:raw", reads, calls.Raw().Get, calls.Raw().Replace, calls.Raw().Before("*").Register},
		{"gorm:create", creates, calls.Create().Get, calls.Create().Replace, calls.Create().Before("*").Register},
		{"gorm:update", updates, calls.Update().Get, calls.Update().Replace, calls.Update().Before("*").Register},
		{"gorm:delete", deletes, calls.Delete().Get, calls.Delete().Replace, calls.Delete().Before("*").Register},
	} {
		err := one.register(callbackRoute, func(db *gorm.DB) { g.route(db, one.what) })
		if run := one.get(one.name); run != nil && err == nil {
			err = one.replace(one.name, g.repeating(run, one.what))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(
		calls.Create().Before("gorm:save_before_associations").Register(callbackNested, g.checkNested(true)),
		calls.Update().Before("gorm:save_before_associations").Register(callbackNested, g.checkNested(false)),
		calls.Create().Before("gorm:create").Register(callbackCheck, fill.CheckShard(g.plans)),
	)
}

// add registers the models of a cluster, and the join tables that GORM makes for them. The cluster that
// it replaces is removed in the same step: in between, statements without a route would get through.
func (g *shardGuard) add(c, instead *cluster) error {
	types := map[reflect.Type]*cluster{}
	if old := g.types.Load(); old != nil {
		maps.Copy(types, *old)
	}
	maps.DeleteFunc(types, func(_ reflect.Type, other *cluster) bool { return other == instead })
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

// byModel returns the cluster that has the model of a statement, or nil.
func (g *shardGuard) byModel(stmt *gorm.Statement) *cluster {
	if stmt.Schema == nil {
		return nil
	}
	return (*g.types.Load())[stmt.Schema.ModelType]
}

// checkNested looks at the rows that GORM is about to save together with those of the statement, after
// hooks have run. creates tells an INSERT from an UPDATE.
func (g *shardGuard) checkNested(creates bool) func(*gorm.DB) {
	return func(db *gorm.DB) {
		if c := g.byModel(db.Statement); c != nil && db.Error == nil {
			_ = db.AddError(c.relations.checkNested(db.Statement, creates))
		}
	}
}

// bindUpdate gives an update the row that it is for. A handle is bound to an empty row of its model, unless
// that is a join table. GORM would take the empty row for the one to update and find no condition, so a row
// with a key that is passed to Save or Updates takes its place.
func bindUpdate(stmt *gorm.Statement, m *shardmap.Model) {
	if m == nil {
		return
	}
	if stmt.Model == m.Value {
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
	fill.ForgetSchema(stmt)
	found := g.locate(db)
	if db.Error != nil || stmt.Schema == nil || stmt.SQL.Len() > 0 {
		return
	}
	if found.cluster != nil && what != reads {
		beginWrite(stmt)
	}
	c := g.byModel(stmt)
	if c == nil && len(stmt.Preloads) == 0 && len(stmt.Joins) == 0 {
		return
	}
	if c != nil && c != found.cluster { // The handle is that of another router, or the map has changed since.
		found = located{cluster: c}
		found.route, found.routed, found.err = c.routeOf(stmt)
	}
	var err error
	if c == nil {
		err = g.checkUnsharded(stmt)
	} else if err = g.apply(found, stmt, what); err == nil && what == updates {
		bindUpdate(stmt, c.ByType[stmt.Schema.ModelType])
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
func (g *shardGuard) apply(found located, stmt *gorm.Statement, what verb) error {
	c, r, routed := found.cluster, found.route, found.routed
	m := c.ByType[stmt.Schema.ModelType]
	if what == deletes {
		if err := c.relations.checkDeleted(stmt); err != nil {
			return err
		}
	}
	switch {
	case found.err != nil:
		return found.err
	case m != nil && m.Broadcast:
		if what != reads && !r.all {
			return fmt.Errorf("%w: %s has its rows in every database of the router: use Router.Create or "+
				"Router.Each", errs.ErrNotRouted, m.Base.Name)
		}
		return c.relations.checkFollowed(stmt)
	case r.together && what == creates && m != nil:
		table, err := c.schemas.shardSchema(r.shard, stmt.Schema.ModelType)
		if err == nil {
			table.name(stmt, what) // The plugin looks at the database of this table.
		}
		return err
	case namesTable(stmt):
		if m != nil && (stmt.Table == m.Base.Table && !namesSubquery(stmt) || namesAlias(stmt, m.Base.Table)) {
			return c.notRouted(stmt)
		}
		return c.relations.checkFollowed(stmt) // It is the table of a shard, or not of the router.
	case !routed || r.all:
		return c.notRouted(stmt)
	case c.databaseOf(r.shard).Plugins[guardName] != gorm.Plugin(g):
		return fmt.Errorf("%w: %s: this is not the database of %s", errs.ErrCrossShard, stmt.Schema.Name, r)
	}
	if carried, ok := c.carried(stmt); ok && carried.topology != r.topology {
		// What hooks and relations do belongs to this statement, and has its map.
		stmt.Context = &routeContext{stmt.Context, c.current, r}
	}
	table, err := c.schemas.shardSchema(r.shard, stmt.Schema.ModelType)
	if err != nil {
		return err
	}
	fill.SetSchema(stmt, table.schema)
	if err = c.relations.checkFollowed(stmt); err == nil && !r.open {
		err = c.relations.checkAssociation(stmt)
	}
	if err != nil {
		return err
	}
	table.name(stmt, what).rename(stmt)
	if r.open || m == nil {
		return nil
	}
	return keyRules{c.Topology, stmt, m, r.shard, what != reads}.checkKeys()
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

func (c *cluster) notRouted(stmt *gorm.Statement) error {
	base := stmt.Schema.Table
	return fmt.Errorf("%w: the rows of %s are in %s to %s: use a handle of Router.DB or a method of the Router",
		errs.ErrNotRouted, stmt.Schema.Name, c.Entry(0).TableOn(base), c.Entry(c.ShardCount-1).TableOn(base))
}

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

// namesSubquery reports whether the table is a subquery without AS and nothing else. GORM leaves the name of
// the model in such a statement, and the subquery has a route of its own.
func namesSubquery(stmt *gorm.Statement) bool {
	alias, is := strings.CutPrefix(stmt.TableExpr.SQL, "(?)")
	if !is || len(stmt.TableExpr.Vars) != 1 || strings.ContainsAny(strings.TrimSpace(alias), ", \t\n") {
		return false
	}
	_, is = stmt.TableExpr.Vars[0].(*gorm.DB)
	return is
}

// located is where a statement goes, by the cluster that its handle belongs to.
type located struct {
	cluster *cluster // nil for a statement that is none of a router's
	route   route
	routed  bool
	err     error
}

// locate finds out where a statement goes. A route of an older map is refused where it cannot be followed.
func (g *shardGuard) locate(db *gorm.DB) (found located) {
	stmt := db.Statement
	if write := writeOf(stmt); write != nil && write.stmt != stmt {
		write.others.Store(true)
	}
	if found.cluster = g.clusterOf(stmt); db.Error != nil || found.cluster == nil {
		return found
	}
	if found.route, found.routed, found.err = found.cluster.routeOf(stmt); !stmt.DryRun {
		_ = db.AddError(found.err)
	}
	return found
}

// clusterOf returns the cluster that a statement belongs to, or nil.
func (g *shardGuard) clusterOf(stmt *gorm.Statement) *cluster {
	if handle, ok := stmt.Plugins[handleName].(handleRoute); ok {
		return handle.current.cluster.Load()
	}
	return g.byModel(stmt)
}

// explainName says what to write if a text has a name for the table in front of a column that the statement
// does not know. An INSERT, and some forms of DELETE, call the table as it is called on the shard, and all
// other statements as it is called in the model.
func (g *shardGuard) explainName(db *gorm.DB) {
	stmt := db.Statement
	c := g.byModel(stmt)
	if c == nil || c.ByType[stmt.Schema.ModelType] == nil {
		return
	}
	text := db.Error.Error()
	for _, table := range []string{c.ByType[stmt.Schema.ModelType].Base.Table, stmt.Schema.Table} {
		_, name := dialect.Split(table)
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

// errMissed is the reason of an ErrShardMap for a statement that is not repeated alone.
var errMissed = errors.New("a table of the shard was not there: if the shard has been split, joined or " +
	"moved, its rows are in others by now, and what was done in this transaction is done again in a new one")

// attempt is a statement that the guard has routed, before it runs.
type attempt struct {
	run   func(*gorm.DB)
	what  verb
	from  clause.Clause
	rows  bool // it is asked by Rows
	given bool // the application has written the whole text
}

// repeating makes a callback of GORM that runs a statement repeat it when its table was not there.
func (g *shardGuard) repeating(run func(*gorm.DB), what verb) func(*gorm.DB) {
	return func(db *gorm.DB) {
		stmt := db.Statement
		fill.KeepSchema(stmt)
		a := attempt{run: run, what: what, from: stmt.Clauses["FROM"], given: stmt.SQL.Len() > 0}
		if what == reads {
			_, a.rows = stmt.Settings.Load("rows")
		}
		if text := stmt.SQL.String(); a.given && strings.HasPrefix(text, "CREATE ") {
			if _, making := stmt.Settings.Load(shardmap.MakingTable); making {
				// No transaction of PostgreSQL makes an index in the way that keeps nobody out.
				stmt.SQL.Reset()
				stmt.SQL.WriteString(strings.Replace(text, "INDEX CONCURRENTLY ", "INDEX ", 1))
			}
		}
		if c := g.clusterOf(stmt); c != nil && what == creates {
			if r, _ := c.current.routeIn(stmt.Context); r.together {
				createTogether(c, db)
				return
			}
		}
		run(db)
		err := failureOf(db)
		if err == nil || stmt.DryRun {
			return
		}
		if dialect.Missing(err) {
			if again := g.repeat(db, a); again != nil {
				db.Error = again
			}
		}
		if db.Error != nil {
			g.explainName(db)
		}
	}
}

// failureOf returns the error of a statement. GORM leaves that of a single row in the row.
func failureOf(db *gorm.DB) error {
	if row, ok := db.Statement.Dest.(*sql.Row); ok && db.Error == nil && row != nil {
		return row.Err()
	}
	return db.Error
}

// repeat runs a statement again whose table was not there, by the map that is valid now. Its error takes the
// place of that of the statement.
func (g *shardGuard) repeat(db *gorm.DB, a attempt) error {
	stmt, failure := db.Statement, failureOf(db)
	c := g.clusterOf(stmt)
	if c == nil {
		return nil
	}
	if r, routed, _ := c.routeOf(stmt); !routed || r.all {
		return nil // Reads of all shards are repeated by the method.
	}
	_, own := db.InstanceGet("gorm:started_transaction")
	if fill.InTransaction(stmt.ConnPool) && (!own || !isAlone(stmt, a.what)) {
		c.doubted.Store(true)
		if fill.Resolves(stmt) {
			failure = fmt.Errorf("%w. Transactions go to the database that gorm.Open was given, also if "+
				"dbresolver has a source beside it. If the table is in that source, give gorm.Open the DSN of the "+
				"source", failure)
		}
		return fmt.Errorf("%w: %w", shardmap.Invalid(errMissed), failure)
	}
	for try := 1; ; try++ {
		if own { // It is aborted on PostgreSQL.
			db.Rollback()
			stmt.ConnPool = db.ConnPool
		}
		changed, err := g.routeAgain(db, a)
		if own {
			db.Error = nil
			callbacks.BeginTransaction(db)
			err = errors.Join(err, db.Error)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, failure)
		}
		if !changed && (try > 1 || a.given) { // A text may be several statements, of which some have run.
			return failure
		}
		db.Error = nil
		a.run(db)
		if failure = failureOf(db); !dialect.Missing(failure) || try == maxTries {
			return failure
		}
	}
}

// writeContext is the context of one write. Others that run in it, for its relations or by callbacks of the
// application, are in its transaction.
type writeContext struct {
	context.Context //nolint:containedctx // It is a context itself.
	stmt            *gorm.Statement
	others          atomic.Bool
}

// writeKey is the key of a writeContext in contexts that are made from it.
type writeKey struct{}

// Value returns the context itself by its key.
func (w *writeContext) Value(key any) any {
	if key == (writeKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// writeOf returns the write in whose context a statement runs, or nil.
func writeOf(stmt *gorm.Statement) *writeContext {
	write, _ := stmt.Context.Value(writeKey{}).(*writeContext)
	return write
}

// beginWrite gives a write its context, or begins anew with the one of its last run.
func beginWrite(stmt *gorm.Statement) {
	if write := writeOf(stmt); write != nil && write.stmt == stmt {
		write.others.Store(false)
		return
	}
	stmt.Context = &writeContext{Context: stmt.Context, stmt: stmt}
}

// isAlone reports whether nothing but a statement of GORM has run in the transaction that GORM has begun for
// it. A hook may also have written without GORM.
func isAlone(stmt *gorm.Statement, what verb) bool {
	write, s := writeOf(stmt), stmt.Schema
	if s == nil || write == nil || write.stmt != stmt || write.others.Load() {
		return false
	}
	hooked := what == creates && (s.BeforeCreate || s.BeforeSave) ||
		what == updates && (s.BeforeUpdate || s.BeforeSave) || what == deletes && s.BeforeDelete
	return stmt.SkipHooks || !hooked
}

// routeAgain gives a statement the table of the map that is valid now. It waits while that is being changed,
// and reports whether there is another table. If not, the statement may run once more, because the cutover
// may have been given up in between.
func (g *shardGuard) routeAgain(db *gorm.DB, a attempt) (changed bool, err error) {
	stmt := db.Statement
	for awaited := false; ; awaited = true {
		c := g.clusterOf(stmt)
		r, _, err := c.routeOf(stmt)
		if err != nil {
			return false, err
		}
		var table *shardSchema
		suffix := ""
		if stmt.Schema != nil && !a.given {
			if table, err = c.schemas.shardSchema(r.shard, stmt.Schema.ModelType); err != nil {
				return false, err
			}
			suffix = strings.TrimPrefix(stmt.Schema.Table, table.base) // empty if the application named the table
		}
		if suffix != "" && (awaited || table.schema.Table != stmt.Schema.Table) {
			changed = table.schema.Table != stmt.Schema.Table
			return changed, g.reroute(db, c, table, r, a, suffix)
		}
		if awaited {
			return false, nil
		}
		changed, err := c.current.await(stmt.Context, c)
		if err == nil && changed && suffix == "" {
			err = shardmap.Invalid(shardmap.ErrMapReplaced)
		}
		if err != nil {
			return false, err
		}
	}
}

// reroute routes a statement that has been built for another table of the model, whose name ends in suffix.
func (g *shardGuard) reroute(
	db *gorm.DB, c *cluster, table *shardSchema, r route, a attempt, suffix string,
) error {
	stmt := db.Statement
	stmt.SQL.Reset()
	stmt.Vars, db.RowsAffected = nil, 0
	if a.rows {
		stmt.Settings.Store("rows", true)
	}
	if a.what == reads {
		from, _ := a.from.Expression.(clause.From)
		before := stmt.Quote(table.base+suffix) + " AS " + stmt.Quote(table.alias)
		if len(from.Tables) > 0 && from.Tables[0].Name == before {
			from.Tables = nil
		}
		a.from.Name, a.from.Expression = "FROM", from
		stmt.Clauses["FROM"] = a.from
	}
	back := renames{tables: map[string]string{}}
	for base := range table.shard.names {
		back.tables[base+suffix] = base
	}
	back.rename(stmt)
	return g.apply(located{cluster: c, route: r, routed: true}, stmt, a.what)
}
