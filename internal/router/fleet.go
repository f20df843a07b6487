package router

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// maxMapWait is how long a method of the router waits for the end of a cutover.
	maxMapWait = 10 * time.Second
	// mapPoll is the time between two looks at the records meanwhile.
	mapPoll = 20 * time.Millisecond
)

// current is the cluster of the shard map that is valid now. The routers that one call of NewRouter and
// calls of Scopes have made share it, so all of them follow a cutover.
type current struct {
	cluster  atomic.Pointer[cluster]
	adopting sync.Mutex // held while the cluster is replaced
}

// At returns the router with the cluster of the valid map. While a cutover is under way, it waits.
func (r *Router) At(ctx context.Context) (*Router, error) {
	for began := time.Now(); ; {
		c := r.current.cluster.Load()
		err := c.lookAtMaps(ctx)
		if err == nil {
			return r.on(c), nil
		}
		if !errors.Is(err, errs.ErrShardMap) {
			return nil, err
		}
		err = r.current.adopt(ctx, c, c.dbs)
		if err == nil && r.current.cluster.Load() != c {
			continue
		}
		if err == nil {
			err = mapError(errMapClosed) // until a moment ago
		}
		if !errors.Is(err, errMapClosed) || time.Since(began) > maxMapWait {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, errs.Ended(ctx))
		case <-time.After(mapPoll):
		}
	}
}

// Known returns the router with the cluster that the process has used last, without asking a database.
func (r *Router) Known() *Router { return r.on(r.current.cluster.Load()) }

// on returns a router with the same scopes on a cluster.
func (r *Router) on(c *cluster) *Router {
	if r.cluster == c {
		return r
	}
	return &Router{cluster: c, scopes: r.scopes, current: r.current}
}

// lookAtMaps renews the leases that are not fresh, and returns an error if the map has changed and a lease
// ends soon, or if the tables hold rows of another rule. A database that does not answer is left to the
// statements that need it. Statements in a transaction do not renew a lease themselves, so without this, the
// leases of busy processes would end up to a whole span before a cutover can begin.
func (c *cluster) lookAtMaps(ctx context.Context) error {
	if to, ok := ctx.Value(routeKey{c.topology}).(route); ok && to.locked {
		return nil // The transaction may hold the only connection.
	}
	for i, l := range c.leases {
		if l.isFresh() || l.lasts(mapReserve) || younger(l.failed.Load(), mapPatience) {
			continue
		}
		suffices := l.holds(mapReserve)
		if suffices && !hasFreeConnection(c.dbs[i]) {
			continue // The caller may hold the only one.
		}
		if !l.renewing.TryLock() {
			if !suffices && l.refused.Load() != nil {
				return mapError(errMapClosed)
			}
			continue // Another goroutine is renewing it, and the statement waits for that.
		}
		err := c.renewMap(ctx, i, c.dbs[i].ConnPool)
		l.renewing.Unlock()
		if errors.Is(err, errs.ErrShardMap) && !l.holds(mapReserve) || errors.Is(err, errs.ErrSharding) {
			return err
		}
	}
	return nil
}

// adopt replaces a cluster by that of the map that the databases have recorded. dbs are the databases of
// the new one. It returns nil if there is nothing to replace any more.
func (f *current) adopt(ctx context.Context, from *cluster, dbs []*gorm.DB) error {
	f.adopting.Lock()
	defer f.adopting.Unlock()
	return f.replace(ctx, from, dbs, false)
}

// replace is adopt for a caller that holds the mutex. If finishes is set, it finishes a cutover that all
// databases have recorded.
func (f *current) replace(ctx context.Context, from *cluster, dbs []*gorm.DB, finishes bool) error {
	if f.cluster.Load() != from {
		return nil
	}
	t, err := from.successor(ctx, dbs, finishes)
	if t == nil || err != nil {
		return err
	}
	to := newCluster(t)
	to.before = from
	if err := to.install(from); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	f.cluster.Store(to)
	from.endLeases() // so that its handles are refused at once
	return nil
}

