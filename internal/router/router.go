// Package router spreads the rows of models over the tables and databases of shards.
//
// A topology computes where a row is. A cluster adds what GORM needs to run statements there: handles
// that carry a route, schemas whose tables have the number of a shard, and a guard in each database
// that refuses statements without a route. The methods of a Router and of a Resharding build on that.
//
// An ID is an int64 in this package. The root package converts between that and its own types, and
// documents what applications call; comments here say how it is done.
package router

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Router is a cluster with the scopes of its reads. It is safe for concurrent use.
type Router struct {
	*cluster
	scopes  []func(*gorm.DB) *gorm.DB // see Scopes
	current *current
}

// NewRouter compares the configuration with what the databases have recorded before it installs
// anything. Its errors wrap [errs.ErrSharding].
func NewRouter(cfg Config, models ...any) (*Router, error) {
	t, err := newTopology(cfg, models)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	found, err := registry{t}.compare()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	t.version, t.span = found.version, found.span
	if found.shards == t.shards {
		t.staleShards.Store(int64(found.staleShards))
	}
	c := newCluster(t)
	if err := c.install(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	r := &Router{cluster: c, current: &current{}}
	r.current.cluster.Store(c)
	return r, nil
}

// Shards returns the number of shards.
func (r *Router) Shards() int { return r.shards }

// Scopes returns a router on the same cluster. The slice is clipped first, so that two routers made
// from one do not write to the same array.
func (r *Router) Scopes(fns ...func(*gorm.DB) *gorm.DB) *Router {
	return &Router{
		cluster: r.cluster, current: r.current, scopes: append(r.scopes[:len(r.scopes):len(r.scopes)], fns...),
	}
}
