package router

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// maxTablesPerStatement bounds the tables that one statement reads. SQLite allows 500.
const maxTablesPerStatement = 200

// unionPart is what one statement of a read over all shards covers: some shards of one database.
type unionPart struct {
	database int
	shards   []int
}

// partsOf divides all shards of a model into statements.
func partsOf(t *topology, m *shardModel) []unionPart {
	if m.broadcast {
		return []unionPart{{database: 0, shards: []int{0}}}
	}
	of := make([][]int, len(t.dbs))
	for shard, at := range t.place {
		of[at] = append(of[at], shard)
	}
	var parts []unionPart
	for at, shards := range of {
		for len(shards) > 0 {
			n := min(len(shards), maxTablesPerStatement)
			parts = append(parts, unionPart{at, shards[:n]})
			shards = shards[n:]
		}
	}
	return parts
}

// acrossParts runs do for each part, several at a time. Its errors are about shards, not parts.
func acrossParts(ctx context.Context, t *topology, parts []unionPart, do func(i int) error) error {
	err := scatter(ctx, len(parts), func(i int) error {
		at := parts[i].database
		if err := t.checkLease(ctx, at, nil, beforeStatement); err != nil {
			return err
		}
		if err := do(i); err != nil {
			return err
		}
		return t.checkLease(ctx, at, nil, afterStatement)
	})
	partial, ok := err.(*PartialError) //nolint:errorlint // scatter returns it unwrapped
	if !ok {
		return err
	}
	failures := make([]error, t.shards)
	for i, failure := range partial.Failed {
		for _, shard := range parts[i].shards {
			failures[shard] = failure
		}
	}
	return partialError(failures)
}

// statement is SQL under construction, with its arguments.
type statement struct {
	sql  strings.Builder
	vars []any
}

// branch completes the SELECT on one shard. number is how the shard is written in SQL.
type branch func(tx *gorm.DB, number string) *gorm.DB

