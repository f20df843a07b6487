package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// Resharding doubles the shards of a cluster. Of the rows of shard s, about half stay, and the others
// move to shard s + N. So every new table is filled from exactly one old table, and each such pair is a
// tableMove. The journal, which is in the database of the new table, says how far each move is.
type Resharding struct {
	router     *Router            // of before; nil for a program without the models
	from, to   *shardmap.Topology // both have all databases
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

// configure makes the cluster with the doubled shards.
func (d *Resharding) configure(cfg ReshardConfig) error {
	from := d.from
	dbs := cfg.Databases
	if dbs == nil {
		dbs = from.Databases
	}
	if d.chunk < 1 {
		return fmt.Errorf("chunks of %d rows", d.chunk)
	}
	// The records are read again, because another process may have resharded or cleaned up.
	found, err := shardmap.Registry{Topology: from}.Compare()
	if err != nil {
		return err
	}
	if found.Entries != nil {
		return errors.New("single shards have been split, joined or moved: split the others one by one, too")
	}
	if before := found.StaleShards; before > 0 && found.Next == 0 && !found.Mixed {
		if before > from.ShardCount {
			return errUndoing
		}
		return fmt.Errorf("the cleanup of the resharding from %d shards is pending: call Clean first", before)
	}
	for i, db := range from.Databases {
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
	for _, m := range from.Models {
		if !m.Broadcast && len(m.Base.Relationships.Many2Many) > 0 {
			return fmt.Errorf("%s has a join table that GORM made: make it a model with a key of its own, and "+
				"move its rows to that first", m.Base.Name)
		}
	}
	place := cfg.Place
	if place == nil {
		place = func(shard int) int { return shard % len(dbs) }
		for shard, at := range from.Place {
			if place(shard) != at {
				return fmt.Errorf("shard %d stays in database %d, and the default Place would not look for it "+
					"there: set Place to where the new shards go, and ShardingConfig.Place to where all shards are "+
					"afterwards",
					shard, at)
			}
		}
	}
	d.from, err = from.With(from.ShardCount, dbs, place)
	if err != nil {
		return err
	}
	d.to, err = from.With(2*from.ShardCount, dbs, place)
	if err != nil {
		return err
	}
	s, err := shardmap.Registry{Topology: d.from}.Survey(from.Databases[0].Statement.Context, from.ShardCount)
	if err != nil {
		return err
	}
	d.setVersions(s, found.Span)
	return nil
}

// setVersions takes the versions of both maps from the records. The next version is greater than any.
func (d *Resharding) setVersions(s shardmap.Survey, span time.Duration) {
	old, hasOld := s.Versions[d.from.ShardCount]
	doubled, hasDoubled := s.Versions[d.to.ShardCount]
	switch {
	case !hasDoubled:
		doubled = old + 1
	case !hasOld:
		old = doubled + 1 // that of an Undo
	}
	d.from.Version, d.to.Version = old, doubled
	d.from.Span, d.to.Span = span, span
}

// checkColocated looks for rows that would no longer be colocated with the row that they are keyed like,
// because their keys were made when the plugin spread IDs over fewer shards.
func (d *Resharding) checkColocated(ctx context.Context) error {
	for _, m := range d.to.Models {
		if m.Broadcast {
			continue
		}
		like := m.Like
		if like == nil {
			continue
		}
		for shard := range d.from.ShardCount {
			condition := fmt.Sprintf("(? & %[1]d) %% %[2]d <> (? & %[1]d) %% %[2]d", d.to.Mask, d.to.ShardCount)
			var apart int64
			all := d.to.PlainOn(ctx, d.from.Place[shard], m.Table(shard)).Model(m.Value).Unscoped()
			keys := []any{clause.Column{Name: m.Key.DBName}, clause.Column{Name: like.DBName}}
			err := all.Where(condition, keys...).Count(&apart).Error
			if err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: %s: %w", m.Table(shard), err)
			}
			if apart > 0 {
				return fmt.Errorf("%w: with %d shards %d rows of %s would not be colocated with their %s: their "+
					"keys were made when WithShards was less than that; give them new keys first",
					errs.ErrSharding, d.to.ShardCount, apart, m.Table(shard), like.Name)
			}
		}
	}
	return nil
}

// readColumns reads the columns of all tables, once.
func (d *Resharding) readColumns(ctx context.Context) error {
	return d.to.EachInTurn(ctx, len(d.moves), func(i int) []int {
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
	for i, db := range d.to.Databases {
		for name, record := range map[string]any{
			shardmap.MovesTable: &shardmap.MoveRecord{}, shardmap.ShardsTable: &shardmap.Record{},
		} {
			table := shardmap.InternalTable(db, name)
			if err := shardmap.AutoMigrate(d.to.PlainOn(ctx, i, table), record); err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: table %s in database %d: %w", table, i, err)
			}
		}
	}
	for _, m := range d.to.Models {
		for shard := d.from.ShardCount; shard < d.to.ShardCount && !m.Broadcast; shard++ {
			if err := d.noteTable(ctx, m, shard); err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: the journal of %s: %w", m.Table(shard), err)
			}
		}
	}
	c := newCluster(d.to, &current{})
	for shard := d.from.ShardCount; shard < d.to.ShardCount; shard++ {
		if err := (migrator{c}).migrate(ctx, shard); err != nil {
			return fmt.Errorf("snowflakeplugin: reshard: shard %d: %w", shard, err)
		}
	}
	return nil
}

// noteTable writes the record of a new table into the journal.
func (d *Resharding) noteTable(ctx context.Context, m *shardmap.Model, shard int) error {
	at := d.to.Place[shard]
	db, journal := d.to.Databases[at], shardmap.InternalTable(d.to.Databases[at], shardmap.MovesTable)
	exists := false
	err := shardmap.OnOneConnection(d.to.PlainOn(ctx, at, journal), func(tx *gorm.DB) error {
		if exists = tx.Session(&gorm.Session{}).Migrator().HasTable(m.Table(shard)); exists {
			return nil
		}
		return shardmap.Ping(ctx, tx) // GORM also answers no if it cannot ask.
	})
	if err != nil {
		return err
	}
	record := &shardmap.MoveRecord{
		Name: m.Table(shard), Base: m.Base.Table, Shard: shard, Shards: d.to.ShardCount, Made: !exists,
	}
	// The record of a table that is not there is from a resharding before this one.
	conflict := clause.OnConflict{DoNothing: exists, UpdateAll: !exists}
	err = d.to.PlainOn(ctx, at, journal).Clauses(conflict).Create(record).Error
	if err != nil {
		return err
	}
	return db.WithContext(ctx).Table(journal).Where("name = ? AND base = ''", record.Name).
		Updates(map[string]any{"base": record.Base, "shard": shard, "shards": record.Shards}).Error
}

// checkEffects looks once more at what somebody may have added to the tables since Reshard.
func (d *Resharding) checkEffects(ctx context.Context) error {
	check := d.checkForeign
	if d.router == nil { // Without the models, nobody knows which foreign keys follow a like: tag.
		check = d.checkForeignToOld
	}
	if err := check(ctx); err != nil {
		return err
	}
	if err := d.checkForeignToNew(ctx); err != nil {
		return err
	}
	return d.checkTriggers(ctx)
}

// checkForeign refuses a foreign key that leads to the table of a shard, unless the rows at both its ends
// move together. When a cutover removes moved rows from that table, the database would refuse, or delete or
// change rows of the other table, or such that stay in this one.
func (d *Resharding) checkForeign(ctx context.Context) error {
	return d.eachForeign(ctx, 0, d.from.ShardCount, foreignKey.checkMovesTogether)
}

// checkForeignToOld refuses a foreign key that leads from a table without shards to the table of a shard.
func (d *Resharding) checkForeignToOld(ctx context.Context) error {
	return d.eachForeign(ctx, 0, d.from.ShardCount, anyForeignKey)
}

// checkForeignToNew refuses a foreign key that leads from a table without shards to a new table. Cutover
// removes outdated copies, and Undo drops the table: SQLite would first delete the rows, and also the rows
// that refer to them.
func (d *Resharding) checkForeignToNew(ctx context.Context) error {
	return d.eachForeign(ctx, d.from.ShardCount, d.to.ShardCount, anyForeignKey)
}

// eachForeign visits the foreign keys between tables of one shard, for some shards, and refuses those that
// lead there from other tables.
func (d *Resharding) eachForeign(
	ctx context.Context, first, end int,
	visit func(key foreignKey, to string, child, parent *shardmap.Model) error,
) error {
	for shard := first; shard < end; shard++ {
		for _, m := range d.to.Models {
			if m.Broadcast {
				continue
			}
			to := m.Table(shard)
			together := namesFrom(d.to, to, shard)
			keys, err := referring(ctx, d.to, d.to.Place[shard], to)
			if err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: the foreign keys to %s: %w", to, err)
			}
			for _, key := range keys {
				child := together[strings.ToLower(key.table)]
				if child == nil {
					return fmt.Errorf("%w: the foreign key %s leads from the table %s to %s, from which a resharding "+
						"removes rows: drop it first", errs.ErrSharding, key.name, key.table, to)
				}
				if err := visit(key, to, child, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkTriggers refuses what would make a resharding do something else than to move rows. Cutover deletes
// rows from the old tables and Undo inserts them there again, although nobody has deleted or created them: a
// trigger could note that, delete other rows, or keep the row. Copies are inserted into the new tables. The
// new table needs the triggers on updates as well. They run meanwhile in one case only: on MySQL and MariaDB,
// for an outdated copy that holds the value of a unique column which another row has by now.
func (d *Resharding) checkTriggers(ctx context.Context) error {
	for i := range d.moves {
		m := &d.moves[i]
		from, err := checkTable(ctx, d.to, m.FromDatabase, m.FromTable)
		if err != nil {
			return m.failed("looking for triggers", err)
		}
		into, err := checkTable(ctx, d.to, m.ToDatabase, m.ToTable)
		if err != nil {
			return m.failed("looking for triggers", err)
		}
		if from > into {
			return fmt.Errorf("%w: triggers on UPDATE of the table %s: %d, and of the new table %s: %d; make the "+
				"same ones there, and call the step again", errs.ErrSharding, m.FromTable, from, m.ToTable, into)
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
	for _, m := range d.to.Models {
		if m.Broadcast {
			continue
		}
		for shard := range d.from.ShardCount {
			target := shard + d.from.ShardCount
			moves = append(moves, tableMove{d: d, ReshardMove: ReshardMove{
				Model: m.Base.Name, FromTable: m.Table(shard), ToTable: m.Table(target),
				FromShard: shard, ToShard: target, FromDatabase: d.to.Place[shard], ToDatabase: d.to.Place[target],
			}, key: m.Key.DBName, shard: target})
		}
	}
	return moves
}

// Numbers returns the numbers of shards before and after the resharding.
func (d *Resharding) Numbers() (before, after int) { return d.from.ShardCount, d.to.ShardCount }

// Copy goes on where the journal says that an earlier call ended.
func (d *Resharding) Copy(ctx context.Context) error {
	if err := d.readColumns(ctx); err != nil {
		return err
	}
	for _, move := range d.moves {
		for done := false; !done; {
			var err error
			if done, err = move.copyChunk(ctx); err != nil {
				return move.failed("copying", err)
			}
		}
	}
	return nil
}

// maxDifferences is how many differences an error names.
const maxDifferences = 10

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

// Verify compares all rows that move with their copies.
func (d *Resharding) Verify(ctx context.Context) error {
	found, err := d.compare(ctx, "verify", nil)
	if err != nil {
		return err
	}
	return differenceError(d.moves, found)
}

// differenceError is the error for differences by move. It is nil if there are none.
func differenceError(moves []tableMove, found [][]difference) error {
	e := &DifferenceError{}
	for i, differ := range found {
		e.Rows += int64(len(differ))
		for _, one := range differ[:min(len(differ), maxDifferences-len(e.First))] {
			e.First = append(e.First, Difference{moves[i].ToTable, one.id, one.what})
		}
	}
	if e.Rows == 0 {
		return nil
	}
	return e
}

// compare finds the differences of each move, of some moves at a time. If only is not nil, it looks at these
// keys alone.
func (d *Resharding) compare(ctx context.Context, step string, only [][]int64) ([][]difference, error) {
	if err := d.readColumns(ctx); err != nil {
		return nil, err
	}
	found := make([][]difference, len(d.moves))
	keysOf := func(i int) (keys []int64, none bool) {
		if only == nil {
			return nil, false
		}
		return only[i], len(only[i]) == 0
	}
	err := d.to.EachInTurn(ctx, len(d.moves), func(i int) []int {
		return []int{d.moves[i].FromDatabase, d.moves[i].ToDatabase}
	}, func(ctx context.Context, i int) (err error) {
		keys, none := keysOf(i)
		if none {
			return nil
		}
		if found[i], err = d.moves[i].differences(ctx, keys); err != nil {
			err = d.moves[i].failed(step, err)
		}
		return err
	}, func(i int) {
		if _, none := keysOf(i); !none {
			d.onProgress(ReshardProgress{Step: step, Table: d.moves[i].ToTable, Rows: int64(len(found[i]))})
		}
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// repair makes all copies equal to their rows. It returns the keys that were not, by move.
func (d *Resharding) repair(ctx context.Context) (repaired [][]int64, err error) {
	found, err := d.compare(ctx, "repair", nil)
	if err != nil {
		return nil, err
	}
	repaired = make([][]int64, len(d.moves))
	gone, wanted := make([][]int64, len(d.moves)), make([][]int64, len(d.moves))
	for i, differ := range found {
		if err := d.moves[i].checkOwn(ctx, differ); err != nil {
			return nil, err
		}
		for _, one := range differ {
			repaired[i] = append(repaired[i], one.id)
			if one.what != isMissing {
				gone[i] = append(gone[i], one.id)
			}
			if one.what != isSuperfluous {
				wanted[i] = append(wanted[i], one.id)
			}
		}
		slices.Sort(wanted[i])
	}
	// All outdated copies are removed first, because they may hold values of unique columns that other rows
	// have by now.
	err = d.eachShard(ctx, func(ctx context.Context, i int) error { return d.moves[i].remove(ctx, gone[i]) })
	if err != nil {
		return nil, err
	}
	return repaired, d.eachShard(ctx, func(ctx context.Context, i int) error {
		return d.moves[i].copyKeys(ctx, wanted[i])
	})
}

// eachShard does something with each move, with those of several shards at a time. Only tables of one shard
// may have foreign keys to each other, so these come one after the other, in any order.
func (d *Resharding) eachShard(ctx context.Context, do func(ctx context.Context, move int) error) error {
	var shards [][]int // moves by shard
	at := map[int]int{}
	for i, m := range d.moves {
		if _, seen := at[m.shard]; !seen {
			at[m.shard] = len(shards)
			shards = append(shards, nil)
		}
		shards[at[m.shard]] = append(shards[at[m.shard]], i)
	}
	return d.to.EachInTurn(ctx, len(shards), func(i int) []int {
		first := &d.moves[shards[i][0]]
		return []int{first.FromDatabase, first.ToDatabase}
	}, func(ctx context.Context, i int) error {
		return shardmap.InAnyOrder(len(shards[i]), func(j int) error {
			m := shards[i][j]
			if err := do(ctx, m); err != nil {
				return d.moves[m].failed("repair", err)
			}
			return nil
		})
	}, nil)
}

// inAnyOrder does something with each move, and again with those that failed, as long as that helps:
// tables may have foreign keys to each other.
func (d *Resharding) inAnyOrder(do func(move int) error) error {
	return shardmap.InAnyOrder(len(d.moves), func(i int) error {
		if err := do(i); err != nil {
			return d.moves[i].failed("repair", err)
		}
		return nil
	})
}

// Cutover brings the copies up to date while statements go on. Then it closes the shard map and waits until
// no process routes by it. What was written up to then is copied and verified, and the new map is recorded
// and opened. If that fails before anything is recorded, the old map is opened again.
func (d *Resharding) Cutover(ctx context.Context) (*Router, error) {
	s, err := d.look(ctx) // Another process may have gone on meanwhile.
	if err != nil {
		return nil, err
	}
	switch s.Phase {
	case shardmap.PhaseRecorded:
		if err := d.checkEffects(ctx); err != nil {
			return nil, err
		}
		return d.open(ctx)
	case shardmap.PhaseHalf:
		d.closing = shardmap.NewClosing()
		if err := (shardmap.Registry{Topology: d.from}).TakeBack(ctx, s.Closings, d.closing); err != nil {
			return nil, err
		}
	case shardmap.PhaseClosed:
		d.closing = shardmap.NewClosing()
		if err := (shardmap.Registry{Topology: d.from}).CloseMap(ctx, d.to.ShardCount, d.closing); err != nil {
			return nil, err
		}
	case shardmap.PhaseOpen:
		d.closing = 0
	case shardmap.PhaseCut, shardmap.PhaseCleaned:
		return nil, fmt.Errorf("%w: the cutover to %d shards is over", errs.ErrSharding, d.to.ShardCount)
	default:
		return nil, errUndoing
	}
	if err := d.checkEffects(ctx); err != nil {
		return nil, err
	}
	if err := d.readColumnsAgain(ctx); err != nil {
		return nil, err
	}
	if err := d.update(ctx); err != nil {
		return nil, err
	}
	if err := d.close(ctx); err != nil {
		opened := shardmap.Registry{Topology: d.from}.Unmark(context.WithoutCancel(ctx), "closing = ?", d.closing)
		return nil, errors.Join(err, opened)
	}
	doubled := shardmap.Registry{Topology: d.to}
	if err := doubled.Record(ctx, d.to.ShardCount, d.from.ShardCount, d.closing); err != nil {
		return nil, err
	}
	return d.open(ctx)
}

// look reads the phase, and brings the versions of both maps up to date.
func (d *Resharding) look(ctx context.Context) (shardmap.Survey, error) {
	s, err := shardmap.Registry{Topology: d.from}.Survey(ctx, d.from.ShardCount)
	if err == nil {
		d.setVersions(s, d.from.Span)
	}
	return s, err
}

// open removes the moved rows from the old tables, and lets statements go on. All databases have recorded
// the new map, so the copies must not be compared any more: some rows are only there.
func (d *Resharding) open(ctx context.Context) (*Router, error) {
	if d.router == nil {
		return nil, shardmap.Registry{Topology: d.to}.Finish(ctx)
	}
	now := d.router.current
	now.adopting.Lock() // because only this goroutine knows the databases that are added
	defer now.adopting.Unlock()
	if err := now.replace(ctx, d.router.cluster, d.to.Databases, true); err != nil {
		return nil, err
	}
	return d.router.Known(), nil
}

// maxRounds is how often Cutover compares while statements go on, and how few differences end that.
const (
	maxRounds      = 3
	fewDifferences = 1000
)

// update copies what is new and repairs what has changed, until little is left for the closed map.
func (d *Resharding) update(ctx context.Context) error {
	if err := d.Copy(ctx); err != nil {
		return err
	}
	for range maxRounds {
		repaired, err := d.repair(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, keys := range repaired {
			n += len(keys)
		}
		if n < fewDifferences {
			return nil
		}
	}
	return nil
}

// settle makes the copies equal to the rows, while the map is closed and every transaction has ended. So
// nobody but this function changes a row or a copy. It compares all rows once. Of each key, this has either
// found that the row and its copy are equal, or has returned the key. Equal ones stay equal, because repair
// touches only the keys that it has been given: it names them, and the new tables have neither triggers nor
// foreign keys. The others are repaired and compared again. So afterwards every row has been compared with
// its copy since the last change of either, as after a second comparison of everything. That is made
// after all if a new table does have triggers or foreign keys, by which a repair may reach other rows.
func (d *Resharding) settle(ctx context.Context) error {
	d.still = true
	defer func() { d.still = false }()
	repaired, err := d.repair(ctx)
	if err != nil {
		return err
	}
	for i := range d.moves {
		if len(repaired[i]) == 0 {
			continue
		}
		effects, err := d.moves[i].hasEffects(ctx)
		if err != nil {
			return d.moves[i].failed("looking for triggers", err)
		}
		if effects {
			return d.Verify(ctx)
		}
	}
	left, err := d.compare(ctx, "verify", repaired)
	if err != nil {
		return err
	}
	return differenceError(d.moves, left)
}

// close ends all routing by the old map, and makes the copies equal to the rows.
func (d *Resharding) close(ctx context.Context) error {
	d.closing = shardmap.NewClosing()
	if err := (shardmap.Registry{Topology: d.from}).CloseMap(ctx, d.to.ShardCount, d.closing); err != nil {
		return err
	}
	return d.stopped(ctx, d.checkEffects)
}

// stopped waits until nobody writes to the tables of a closed map, and makes the copies equal to the rows. In
// between it checks the tables once more, because bringing the copies up to date may have taken hours.
func (d *Resharding) stopped(ctx context.Context, check func(context.Context) error) error {
	select {
	case <-ctx.Done():
		return errs.Ended(ctx)
	case <-time.After(d.from.Span + d.from.Span/100):
	}
	if err := d.awaitWriters(ctx); err != nil {
		return err
	}
	if err := check(ctx); err != nil {
		return err
	}
	if err := d.readColumnsAgain(ctx); err != nil {
		return err
	}
	return d.settle(ctx)
}

// writersPatience is how long a closed map waits for the end of the transactions that have written to its
// tables. Nothing is routed meanwhile, and a program that is idle in a transaction may stay so for hours.
const writersPatience = 5 * time.Second

// awaitWriters waits for the end of all transactions that have written to the tables. They began before the
// map was closed. If one does not end in time, the error says who is in the way. A table into which rows
// move back has writers, too.
func (d *Resharding) awaitWriters(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, writersPatience)
	defer cancel()
	for _, move := range d.moves {
		err := move.awaitWrites(limited, move.FromDatabase, move.FromTable)
		if err == nil {
			err = move.awaitWrites(limited, move.ToDatabase, move.ToTable)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = errs.Ended(ctx)
			}
			return move.failed("waiting for transactions", err)
		}
	}
	return nil
}

// errWrittenLate is wrapped by the error of Clean for rows that were written to an old table after the
// cutover.
var errWrittenLate = errors.New("rows were written to it after the cutover, by a process that still has " +
	"the old number of shards: stop that process, and move the rows by hand")

// Clean looks at the old tables for rows that were written late, and then removes the records of the
// resharding.
func (d *Resharding) Clean(ctx context.Context) error {
	if d.cleaned {
		return nil
	}
	s, err := d.look(ctx)
	switch {
	case err != nil:
		return err
	case s.Phase < shardmap.PhaseCut:
		return fmt.Errorf("%w: there is nothing to clean before the cutover", errs.ErrSharding)
	case s.Phase > shardmap.PhaseCut && s.Phase < shardmap.PhaseCleaned:
		return errUndoing
	}
	var names []string
	for _, move := range d.moves {
		if err := move.clean(ctx); err != nil {
			return move.failed("cleaning", err)
		}
		names = append(names, move.ToTable)
	}
	for i, db := range d.to.Databases {
		table := shardmap.InternalTable(db, shardmap.MovesTable)
		tx := d.to.PlainOn(ctx, i, table).Where("name IN ?", names)
		if err := tx.Delete(&shardmap.MoveRecord{}).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	if err := (shardmap.Registry{Topology: d.to}).RecordCleanup(ctx); err != nil {
		return err
	}
	if d.router != nil {
		d.router.Known().StaleShards.Store(0)
	}
	d.cleaned = true
	return nil
}

// Status is what some databases say about the shards in them, and about a resharding.
type Status struct {
	Models     []MapStatus    `json:"models"`
	Resharding *ReshardStatus `json:"resharding"` // nil if none is under way
}

// MapStatus is the shard map of one model.
type MapStatus struct {
	Table   string       `json:"table"` // without a shard number
	Shards  int          `json:"shards"`
	Version int64        `json:"version"`
	Closed  bool         `json:"closed"` // nothing is routed
	Tables  []ShardTable `json:"tables"`
}

// ShardTable is the table of a shard.
type ShardTable struct {
	Table    string `json:"table"`
	Shard    int    `json:"shard"`
	Database int    `json:"database"`
	Rows     int64  `json:"rows"`
}

// ReshardStatus says how far a resharding is.
type ReshardStatus struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	State  string `json:"state"`
	Next   string `json:"next"` // what is left to do
	Copied int64  `json:"copied"`
	Moving int64  `json:"moving"` // rows that have to be copied
}

// ReadStatus reads the records, the journals and the number of rows of each table. d is the resharding that
// is under way, as OpenResharding returns it, or nil.
func ReadStatus(ctx context.Context, dbs []*gorm.DB, d *Resharding) (Status, error) {
	status := Status{Models: []MapStatus{}}
	records, err := shardmap.ReadMaps(ctx, dbs, nil)
	if err != nil {
		return status, err
	}
	at := map[string]int{} // index into status.Models
	for _, of := range records {
		i, seen := at[of.Name]
		if !seen {
			i = len(status.Models)
			at[of.Name] = i
			status.Models = append(status.Models, MapStatus{Table: of.Name})
		}
		m := &status.Models[i]
		m.Shards, m.Version = max(m.Shards, of.Shards), max(m.Version, of.Version)
		m.Closed = m.Closed || of.NextShards != 0
		for _, shard := range shardmap.ReadShards(of.Held) {
			table := ShardTable{Table: shardmap.TableOn(of.Name, shard), Shard: shard, Database: of.Database}
			db := dbs[of.Database].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
			err := db.Raw("SELECT COUNT(*) FROM " + db.Statement.Quote(table.Table)).Scan(&table.Rows).Error
			if err != nil {
				return status, fmt.Errorf("snowflakeplugin: counting %s in database %d: %w", table.Table, of.Database,
					err)
			}
			m.Tables = append(m.Tables, table)
		}
	}
	for _, m := range status.Models {
		slices.SortFunc(m.Tables, func(a, b ShardTable) int { return cmp.Compare(a.Shard, b.Shard) })
	}
	if d == nil {
		return status, nil
	}
	status.Resharding, err = d.status(ctx)
	return status, err
}

// status describes the resharding.
func (d *Resharding) status(ctx context.Context) (*ReshardStatus, error) {
	s, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	r := &ReshardStatus{From: d.from.ShardCount, To: d.to.ShardCount}
	done := true
	for i := range d.moves {
		at, err := d.moves[i].readJournal(ctx)
		if err != nil {
			return nil, err
		}
		r.Copied += at.Copied
		done = done && at.Done
		r.Moving += at.Copied
		if s.Phase <= shardmap.PhaseHalf {
			rows, err := d.moves[i].countSource(ctx)
			if err != nil {
				return nil, d.moves[i].failed("counting", err)
			}
			r.Moving += max(rows-at.Copied, 0)
		}
	}
	r.State, r.Next = describe(s.Phase, done)
	return r, nil
}

// describe says what a phase is and what comes next.
func describe(p shardmap.Phase, copied bool) (state, next string) {
	const goOn = "resume brings the copies up to date and cuts over; undo drops the new tables"
	switch p {
	case shardmap.PhaseOpen:
		if !copied {
			return "copying", "resume copies the rest and cuts over; undo drops the new tables"
		}
		return "copied", goOn
	case shardmap.PhaseClosed:
		return "cutover interrupted, or under way: the shard map is closed", goOn
	case shardmap.PhaseHalf:
		return "cutover interrupted, or under way: some databases have recorded the new map", goOn
	case shardmap.PhaseRecorded:
		return "cutover interrupted, or under way: all databases have recorded the new map",
			"resume removes the moved rows from the old tables and opens the map; undo goes back"
	case shardmap.PhaseCut:
		return "cut over", "clean ends the resharding; undo goes back"
	case shardmap.PhaseUndoing:
		return "undo interrupted, or under way: the shard map is closed", "undo copies the rows back"
	case shardmap.PhaseUndoHalf:
		return "undo interrupted, or under way: some databases have recorded the old map", "undo records the rest"
	case shardmap.PhaseUndone:
		return "undo interrupted, or under way: all databases have recorded the old map", "undo opens the map"
	case shardmap.PhaseDropping:
		return "undone", "undo drops the new tables"
	}
	return "ended", "clean removes the journal"
}

// Resume goes on to the end of the cutover, from any phase before that.
func (d *Resharding) Resume(ctx context.Context) error {
	s, err := d.look(ctx)
	if err != nil || s.Phase == shardmap.PhaseCut {
		return err
	}
	for i := range d.moves {
		exists, err := d.hasTable(ctx, d.moves[i].ToDatabase, d.moves[i].ToTable)
		if err != nil {
			return err
		}
		if !exists && s.Phase <= shardmap.PhaseHalf {
			return fmt.Errorf("%w: the table %s is not there: Reshard was interrupted before it had made all "+
				"tables: call it again in the program, or undo", errs.ErrSharding, d.moves[i].ToTable)
		}
	}
	_, err = d.Cutover(ctx)
	return err
}
