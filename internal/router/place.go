package router

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Shard checks the ID before it computes the shard.
func (r *Router) Shard(id int64) (int, error) {
	if err := r.checkID(id); err != nil {
		return 0, err
	}
	return r.shardOf(id), nil
}

// Table looks the name up in the list that NewRouter made.
func (r *Router) Table(model any, id int64) (string, error) {
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

// DB returns a handle with the route of the shard.
func (r *Router) DB(ctx context.Context, model any, id int64) (*gorm.DB, error) {
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

// Explanation is what an ID tells about its row.
type Explanation struct {
	ID       int64
	Shard    int
	Database int
	Dialect  string
	Tables   []string
	Parts    generator.Parts
}

// Explain decomposes the ID and looks up the place of its shard.
func (r *Router) Explain(id int64) (Explanation, error) {
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
	e.Parts, err = r.layout.Decompose(id)
	return e, err
}

// String returns the explanation as a sentence.
func (e Explanation) String() string {
	return fmt.Sprintf("%d is on shard %d, in database %d (%s), table %s; made %s on node %d, sequence %d",
		e.ID, e.Shard, e.Database, e.Dialect, strings.Join(e.Tables, " or "),
		e.Parts.Time.UTC().Format(time.RFC3339Nano), e.Parts.Node, e.Parts.Sequence)
}
