package router

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

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
	t, err := from.Successor(ctx)
	if err != nil {
		return err
	}
	from.doubted.Store(false)
	if t == nil {
		return nil
	}
	to := newCluster(t, f)
	if err := to.install(from); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	f.cluster.Store(to)
	return nil
}

// await is reread that waits while the map is being changed. It reports whether the tables of the valid map
// are others than those of a cluster that did not find its own.
func (f *current) await(ctx context.Context, from *cluster) (changed bool, err error) {
	for began := time.Now(); ; {
		err := f.reread(ctx, f.cluster.Load())
		c := f.cluster.Load()
		switch {
		case err != nil && !errors.Is(err, errs.ErrShardMap):
			return false, err
		case err == nil && !sameTables(from, c):
			return true, nil
		case err == nil && !hasClosed(c):
			return false, nil
		case time.Since(began) > maxFollow:
			return false, cmp.Or(err, shardmap.Invalid(shardmap.ErrMapClosed))
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
		a := attempt{run: run, what: what, from: stmt.Clauses["FROM"], given: stmt.SQL.Len() > 0}
		if what == reads {
			_, a.rows = stmt.Settings.Load("rows")
		}
		if c := g.clusterOf(stmt); c != nil && what == creates {
			if to, _ := c.current.routeIn(stmt.Context); to.together {
				c.createTogether(db)
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
	to, routed := c.carried(stmt)
	if of, inContext := c.current.routeIn(stmt.Context); inContext && !routed {
		to, routed = of, true
	}
	if !routed || to.all {
		return nil // Reads of all shards are repeated by the method.
	}
	_, own := db.InstanceGet("gorm:started_transaction")
	if inTransaction(stmt) && (!own || !isAlone(stmt, a.what)) {
		c.doubted.Store(true)
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
		if !changed && try > 1 {
			return failure
		}
		db.Error = nil
		a.run(db)
		if failure = failureOf(db); !dialect.Missing(failure) || try == maxTries {
			return failure
		}
	}
}

// isAlone reports whether nothing but a statement of GORM has run in the transaction that GORM has begun for
// it: no hook before it, and no rows of relations.
func isAlone(stmt *gorm.Statement, what verb) bool {
	s := stmt.Schema
	switch {
	case s == nil || len(stmt.Selects) > 0 && what == deletes:
		return false
	case !stmt.SkipHooks && (what == creates && (s.BeforeCreate || s.BeforeSave) ||
		what == updates && (s.BeforeUpdate || s.BeforeSave) || what == deletes && s.BeforeDelete):
		return false
	case what == deletes:
		return true
	}
	for _, relation := range s.Relationships.BelongsTo {
		if holdsRows(stmt, relation, stmt.ReflectValue) {
			return false
		}
	}
	return true
}

// routeAgain gives a statement the table of the map that is valid now. It waits while that is being changed,
// and reports whether there is another table. If not, the statement may run once more, because the cutover
// may have been given up in between.
func (g *shardGuard) routeAgain(db *gorm.DB, a attempt) (changed bool, err error) {
	stmt := db.Statement
	for awaited := false; ; awaited = true {
		c := g.clusterOf(stmt)
		to, _, err := c.routeOf(stmt)
		if err != nil {
			return false, err
		}
		var on *shardSchema
		suffix := ""
		if stmt.Schema != nil && !a.given {
			if on, err = c.schemas.on(to.shard, stmt.Schema.ModelType); err != nil {
				return false, err
			}
			suffix = strings.TrimPrefix(stmt.Schema.Table, on.base) // empty if the application named the table
		}
		if suffix != "" && (awaited || on.schema.Table != stmt.Schema.Table) {
			changed = on.schema.Table != stmt.Schema.Table
			return changed, g.reroute(db, c, on, to, a, suffix)
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
	db *gorm.DB, c *cluster, on *shardSchema, to route, a attempt, suffix string,
) error {
	stmt := db.Statement
	stmt.SQL.Reset()
	stmt.Vars, db.RowsAffected = nil, 0
	if a.rows {
		stmt.Settings.Store("rows", true)
	}
	if a.what == reads {
		from, _ := a.from.Expression.(clause.From)
		before := stmt.Quote(on.base+suffix) + " AS " + stmt.Quote(on.alias)
		if len(from.Tables) > 0 && from.Tables[0].Name == before {
			from.Tables = nil
		}
		a.from.Name, a.from.Expression = "FROM", from
		stmt.Clauses["FROM"] = a.from
	}
	back := renames{tables: map[string]string{}}
	for base := range on.of.names {
		back.tables[base+suffix] = base
	}
	back.in(stmt)
	return g.apply(located{of: c, to: to, routed: true}, stmt, a.what)
}
