package snowflakeplugin

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Doubling moves the rows of a router to twice as many shards. Of the rows of shard s about half
// stay, and the others go to shard s + Shards; no other shard is touched and no table is renamed.
//
//	d, err := router.Double(ctx, snowflakeplugin.DoubleConfig{})
//	err = d.Copy(ctx)               // beside normal operation, for as long as it takes
//	                                // ... stop all that writes ...
//	router, err = d.Switch(ctx)     // brings the copies up to date, verifies them, and switches
//	                                // ... start everything with twice the number in its configuration ...
//	err = d.Clean(ctx)              // beside normal operation: removes what was moved
//
// Every step may be broken off at any time, by an error or by the end of the process, and called
// again, by another process too; it goes on where it was. Until Switch has succeeded the router
// reads and writes as before. From then on it refuses statements, the router that Switch returns
// takes its place, and a program that is configured with the old number cannot start.
//
// Steps must not run at the same time.
type Doubling struct {
	from  *Router
	to    *routing
	chunk int
	told  func(DoublingProgress)
	// cleaned is set when nothing is left to be removed.
	cleaned bool
}

// DoubleConfig says how shards are doubled.
type DoubleConfig struct {
	// Databases are those of the router afterwards: the ones it has, and any number of others
	// behind them. By default it keeps those it has.
	Databases []*gorm.DB
	// Place returns the index of the database of each new shard. The old shards stay where they are.
	// By default it is the shard modulo the number of databases, if that is also where the old ones
	// are; otherwise it has to be set, and a ShardingConfig.Place that has both afterwards.
	Place func(shard int) int
	// Chunk is how many rows are moved in one transaction, 1,000 by default.
	Chunk int
	// Progress, if it is set, is told of every chunk that is done.
	Progress func(DoublingProgress)
}

// DoublingProgress is how far a step has come with one table.
type DoublingProgress struct {
	Step  string // copy, repair, verify or clean
	Table string // the new table; when cleaning, the old one
	Rows  int64  // since the step began with this table; when copying, in all
}

// DoublingMove is one table that is filled from another.
type DoublingMove struct {
	Model                    string
	FromTable, ToTable       string
	FromShard, ToShard       int
	FromDatabase, ToDatabase int
	Rows                     int64 // to be moved, as far as is known now
}

// defaultChunk is small enough not to hold up what else goes on.
const defaultChunk = 1000

