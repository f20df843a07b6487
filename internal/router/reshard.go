package router

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Resharding doubles the shards of a cluster. Of the rows of shard s, about half stay, and the others
// move to shard s + N. So every new table is filled from exactly one old table, and each such pair is a
// tableMove. The journal, which is in the database of the new table, says how far each move is.
type Resharding struct {
	router     *Router // of before
	from, to   *cluster
	moves      []tableMove
	chunk      int
	onProgress func(ReshardProgress)
	halfway    bool // the new number of shards was recorded in some databases
	recorded   bool // it was recorded in all of them
	cleaned    bool // nothing is left to remove
}

// ReshardConfig is the root package's type of this name.
type ReshardConfig struct {
	Databases []*gorm.DB
	Place     func(shard int) int
	Chunk     int
	Progress  func(ReshardProgress)
}

// ReshardProgress is how far a step is with one table.
type ReshardProgress struct {
	Step  string
	Table string
	Rows  int64
}

// ReshardMove is a table that is filled from another.
type ReshardMove struct {
	Model                    string
	FromTable, ToTable       string
	FromShard, ToShard       int
	FromDatabase, ToDatabase int
	Rows                     int64
}

// defaultChunk is small enough not to block other transactions for long.
const defaultChunk = 1000

// Reshard makes the new tables and the journal. It moves nothing.
func (r *Router) Reshard(ctx context.Context, cfg ReshardConfig) (*Resharding, error) {
	if err := r.lookAtMaps(ctx); err != nil {
		// If this fails, too, a cutover was interrupted, and this resharding continues it.
		_ = r.current.adopt(ctx, r.cluster, r.dbs)
		r = r.Known()
	}
	d := &Resharding{router: r, from: r.cluster, chunk: cfg.Chunk, onProgress: cfg.Progress}
	if d.chunk == 0 {
		d.chunk = defaultChunk
	}
	if d.onProgress == nil {
		d.onProgress = func(ReshardProgress) {}
	}
	if err := d.configure(cfg); err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	if err := (registry{d.from.topology}).recordMissing(ctx); err != nil && !d.halfway {
		return nil, err // Other processes could not see the cutover.
	}
	if err := d.checkColocated(ctx); err != nil {
		return nil, err
	}
	for shard := r.shards; shard < d.to.shards; shard++ {
		if err := (migrator{d.to}).migrate(ctx, shard); err != nil {
			return nil, fmt.Errorf("snowflakeplugin: reshard: shard %d: %w", shard, err)
		}
	}
	for i, db := range d.to.dbs {
		for name, record := range map[string]any{movesTable: &moveRecord{}, shardsTable: &shardRecord{}} {
			table := internalTable(db, name)
			if err := autoMigrate(d.to.plainOn(ctx, i, table), record); err != nil {
				return nil, fmt.Errorf("snowflakeplugin: reshard: table %s in database %d: %w", table, i, err)
			}
		}
	}
	d.moves = d.allMoves()
	for i := range d.moves {
		if err := d.moves[i].checkColumns(ctx); err != nil {
			return nil, d.moves[i].failed("reading the columns", err)
		}
	}
	return d, nil
}

// configure makes the cluster with the doubled shards.
func (d *Resharding) configure(cfg ReshardConfig) error {
	from := d.from.topology
	dbs := cfg.Databases
	if dbs == nil {
		dbs = from.dbs
	}
	if d.chunk < 1 {
		return fmt.Errorf("chunks of %d rows", d.chunk)
	}
	// The records are read again, because another process may have resharded or cleaned up.
	found, err := registry{from}.compare()
	if err != nil {
		return err
	}
	d.note(found)
	from.version, from.span = max(from.version, found.version), found.span
	if before := found.staleShards; before > 0 && !d.halfway {
		return fmt.Errorf("the cleanup of the resharding from %d shards is pending: call Clean first", before)
	}
	for i, db := range from.dbs {
		if i >= len(dbs) || dbs[i].ConnPool != db.ConnPool {
			return fmt.Errorf("the databases must begin with those of the router, and number %d is another one", i)
		}
	}
	for i, db := range dbs {
		if kind := dbs[0].Name(); db != nil && db.Config != nil && db.Name() != kind {
			return fmt.Errorf("database 0 is %s and database %d is %s: rows can be moved only between databases "+
				"of one kind, because another kind keeps times and numbers less exactly: move the tables to one "+
				"kind first", kind, i, db.Name())
		}
	}
	for _, m := range from.models {
		if !m.broadcast && len(m.base.Relationships.Many2Many) > 0 {
			return fmt.Errorf("%s has a join table that GORM made: make it a model with a key of its own, and "+
				"move its rows to that first", m.base.Name)
		}
	}
	place := cfg.Place
	if place == nil {
		place = func(shard int) int { return shard % len(dbs) }
		for shard, at := range from.place {
			if place(shard) != at {
				return fmt.Errorf("shard %d stays in database %d, and the default Place would not look for it "+
					"there: set Place to where the new shards go, and ShardingConfig.Place to where all shards are "+
					"afterwards",
					shard, at)
			}
		}
	}
	var to *topology
	to, err = newTopology(Config{
		EngineOf: from.engineOf, Layout: from.layout, Shards: 2 * from.shards, Databases: dbs,
		Place: func(shard int) int {
			if shard < from.shards {
				return from.place[shard]
			}
			return place(shard)
		},
	}, from.given())
	if err != nil {
		return err
	}
	to.version, to.span = from.version+1, found.span
	d.to = newCluster(to)
	return nil
}

