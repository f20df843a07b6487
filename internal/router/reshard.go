package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Resharding doubles the shards of a cluster. Of the rows of shard s, about half stay, and the others
// move to shard s + N. So every new table is filled from exactly one old table, and each such pair is a
// tableMove. The journal, which is in the database of the new table, says how far each move is.
type Resharding struct {
	router     *Router   // of before; nil for a program without the models
	from, to   *topology // both have all databases
	moves      []tableMove
	chunk      int
	onProgress func(ReshardProgress)
	shards     int   // that the records must have while rows are copied
	closing    int64 // the number under which this process has closed the map, or 0
	still      bool  // nobody writes to the tables
	cleaned    bool  // nothing is left to remove
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
	d := &Resharding{router: r, from: r.topology, chunk: cfg.Chunk, onProgress: cfg.Progress, shards: r.shards}
	if d.chunk == 0 {
		d.chunk = defaultChunk
	}
	if d.onProgress == nil {
		d.onProgress = func(ReshardProgress) {}
	}
	if err := d.configure(cfg); err != nil {
		if errors.Is(err, errs.ErrSharding) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	found, err := registry{d.from}.survey(ctx, d.from.shards)
	if err != nil {
		return nil, err
	}
	switch found.phase {
	case phaseOpen, phaseClosed:
		if err := (registry{d.from}).recordMissing(ctx); err != nil {
			return nil, err // Other processes could not see the cutover.
		}
	case phaseUndoing, phaseUndoHalf, phaseUndone, phaseDropping:
		return nil, errUndoing
	}
	if err := d.checkColocated(ctx); err != nil {
		return nil, err
	}
	if err := d.checkForeign(ctx); err != nil {
		return nil, err
	}
	if err := d.makeTables(ctx); err != nil {
		return nil, err
	}
	d.moves = d.allMoves()
	if err := d.checkTriggers(ctx); err != nil {
		return nil, err
	}
	return d, d.readColumns(ctx)
}

// readColumns reads the columns of all tables, once.
func (d *Resharding) readColumns(ctx context.Context) error {
	return d.to.eachInTurn(ctx, len(d.moves), func(i int) []int {
		return []int{d.moves[i].FromDatabase, d.moves[i].ToDatabase}
	}, func(ctx context.Context, i int) error {
		if d.moves[i].columns != nil {
			return nil
		}
		if err := d.moves[i].checkColumns(ctx); err != nil {
			return d.moves[i].failed("reading the columns", err)
		}
		return nil
	}, nil)
}

// readColumnsAgain reads the columns of all tables as they are now. Somebody may have added one since, whose
// values would stay behind.
func (d *Resharding) readColumnsAgain(ctx context.Context) error {
	for i := range d.moves {
		d.moves[i].columns = nil
	}
	return d.readColumns(ctx)
}

// makeTables makes the journals and the new tables. A table that is not there yet is noted in the journal
// first, so that Undo knows whose it is.
func (d *Resharding) makeTables(ctx context.Context) error {
	for i, db := range d.to.dbs {
		for name, record := range map[string]any{movesTable: &moveRecord{}, shardsTable: &shardRecord{}} {
			table := internalTable(db, name)
			if err := autoMigrate(d.to.plainOn(ctx, i, table), record); err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: table %s in database %d: %w", table, i, err)
			}
		}
	}
	for _, m := range d.to.models {
		for shard := d.from.shards; shard < d.to.shards && !m.broadcast; shard++ {
			if err := d.noteTable(ctx, m, shard); err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: the journal of %s: %w", m.table(shard), err)
			}
		}
	}
	c := newCluster(d.to)
	for shard := d.from.shards; shard < d.to.shards; shard++ {
		if err := (migrator{c}).migrate(ctx, shard); err != nil {
			return fmt.Errorf("snowflakeplugin: reshard: shard %d: %w", shard, err)
		}
	}
	return nil
}

// noteTable writes the record of a new table into the journal.
func (d *Resharding) noteTable(ctx context.Context, m *shardModel, shard int) error {
	at := d.to.place[shard]
	db, journal := d.to.dbs[at], internalTable(d.to.dbs[at], movesTable)
	exists := false
	err := onOneConnection(d.to.plainOn(ctx, at, journal), func(tx *gorm.DB) error {
		if exists = tx.Session(&gorm.Session{}).Migrator().HasTable(m.table(shard)); exists {
			return nil
		}
		return ping(ctx, tx) // GORM also answers no if it cannot ask.
	})
	if err != nil {
		return err
	}
	record := &moveRecord{
		Name: m.table(shard), Base: m.base.Table, Shard: shard, Shards: d.to.shards, Made: !exists,
	}
	// The record of a table that is not there is from a resharding before this one.
	conflict := clause.OnConflict{DoNothing: exists, UpdateAll: !exists}
	err = d.to.plainOn(ctx, at, journal).Clauses(conflict).Create(record).Error
	if err != nil {
		return err
	}
	return db.WithContext(ctx).Table(journal).Where("name = ? AND base = ''", record.Name).
		Updates(map[string]any{"base": record.Base, "shard": shard, "shards": record.Shards}).Error
}

// configure makes the cluster with the doubled shards.
func (d *Resharding) configure(cfg ReshardConfig) error {
	from := d.from
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
	if before := found.staleShards; before > 0 && found.next == 0 && !found.mixed {
		if before > from.shards {
			return errUndoing
		}
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
	d.from, err = from.with(from.shards, dbs, place)
	if err != nil {
		return err
	}
	d.to, err = from.with(2*from.shards, dbs, place)
	if err != nil {
		return err
	}
	s, err := registry{d.from}.survey(from.dbs[0].Statement.Context, from.shards)
	if err != nil {
		return err
	}
	d.setVersions(s, found.span)
	return nil
}

// with makes a topology of the same models. Its first shards stay where they are.
func (t *topology) with(shards int, dbs []*gorm.DB, place func(int) int) (*topology, error) {
	return newTopology(Config{
		EngineOf: t.engineOf, Layout: t.layout, Shards: shards, Databases: dbs,
		Place: func(shard int) int {
			if shard < t.shards {
				return t.place[shard]
			}
			return place(shard)
		},
	}, t.given())
}

// setVersions takes the versions of both maps from the records. The next version is greater than any.
func (d *Resharding) setVersions(s survey, span time.Duration) {
	old, hasOld := s.versions[d.from.shards]
	doubled, hasDoubled := s.versions[d.to.shards]
	switch {
	case !hasDoubled:
		doubled = old + 1
	case !hasOld:
		old = doubled + 1 // that of an Undo
	}
	d.from.version, d.to.version = old, doubled
	d.from.span, d.to.span = span, span
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
			}, key: m.key.DBName, shard: target})
		}
	}
	return moves
}

// tableMove fills one table from another.
type tableMove struct {
	ReshardMove
	d       *Resharding
	key     string        // the column of the primary key
	shard   int           // after the resharding, of the rows that move
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
