package router

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

const handleName = fill.PluginName + "_handle"

// route says where a statement goes.
type route struct {
	shard int
	// topology is the map that has the shard, unless all is set. The handle may be older than the map of the
	// cluster.
	topology *shardmap.Topology
	// id is an ID whose shard it is, or 0 if the route is for the shard as a whole.
	id int64
	// all marks a statement of the router itself over several shards or databases.
	all bool
	// together marks a create that stores rows of several shards by one statement.
	together bool
	// open marks a statement that is not only for this shard: it becomes a template for others.
	open bool
	// locked marks a statement of a transaction, which cannot reach other shards.
	locked bool
}

// cluster is a topology with what GORM needs to run statements on it. All routers that Scopes returns
// share one.
type cluster struct {
	*shardmap.Topology
	current   *current
	schemas   schemas
	relations relations
	// plugins caches, by shard, the plugins of handles that are only for that shard.
	plugins []atomic.Pointer[map[string]gorm.Plugin]
	// doubted is set when a table of the map was not found, until the map has been read again.
	doubted atomic.Bool
}

func newCluster(t *shardmap.Topology, current *current) *cluster {
	return &cluster{
		Topology: t, current: current, schemas: schemas{t, make([]shardSchemas, t.ShardCount)},
		relations: relationsOf(t), plugins: make([]atomic.Pointer[map[string]gorm.Plugin], t.ShardCount),
	}
}

// Router is a cluster with the scopes of its reads. It is safe for concurrent use.
type Router struct {
	*cluster
	scopes []func(*gorm.DB) *gorm.DB // see Scopes
}

// current is the cluster of the shard map that is valid now. The routers that one call of NewRouter and
// calls of Scopes have made share it, so all of them follow a cutover.
type current struct {
	cluster  atomic.Pointer[cluster]
	adopting sync.Mutex // held while the cluster is replaced
}

// When a shard is split, joined or moved, its rows go to tables under new names, and the old ones are renamed
// away in the step that records the new map. So a statement by an older map does not find its table, and has
// done nothing. That is when a process reads the map again. It repeats the statement by the new map, unless
// the statement ran in a transaction.

const (
	// maxFollow is how long a statement waits for the entry of its shard to be replaced.
	maxFollow = 10 * time.Second
	// followPoll is the time between two looks at the records meanwhile.
	followPoll = 5 * time.Millisecond
	// maxTries is how often a statement runs at the most.
	maxTries = 8
)

// reread replaces a cluster by that of the map that the databases have recorded, if that is another one.
func (f *current) reread(ctx context.Context, from *cluster) error {
	f.adopting.Lock()
	defer f.adopting.Unlock()
	if f.cluster.Load() != from {
		return nil
	}
	t, err := shardmap.Registry{Topology: from.Topology}.Successor(ctx)
	if err != nil {
		return err
	}
	from.doubted.Store(false)
	if t == nil {
		return nil
	}
	next := newCluster(t, f)
	if err := next.install(from); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	f.cluster.Store(next)
	return nil
}

// await is reread that waits while the map is being changed. It reports whether the tables of the valid map
// are others than those of a cluster that did not find its own.
func (f *current) await(ctx context.Context, from *cluster) (changed bool, err error) {
	for began := time.Now(); ; {
		err := f.reread(ctx, f.cluster.Load())
		c := f.cluster.Load()
		late := time.Since(began) > maxFollow
		switch {
		case err != nil && (late || !dialect.Busy(err)):
			return false, err
		case !sameTables(from, c):
			return true, nil
		case err == nil && !hasClosed(c):
			return false, nil
		case late:
			return false, shardmap.Invalid(shardmap.ErrMapClosed)
		}
		select {
		case <-ctx.Done():
			return false, errs.Ended(ctx)
		case <-time.After(followPoll):
		}
	}
}

// sameTables reports whether the maps of two clusters lead to the same tables.
func sameTables(a, b *cluster) bool {
	return a == b || slices.EqualFunc(a.Entries(), b.Entries(), func(x, y shardmap.Entry) bool {
		x.Closed, y.Closed = false, false
		return x == y
	})
}

func hasClosed(c *cluster) bool {
	return slices.ContainsFunc(c.Entries(), func(e shardmap.Entry) bool { return e.Closed })
}

type routeKey struct{ current *current }

// routeContext is a context with a route. One takes an allocation, where context.WithValue takes two.
type routeContext struct {
	context.Context //nolint:containedctx // It is a context itself.
	current         *current
	route           route
}

// Value returns the route by its key.
func (c *routeContext) Value(key any) any {
	if k, ok := key.(routeKey); ok && k.current == c.current {
		return &c.route
	}
	return c.Context.Value(key)
}

func (f *current) routeIn(ctx context.Context) (r route, ok bool) {
	if known, found := ctx.Value(routeKey{f}).(*route); found {
		return *known, true
	}
	return r, false
}

// handleRoute is the route of a handle. It is kept among the plugins of the handle's own copy of the
// configuration, because gorm.G makes a new session with a new context.
type handleRoute struct {
	current *current
	route   route
}

// Name and Initialize let GORM keep the route among plugins.
func (handleRoute) Name() string              { return handleName }
func (handleRoute) Initialize(*gorm.DB) error { return nil }

func (c *cluster) routeTo(shard int) route { return route{shard: shard, topology: c.Topology} }

