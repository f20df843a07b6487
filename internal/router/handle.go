package router

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

const handleName = fill.PluginName + "_handle"

// route says where a statement goes.
type route struct {
	shard int
	// all marks a statement of the router itself over several shards or databases.
	all bool
	// open, if set, leaves the name of the table open, because the statement becomes a template.
	open *opening
	// locked marks a statement of a transaction, which cannot reach other shards.
	locked bool
}

// openTable stands in a template for the name of the table. No SQL contains this character.
const openTable = '\x00'

// opening is what the guard reports about a statement that is built for a template.
type opening struct {
	of *shardmap.Model
	// others is set when a scope involves other tables of the shard. The template cannot tell their
	// names from the open one.
	others bool
}

// routeKey is the key of a route in a context and in the settings of a statement. Both are needed:
// hooks get a new session with the old context, and WithContext makes a new context with the old
// settings.
type routeKey struct{ of *shardmap.Topology }

// handleRoute is the route of a handle. It is kept among the plugins of the handle's own copy of the
// configuration, because gorm.G makes a new session with a new context.
type handleRoute struct {
	of *shardmap.Topology
	to route
}

// Name and Initialize let GORM keep the route among plugins.
func (handleRoute) Name() string              { return handleName }
func (handleRoute) Initialize(*gorm.DB) error { return nil }

// handles makes handles whose statements carry a route.
type handles struct {
	*shardmap.Topology
	// plugins caches, by shard, the plugins of handles that are only for that shard.
	plugins []atomic.Pointer[map[string]gorm.Plugin]
}

func newHandles(t *shardmap.Topology) handles {
	return handles{t, make([]atomic.Pointer[map[string]gorm.Plugin], t.ShardCount)}
}

// handle returns a handle made from a session, for any number of statements. They take the route and
// are bound to the model, unless that is nil.
func (h *handles) handle(ctx context.Context, db *gorm.DB, to route, model any) *gorm.DB {
	tx := db.Model(model)
	tx.Statement.Context = context.WithValue(ctx, routeKey{h.Topology}, to)
	tx = tx.Session(&gorm.Session{}) // which copies the configuration
	tx.Plugins = h.withRoute(tx.Plugins, to)
	return tx
}

// handleOn returns a handle for a shard.
func (h *handles) handleOn(ctx context.Context, shard int, model any) *gorm.DB {
	return h.handle(ctx, h.Databases[h.Place[shard]], route{shard: shard}, model)
}

// withRoute returns the plugins together with a route.
func (h *handles) withRoute(plugins map[string]gorm.Plugin, to route) map[string]gorm.Plugin {
	simple := to == route{shard: to.shard}
	if simple {
		made := h.plugins[to.shard].Load()
		if made != nil && len(*made) == len(plugins)+1 {
			return *made
		}
	}
	more := make(map[string]gorm.Plugin, len(plugins)+1)
	maps.Copy(more, plugins)
	more[handleName] = handleRoute{h.Topology, to}
	if simple {
		h.plugins[to.shard].Store(&more)
	}
	return more
}

// session returns a handle for the router's own statements.
func (h *handles) session(ctx context.Context, database int, to route) *gorm.DB {
	return h.bind(ctx, h.Databases[database], to, nil).Session(&gorm.Session{})
}

// bind begins one statement that takes a route and is bound to a model, unless that is nil. The
// session must be new. It is cheaper than handle, which copies the configuration of the database.
func (h *handles) bind(ctx context.Context, db *gorm.DB, to route, model any) *gorm.DB {
	tx := db.Model(model)
	tx.Statement.Context = context.WithValue(ctx, routeKey{h.Topology}, to)
	tx.Statement.Settings.Store(routeKey{h.Topology}, to)
	return tx
}

// routeOf returns the route of a statement. The statement or its handle carries the route. A context alone
// has one in hooks, where GORM makes a new session with the context of the statement. If both have one they
// have to agree, because a context can come from anywhere.
func (h *handles) routeOf(stmt *gorm.Statement) (to route, routed bool, err error) {
	of, inContext := stmt.Context.Value(routeKey{h.Topology}).(route)
	to, routed = h.carried(stmt)
	switch {
	case !routed:
		return of, inContext, nil
	case inContext && (of.shard != to.shard || of.all != to.all):
		return to, true, fmt.Errorf("%w: the handle is for %s, and its context is that of %s: give the handle a "+
			"context of the application, or use the handle that has this context", errs.ErrCrossShard, to, of)
	case inContext && of.locked:
		return of, true, nil
	}
	return to, true, nil
}

// carried returns the route that the statement or its handle carries.
func (h *handles) carried(stmt *gorm.Statement) (route, bool) {
	value, _ := stmt.Settings.Load(routeKey{h.Topology})
	if to, ok := value.(route); ok {
		return to, true
	}
	handle, ok := stmt.Plugins[handleName].(handleRoute)
	return handle.to, ok && handle.of == h.Topology
}

// String names the route in errors.
func (to route) String() string {
	switch {
	case to.all:
		return "a statement over several shards"
	case to.locked:
		return fmt.Sprintf("a transaction on shard %d", to.shard)
	}
	return fmt.Sprintf("shard %d", to.shard)
}

// checkLocked refuses to leave the shard of the transaction that a context belongs to.
func (h *handles) checkLocked(ctx context.Context, shard int) error {
	if to, ok := ctx.Value(routeKey{h.Topology}).(route); ok && to.locked && to.shard != shard {
		return fmt.Errorf("%w: the transaction is on shard %d, the row on shard %d", errs.ErrCrossShard,
			to.shard, shard)
	}
	return nil
}

// checkUnlocked refuses a read of all shards with the context of a transaction on one of them.
func (h *handles) checkUnlocked(ctx context.Context, m *shardmap.Model) error {
	if m.Broadcast {
		return nil
	}
	for shard := range min(h.ShardCount, 2) { // A transaction cannot be on both.
		if err := h.checkLocked(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}