// successor makes the topology that the databases have recorded. It returns nil if that is this one.
func (t *topology) successor(ctx context.Context, dbs []*gorm.DB, finishes bool) (*topology, error) {
	to := &topology{dbs: dbs, models: t.models}
	found := mapState{}
	place := map[int]int{}
	for i := range dbs {
		records, err := (registry{to}).recordsIn(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("snowflakeplugin: the shard map: %w", err)
		}
		for _, c := range records {
			found.add(c)
			for _, shard := range readShards(c.Held) {
				place[shard] = i
			}
		}
	}
	switch {
	case found.mixed || found.next != 0 && (found.shards != found.next || !finishes):
		return nil, mapError(errMapClosed)
	case len(place) != found.shards:
		return nil, mapError(fmt.Errorf("by now there are %d shards, and some of them are in databases that "+
			"this process does not have: start it again with the new Databases and Place", found.shards))
	}
	if found.version < t.version || found.version == t.version && found.shards == t.shards {
		return nil, nil
	}
	next, err := newTopology(Config{
		EngineOf: t.engineOf, Layout: t.layout, Shards: found.shards, Databases: dbs,
		Place: func(shard int) int { return place[shard] },
	}, t.given())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	next.version, next.span = found.version, found.span
	next.staleShards.Store(int64(found.staleShards))
	if found.next != 0 {
		return next, registry{next}.finish(ctx)
	}
	return next, nil
}

// mapState is what the records of all databases say together.
type mapState struct {
	shards, next, staleShards int
	version                   int64
	span                      time.Duration
	any, mixed                bool // mixed: they do not agree, because a cutover is under way
}

func (s *mapState) add(c shardRecord) {
	if s.any && (c.Version != s.version || c.Shards != s.shards) {
		s.mixed = true
	}
	s.any, s.version, s.shards = true, max(s.version, c.Version), max(s.shards, c.Shards)
	s.span = max(s.span, time.Duration(c.LeaseMillis)*time.Millisecond)
	s.next, s.staleShards = max(s.next, c.NextShards), max(s.staleShards, c.StaleShards)
}

// readShards is the inverse of topology.shardsIn.
func readShards(held string) []int {
	var shards []int
	for part := range strings.SplitSeq(held, ",") {
		first, last, isRun := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		to := from
		if isRun {
			to, _ = strconv.Atoi(last)
		}
		for shard := from; shard <= to; shard++ {
			shards = append(shards, shard)
		}
	}
	return shards
}

// checkStatement is checkLease for a statement with the route of a shard.
func (g *shardGuard) checkStatement(ctx context.Context, db *gorm.DB, when stage) error {
	stmt := db.Statement
	if db.Error != nil || stmt.DryRun {
		return nil
	}
	var t *topology
	var to route
	if handle, ok := stmt.Plugins[handleName].(handleRoute); ok {
		t, to = handle.of, handle.to
	} else if stmt.Schema != nil {
		if c := (*g.types.Load())[stmt.Schema.ModelType]; c != nil {
			var err error
			if to, ok, err = c.routeOf(stmt); err != nil {
				return err
			}
			if ok {
				t = c.topology
			}
		}
	}
	if t == nil || to.all {
		return nil // Reads of all shards check it themselves.
	}
	return t.checkLease(ctx, t.place[to.shard], stmt.ConnPool, when)
}

// checkBefore and checkAfter are callbacks around a statement. An error after it takes the statement back,
// if it is in a transaction.
func (g *shardGuard) checkBefore(db *gorm.DB) {
	_ = db.AddError(g.checkStatement(db.Statement.Context, db, beforeStatement))
}

func (g *shardGuard) checkAfter(db *gorm.DB) {
	ctx := db.Statement.Context
	switch db.Statement.Dest.(type) {
	case *sql.Rows, *sql.Row:
		// The open rows may hold the only connection, so to wait for another one could have no end.
		limited, cancel := context.WithTimeout(ctx, mapPatience)
		defer cancel()
		ctx = limited
	}
	err := g.checkStatement(ctx, db, afterStatement)
	if err == nil {
		return
	}
	_ = db.AddError(err)
	closeRows(db.Statement)
}

// closeRows gives up the rows that a refused statement has opened.
func closeRows(stmt *gorm.Statement) {
	switch rows := stmt.Dest.(type) {
	case *sql.Rows:
		_ = rows.Close()
	case *sql.Row:
		_ = rows.Scan() // GORM drops the error of the statement, so the row must have one of its own.
		ended, cancel := context.WithCancel(stmt.Context)
		cancel()
		stmt.Dest = stmt.ConnPool.QueryRowContext(ended, "SELECT 1")
	}
}