// handle returns a handle made from a session without conditions, for any number of statements. They take
// the route and are bound to the model, unless that is nil.
func (c *cluster) handle(ctx context.Context, db *gorm.DB, r route, model any) *gorm.DB {
	// The session copies the configuration, and the statement of the one that it is made from.
	tx := db.Session(&gorm.Session{Context: &routeContext{ctx, c.current, r}})
	tx.Statement.Model = model
	tx.Plugins = c.withRoute(tx.Plugins, r)
	return tx
}

func (c *cluster) databaseOf(shard int) *gorm.DB { return c.Databases[c.Entry(shard).Database] }

func (c *cluster) handleOn(ctx context.Context, shard int, model any) *gorm.DB {
	return c.handle(ctx, c.databaseOf(shard), c.routeTo(shard), model)
}

// withRoute returns the plugins together with a route. They do not have its ID, for all routes of a shard
// share them.
func (c *cluster) withRoute(plugins map[string]gorm.Plugin, r route) map[string]gorm.Plugin {
	r.id = 0
	simple := !r.all && r == c.routeTo(r.shard)
	if simple {
		made := c.plugins[r.shard].Load()
		if made != nil && len(*made) == len(plugins)+1 {
			return *made
		}
	}
	more := make(map[string]gorm.Plugin, len(plugins)+1)
	maps.Copy(more, plugins)
	more[handleName] = handleRoute{c.current, r}
	if simple {
		c.plugins[r.shard].Store(&more)
	}
	return more
}

// routeOf returns the route of a statement. Its handle carries the route. A context alone
// has one in hooks, where GORM makes a new session with the context of the statement. If both have one they
// have to agree, because a context can come from anywhere. The route is one of the cluster's map.
func (c *cluster) routeOf(stmt *gorm.Statement) (r route, routed bool, err error) {
	given, inContext := c.current.routeIn(stmt.Context)
	r, routed = c.carried(stmt)
	if inContext && routed {
		if given.shard != r.shard && given.topology == r.topology && !given.all || given.all != r.all {
			return r, true, fmt.Errorf("%w: the handle is for %s, and its context is that of %s: give the handle "+
				"a context of the application, or use the handle that has this context", errs.ErrCrossShard, r, given)
		}
		if !given.all && given.topology == c.Topology || given.locked ||
			given.id != 0 && given.topology == r.topology {
			r = given
		}
	} else if inContext {
		r, routed = given, true
	}
	if !routed || r.all || r.topology == c.Topology {
		return r, routed, nil
	}
	r, err = c.follow(r, fill.InTransaction(stmt.ConnPool))
	return r, true, err
}

// follow returns the route that takes the place of one of an older map. A route for an ID goes where the ID
// is now, and one for a whole shard where the tables of that have gone. A transaction that began before sees
// the new tables as they were then, so it is refused, as is a statement that needs the pool of another
// database.
func (c *cluster) follow(r route, inside bool) (route, error) {
	before := r.topology.Entry(r.shard)
	shard := c.ShardOf(int64(before.Residue))
	if r.id != 0 {
		shard = c.ShardOf(r.id)
	}
	now := c.Entry(shard)
	switch {
	case now.Database != before.Database, r.id == 0 && now.Class != before.Class,
		(r.locked || inside) && now.Generation != before.Generation:
		return r, shardmap.Invalid(shardmap.ErrMapReplaced)
	}
	r.shard, r.topology = shard, c.Topology
	return r, nil
}

// carried returns the route that the handle of a statement carries.
func (c *cluster) carried(stmt *gorm.Statement) (route, bool) {
	handle, ok := stmt.Plugins[handleName].(handleRoute)
	return handle.route, ok && handle.current == c.current
}

// String names the route in errors.
func (r route) String() string {
	switch {
	case r.all:
		return "a statement over several shards"
	case r.locked:
		return fmt.Sprintf("a transaction on shard %d", r.number())
	}
	return fmt.Sprintf("shard %d", r.number())
}

// number is what applications know the shard by.
func (r route) number() int { return r.topology.Entry(r.shard).Residue }

// shardOf returns the number of the shard inside this module. The number is checked first.
func (c *cluster) shardOf(id int64) (int, error) {
	if err := c.CheckID(id); err != nil {
		return 0, err
	}
	return c.ShardOf(id), nil
}

// reach returns the shard of an ID, unless the context is that of a transaction on another one.
func (c *cluster) reach(ctx context.Context, id int64) (int, error) {
	shard, err := c.shardOf(id)
	if err == nil {
		err = c.checkLocked(ctx, shard)
	}
	return shard, err
}

// checkLocked refuses to leave the shard of the transaction that a context belongs to.
func (c *cluster) checkLocked(ctx context.Context, shard int) error {
	r, ok := c.current.routeIn(ctx)
	if !ok || !r.locked {
		return nil
	}
	if r.topology != c.Topology {
		var err error
		if r, err = c.follow(r, true); err != nil {
			return err
		}
	}
	if r.shard != shard {
		return fmt.Errorf("%w: the transaction is on shard %d, the row on shard %d", errs.ErrCrossShard,
			r.number(), c.Entry(shard).Residue)
	}
	return nil
}

// checkUnlocked refuses a read of all shards with the context of a transaction on one of them.
func (c *cluster) checkUnlocked(ctx context.Context, m *shardmap.Model) error {
	if m.Broadcast {
		return nil
	}
	for shard := range min(c.ShardCount, 2) { // A transaction cannot be on both.
		if err := c.checkLocked(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// isLocked reports whether a context is that of a transaction, which may hold the only connection.
func (c *cluster) isLocked(ctx context.Context) bool {
	r, ok := c.current.routeIn(ctx)
	return ok && r.locked
}