// union joins one SELECT for each shard by UNION ALL. The arguments follow in the same order. Each SELECT
// is wrapped in another, because SQLite accepts ORDER BY and LIMIT only so.
//
// GORM builds the SELECT, so scopes, soft deletes and plugins of the application apply. It builds only
// one for all shards where a template can be made of that.
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
		if t.special {
			if err := r.buildForShard(ctx, m, part.database, shard, complete, s); err != nil {
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

// ready returns a handle that has a finished statement as its next one. It has gone through the scopes
// as well: they may choose a replica, and hooks see what they set.
func (r *Router) ready(ctx context.Context, m *shardModel, part unionPart, s *statement) *gorm.DB {
	tx := r.scoped(r.bind(ctx, r.dbs[part.database], route{all: true}, m.value))
	tx.Statement.SQL.WriteString(s.sql.String())
	tx.Statement.Vars = s.vars
	return tx
}

// scoped applies the functions of Scopes. Their conditions become one group, even a single one, so that an OR
// among them does not bypass the conditions that the router adds.
func (r *Router) scoped(tx *gorm.DB) *gorm.DB {
	if len(r.scopes) == 0 {
		return tx
	}
	for _, fn := range r.scopes {
		tx = fn(tx)
	}
	tx = tx.Session(&gorm.Session{}).Model(tx.Statement.Model) // a statement of its own
	if err := checkScopes(tx.Statement); err != nil {
		_ = tx.AddError(err)
	}
	if where, ok := tx.Statement.Clauses["WHERE"].Expression.(clause.Where); ok && len(where.Exprs) > 0 {
		of := tx.Statement.Clauses["WHERE"]
		of.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		tx.Statement.Clauses["WHERE"] = of
	}
	return tx
}

// checkScopes refuses what means something else on each shard than on all of them together.
func checkScopes(stmt *gorm.Statement) error {
	for _, c := range []struct{ name, what string }{
		{"GROUP BY", "Group or Having"}, {"ORDER BY", "Order"}, {"LIMIT", "Limit or Offset"},
	} {
		if _, found := stmt.Clauses[c.name]; found {
			return fmt.Errorf("%w: Scopes with %s: each shard would answer for itself: read the rows, or use "+
				"Router.Each and put the answers together", gorm.ErrInvalidValue, c.what)
		}
	}
	if stmt.Distinct {
		return fmt.Errorf("%w: Scopes with Distinct: each shard would answer for itself: read the rows, or use "+
			"Router.Each and put the answers together", gorm.ErrInvalidValue)
	}
	return nil
}

// buildForShard lets GORM build the SELECT for one shard, and appends it to a statement.
func (r *Router) buildForShard(
	ctx context.Context, m *shardModel, database, shard int, complete branch, s *statement,
) error {
	tx := r.bind(ctx, r.dbs[database], route{shard: shard}, m.value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx = complete(r.scoped(tx.Model(m.value)), strconv.Itoa(shard))
	tx.Statement.Vars = s.vars // because placeholders are numbered by position
	tx = tx.Find(m.slice())
	s.sql.WriteString(tx.Statement.SQL.String())
	s.vars = tx.Statement.Vars
	return tx.Error
}

// template is a SELECT that leaves open which shard it is for. GORM needs ten times as long to build a
// statement as it takes to fill in a template, and a page over 64 shards has 64 of them.
type template struct {
	dialect gorm.Dialector
	sql     string
	vars    []any
	quote   string // of the dialect
	// special marks a SELECT that differs between shards by more than can be left open.
	special bool
}

// What stands in a template for the parts that differ from shard to shard. openTable is the third of
// them. No SQL contains these characters.
const (
	openNumber   = '\x01' // the number of the shard
	openArgument = '\x02' // a placeholder, which some databases number
)

// template lets GORM build a SELECT without running it.
func (r *Router) template(
	ctx context.Context, m *shardModel, database, shard int, complete branch,
) (*template, error) {
	to := route{shard: shard}
	if !m.broadcast {
		to.open = &opening{of: m}
	}
	db := r.dbs[database]
	tx := r.bind(ctx, db, to, m.value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx.Dialector = openPlaceholders{db.Dialector} // in this session's copy of the configuration
	tx = complete(r.scoped(tx.Model(m.value)), string(openNumber)).Find(m.slice())
	if tx.Error != nil {
		return nil, tx.Error
	}
	t := &template{
		dialect: db.Dialector, sql: tx.Statement.SQL.String(), vars: tx.Statement.Vars,
		quote: db.Statement.Quote("x")[:1],
	}
	// A subquery by a handle of the application has placeholders of its own.
	t.special = to.open != nil && to.open.others ||
		strings.Count(t.sql, string(openArgument)) != len(t.vars)
	return t, nil
}

// openPlaceholders is a dialect that leaves placeholders open.
type openPlaceholders struct{ gorm.Dialector }

// BindVarTo writes the character for a placeholder.
func (openPlaceholders) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) {
	_ = w.WriteByte(openArgument)
}

// fill appends the SELECT for a shard to a statement.
func (t *template) fill(s *statement, table string, shard int) {
	args := t.vars
	table = strings.ReplaceAll(table[strings.LastIndexByte(table, '.')+1:], t.quote, t.quote+t.quote)
	for rest := t.sql; ; {
		at := strings.IndexAny(rest, string([]rune{openTable, openNumber, openArgument}))
		if at < 0 {
			s.sql.WriteString(rest)
			return
		}
		s.sql.WriteString(rest[:at])
		switch rest[at] {
		case openTable:
			s.sql.WriteString(table)
		case openNumber:
			s.sql.WriteString(strconv.Itoa(shard))
		case openArgument:
			s.vars = append(s.vars, args[0])
			t.dialect.BindVarTo(&s.sql, &gorm.Statement{Vars: s.vars}, args[0])
			args = args[1:]
		}
		rest = rest[at+1:]
	}
}