// Double prepares to double the shards of the router: it checks the configuration, and makes the new
// tables and the journal, which is in the table snowflake_moves. Nothing is moved yet.
//
// It returns an error wrapping [ErrSharding], or what a database says.
func (r *Router) Double(ctx context.Context, cfg DoubleConfig) (*Doubling, error) {
	d := &Doubling{from: r, chunk: cfg.Chunk, told: cfg.Progress}
	if d.chunk == 0 {
		d.chunk = defaultChunk
	}
	if d.told == nil {
		d.told = func(DoublingProgress) {}
	}
	if err := d.configure(cfg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	if err := d.checkBeside(ctx); err != nil {
		return nil, err
	}
	for shard := r.shards; shard < d.to.shards; shard++ {
		if err := d.to.migrate(ctx, shard); err != nil {
			return nil, fmt.Errorf("snowflakeplugin: double: shard %d: %w", shard, err)
		}
	}
	for i, db := range d.to.dbs {
		table := internalTable(db, tableOfMoves)
		if err := d.to.plainOn(ctx, i, table).AutoMigrate(&shardMove{}); err != nil {
			return nil, fmt.Errorf("snowflakeplugin: double: table %s in database %d: %w", table, i, err)
		}
	}
	return d, nil
}

// configure makes the routing of afterwards.
func (d *Doubling) configure(cfg DoubleConfig) error {
	r := d.from.routing
	dbs := cfg.Databases
	if dbs == nil {
		dbs = r.dbs
	}
	if d.chunk < 1 {
		return fmt.Errorf("chunks of %d rows", d.chunk)
	}
	if err := r.readState(); err != nil { // another process may have cleaned up, or doubled
		return err
	}
	if before := r.uncleaned.Load(); before > 0 {
		return fmt.Errorf("the doubling from %d shards is not cleaned yet: call Clean first", before)
	}
	for i, db := range r.dbs {
		if i >= len(dbs) || dbs[i].ConnPool != db.ConnPool {
			return fmt.Errorf("the databases have to begin with those of the router, and number %d is another", i)
		}
	}
	for _, m := range r.models {
		if !m.broadcast && len(m.base.Relationships.Many2Many) > 0 {
			return fmt.Errorf("%s has a join table that GORM made: make it a model with a key of its own, and "+
				"move its rows to that first", m.base.Name)
		}
	}
	place := cfg.Place
	if place == nil {
		place = func(shard int) int { return shard % len(dbs) }
		for shard, at := range r.place {
			if place(shard) != at {
				return fmt.Errorf("shard %d stays in database %d, where the default Place would not look for it: "+
					"set Place to where the new shards go, and ShardingConfig.Place to where all are afterwards",
					shard, at)
			}
		}
	}
	after := ShardingConfig{Layout: r.layout, Shards: 2 * r.shards, Databases: dbs, Place: func(shard int) int {
		if shard < r.shards {
			return r.place[shard]
		}
		return place(shard)
	}}
	to, err := newRouting(after, r.given())
	d.to = to
	return err
}

// checkBeside looks for rows that would not lie beside the row they belong to any more: their keys
// were made when the plugin spread IDs over fewer shards.
func (d *Doubling) checkBeside(ctx context.Context) error {
	for _, m := range d.to.models {
		like := d.to.plugin.plans.of(m.base).likeOf(m.key)
		if m.broadcast || like == nil {
			continue
		}
		for shard := range d.from.shards {
			condition := fmt.Sprintf("(? & %[1]d) %% %[2]d <> (? & %[1]d) %% %[2]d", d.to.mask, d.to.shards)
			var apart int64
			all := d.to.plainOn(ctx, d.from.place[shard], m.table(shard)).Model(m.value).Unscoped()
			keys := []any{clause.Column{Name: m.key.DBName}, clause.Column{Name: like.DBName}}
			err := all.Where(condition, keys...).Count(&apart).Error
			if err != nil {
				return fmt.Errorf("snowflakeplugin: double: %s: %w", m.table(shard), err)
			}
			if apart > 0 {
				return fmt.Errorf("%w: with %d shards %d rows of %s would not be beside their %s: their keys were "+
					"made when WithShards was less than that; give them new keys first",
					ErrSharding, d.to.shards, apart, m.table(shard), like.Name)
			}
		}
	}
	return nil
}

// given lists the models as they were given to NewRouter.
func (r *routing) given() []any {
	var models []any
	for _, m := range r.models {
		if m.broadcast {
			models = append(models, Broadcast(m.value))
		} else {
			models = append(models, m.value)
		}
	}
	return models
}

// moves lists what is to be moved, table by table.
func (d *Doubling) moves() []doublingMove {
	var moves []doublingMove
	for _, m := range d.to.models {
		if m.broadcast {
			continue
		}
		for shard := range d.from.shards {
			target := shard + d.from.shards
			moves = append(moves, doublingMove{d: d, model: m, DoublingMove: DoublingMove{
				Model: m.base.Name, FromTable: m.table(shard), ToTable: m.table(target),
				FromShard: shard, ToShard: target, FromDatabase: d.to.place[shard], ToDatabase: d.to.place[target],
			}})
		}
	}
	return moves
}

// doublingMove is a move with what is needed to do it.
type doublingMove struct {
	DoublingMove
	d     *Doubling
	model *shardModel
}

// Plan lists what is to be moved, and counts the rows.
func (d *Doubling) Plan(ctx context.Context) ([]DoublingMove, error) {
	var plan []DoublingMove
	for _, move := range d.moves() {
		if err := move.leaving(ctx).Count(&move.Rows).Error; err != nil {
			return nil, move.failed("counting", err)
		}
		plan = append(plan, move.DoublingMove)
	}
	return plan, nil
}

// leaving selects the rows of the old table that go to the new one.
func (m *doublingMove) leaving(ctx context.Context) *gorm.DB {
	tx := m.d.to.plainOn(ctx, m.FromDatabase, m.FromTable).Model(m.model.value).Unscoped()
	return tx.Where(m.d.to.lies(m.model.key.DBName, m.ToShard))
}

// arrived selects all rows of the new table.
func (m *doublingMove) arrived(ctx context.Context) *gorm.DB {
	return m.d.to.plainOn(ctx, m.ToDatabase, m.ToTable).Model(m.model.value).Unscoped()
}

// failed is the error of a step.
func (m *doublingMove) failed(step string, err error) error {
	const where = "%s (shard %d, database %d)"
	return fmt.Errorf("snowflakeplugin: double: %s "+where+" from "+where+": %w", step,
		m.ToTable, m.ToShard, m.ToDatabase, m.FromTable, m.FromShard, m.FromDatabase, err)
}

// Difference is a row of which the old and the new table do not say the same.
type Difference struct {
	Table string // the new one
	ID    ID
	What  string // missing, superfluous or changed
}

// DifferenceError says that copies are not what they were made from. It wraps [ErrDifferent].
type DifferenceError struct {
	// Rows is their number, First the first of them.
	Rows  int64
	First []Difference
}

// Error names some rows.
func (e *DifferenceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d rows", ErrDifferent, e.Rows)
	for i, d := range e.First {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%d in %s is %s", separator, int64(d.ID), d.Table, d.What)
	}
	return b.String()
}

// Unwrap returns [ErrDifferent].
func (e *DifferenceError) Unwrap() error { return ErrDifferent }
