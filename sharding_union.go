package snowflakeplugin

import (
	"context"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// shardsAtOnce is how many tables one statement reads. SQLite takes 500 at most.
const shardsAtOnce = 200

// unionPart is what one statement of a read over several shards asks: some shards of one database.
type unionPart struct {
	database int
	shards   []int
}

// parts divides all shards of a model into statements.
func (r *routing) parts(m *shardModel) []unionPart {
	if m.broadcast {
		return []unionPart{{database: 0, shards: []int{0}}}
	}
	of := make([][]int, len(r.dbs))
	for shard, at := range r.place {
		of[at] = append(of[at], shard)
	}
	var parts []unionPart
	for at, shards := range of {
		for len(shards) > 0 {
			n := min(len(shards), shardsAtOnce)
			parts = append(parts, unionPart{at, shards[:n]})
			shards = shards[n:]
		}
	}
	return parts
}

// statement is SQL with its arguments, under way.
type statement struct {
	sql  strings.Builder
	vars []any
}

// branch completes a SELECT on one shard; number is how the shard is written in SQL.
type branch func(tx *gorm.DB, number string) *gorm.DB

// union writes one SELECT for each shard, joined by UNION ALL; the arguments of one follow those of
// the other. Each SELECT is wrapped because SQLite takes ORDER BY and LIMIT only so.
//
// GORM builds the SELECT, so scopes, soft deletes and the plugins of the application apply. It does
// so once, for a shard without a name, and the rest is filled in; see [template].
func (r *Router) union(
	ctx context.Context, m *shardModel, part unionPart, complete branch,
) (*statement, error) {
	s := &statement{}
	var t *template
	for i, shard := range part.shards {
		if t == nil {
			var err error
			if t, err = r.template(ctx, m, part.database, shard, complete); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			s.sql.WriteString(" UNION ALL ")
		}
		s.sql.WriteString("SELECT * FROM (")
		if t.special || r.isUncleaned(shard) {
			if err := r.literally(ctx, m, part.database, shard, complete, s); err != nil {
				return nil, err
			}
		} else {
			t.fill(s, m.table(shard), shard)
		}
		s.sql.WriteString(") AS s")
		s.sql.WriteString(strconv.Itoa(shard))
	}
	return s, nil
}

// runs returns a handle whose next statement is this one, on the database of the part. It has gone
// through the scopes as well, which may say where to read, and what hooks see.
func (r *Router) runs(ctx context.Context, m *shardModel, part unionPart, s *statement) *gorm.DB {
	tx := r.scoped(r.bind(ctx, r.dbs[part.database], route{all: true}, m.value))
	tx.Statement.SQL.WriteString(s.sql.String())
	tx.Statement.Vars = s.vars
	return tx
}

// checkWhole refuses a read over all shards from within a transaction on one of them.
func (r *routing) checkWhole(ctx context.Context, m *shardModel) error {
	if m.broadcast {
		return nil
	}
	for shard := range min(r.shards, 2) { // a transaction cannot be on both
		if err := r.checkLocked(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// acrossParts runs do for each part, several at a time. Its errors name the shards.
func (r *routing) acrossParts(ctx context.Context, parts []unionPart, do func(i int) error) error {
	err := scatter(ctx, len(parts), do)
	partial, ok := err.(*PartialError) //nolint:errorlint // it is scatter's own
	if !ok {
		return err
	}
	errs := make([]error, r.shards)
	for i, failure := range partial.Failed {
		for _, shard := range parts[i].shards {
			errs[shard] = failure
		}
	}
	return partialOf(errs)
}