// checkColocated looks for rows that would no longer be colocated with the row that they are keyed like,
// because their keys were made when the plugin spread IDs over fewer shards.
func (d *Resharding) checkColocated(ctx context.Context) error {
	for _, m := range d.to.models {
		if m.broadcast {
			continue
		}
		like := likeOf(m)
		if like == nil {
			continue
		}
		for shard := range d.from.shards {
			condition := fmt.Sprintf("(? & %[1]d) %% %[2]d <> (? & %[1]d) %% %[2]d", d.to.mask, d.to.shards)
			var apart int64
			all := d.to.plainOn(ctx, d.from.place[shard], m.table(shard)).Model(m.value).Unscoped()
			keys := []any{clause.Column{Name: m.key.DBName}, clause.Column{Name: like.DBName}}
			err := all.Where(condition, keys...).Count(&apart).Error
			if err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: %s: %w", m.table(shard), err)
			}
			if apart > 0 {
				return fmt.Errorf("%w: with %d shards %d rows of %s would not be colocated with their %s: their "+
					"keys were made when WithShards was less than that; give them new keys first",
					errs.ErrSharding, d.to.shards, apart, m.table(shard), like.Name)
			}
		}
	}
	return nil
}

// Plan counts the rows of each move.
func (d *Resharding) Plan(ctx context.Context) ([]ReshardMove, error) {
	var plan []ReshardMove
	for _, move := range d.moves {
		var err error
		if move.Rows, err = move.countSource(ctx); err != nil {
			return nil, move.failed("counting", err)
		}
		plan = append(plan, move.ReshardMove)
	}
	return plan, nil
}

// allMoves lists the moves of all models and shards.
func (d *Resharding) allMoves() []tableMove {
	var moves []tableMove
	for _, m := range d.to.models {
		if m.broadcast {
			continue
		}
		for shard := range d.from.shards {
			target := shard + d.from.shards
			moves = append(moves, tableMove{d: d, ReshardMove: ReshardMove{
				Model: m.base.Name, FromTable: m.table(shard), ToTable: m.table(target),
				FromShard: shard, ToShard: target, FromDatabase: d.to.place[shard], ToDatabase: d.to.place[target],
			}, key: m.key.DBName})
		}
	}
	return moves
}

// tableMove fills one table from another.
type tableMove struct {
	ReshardMove
	d       *Resharding
	key     string        // the column of the primary key
	columns []tableColumn // of the old table
	into    []tableColumn // those of the same names in the new one
}

// countSource counts the rows of the old table that belong in the new one, also soft-deleted ones.
func (m *tableMove) countSource(ctx context.Context) (n int64, err error) {
	quote := m.d.to.dbs[m.FromDatabase].Statement.Quote
	err = m.pool(m.FromDatabase).QueryRowContext(ctx, "SELECT COUNT(*) FROM "+quote(m.FromTable)+" WHERE "+
		m.moves(quote(m.key))).Scan(&n)
	return n, err
}

// failed says in which step and with which tables an error occurred.
func (m *tableMove) failed(step string, err error) error {
	const where = "%s (shard %d, database %d)"
	return fmt.Errorf("snowflakeplugin: reshard: %s "+where+" from "+where+": %w", step,
		m.ToTable, m.ToShard, m.ToDatabase, m.FromTable, m.FromShard, m.FromDatabase, err)
}

// Difference is a row whose copy is not equal to it.
type Difference struct {
	Table string
	ID    int64
	What  string
}

// DifferenceError says that copies differ from the rows they were made from.
type DifferenceError struct {
	Rows  int64
	First []Difference
}

// Error names some of the rows.
func (e *DifferenceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snowflakeplugin: copies differ: %d rows", e.Rows)
	for i, d := range e.First {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%d in %s is %s", separator, d.ID, d.Table, d.What)
	}
	return b.String()
}
