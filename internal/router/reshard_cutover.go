package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Cutover brings the copies up to date while statements go on. Then it closes the shard map and waits until
// no process routes by it. What was written up to then is copied and verified, and the new map is recorded
// and opened. If that fails before anything is recorded, the old map is opened again.
func (d *Resharding) Cutover(ctx context.Context) (*Router, error) {
	if err := d.update(ctx); err != nil {
		return nil, err
	}
	if err := d.close(ctx); err != nil {
		if !d.halfway {
			opened := registry{d.from.topology}.openMap(context.WithoutCancel(ctx))
			err = errors.Join(err, opened)
		}
		return nil, err
	}
	d.halfway = true
	now := d.router.current
	now.adopting.Lock() // because only this goroutine knows the databases that are added
	defer now.adopting.Unlock()
	if err := (registry{d.to.topology}).recordCutover(ctx, d.from.shards); err != nil {
		return nil, err
	}
	if err := now.replace(ctx, d.from, d.to.dbs); err != nil {
		return nil, err
	}
	d.to = now.cluster.Load()
	return d.router.Known(), nil
}

// update copies what is new and repairs what has changed.
func (d *Resharding) update(ctx context.Context) error {
	if err := d.Copy(ctx); err != nil {
		return err
	}
	return d.repair(ctx)
}

// close ends all routing by the old map, and makes the copies equal to the rows.
func (d *Resharding) close(ctx context.Context) error {
	if err := (registry{d.from.topology}).closeMap(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return errs.Ended(ctx)
	case <-time.After(d.span + d.span/100):
	}
	for _, move := range d.moves() {
		if err := move.awaitWrites(ctx); err != nil {
			return move.failed("waiting for transactions", err)
		}
	}
	if err := d.update(ctx); err != nil {
		return err
	}
	if err := d.Verify(ctx); err != nil {
		return err
	}
	for _, move := range d.moves() {
		if err := move.recordCutover(ctx); err != nil {
			return move.failed("cutting over", err)
		}
	}
	return nil
}

// awaitWrites waits for the end of all transactions that have written to the old table. They began before
// the map was closed. It takes a lock that they exclude, and releases it at once.
func (m *tableMove) awaitWrites(ctx context.Context) error {
	db := m.d.from.dbs[m.FromDatabase].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
	table := db.Statement.Quote(m.FromTable)
	switch db.Name() {
	case dialectPostgres:
		return db.Transaction(func(tx *gorm.DB) error {
			return tx.Exec("LOCK TABLE " + table + " IN SHARE MODE").Error
		})
	case dialectMySQL:
		return db.Connection(func(tx *gorm.DB) error {
			// Should the second statement fail, the connection is broken, and the server has unlocked the table.
			err := tx.Exec("LOCK TABLES " + table + " READ").Error
			return errors.Join(err, tx.Exec("UNLOCK TABLES").Error)
		})
	default:
		// Only one transaction of a database writes at a time.
		key := db.Statement.Quote(m.model.key.DBName)
		return db.Exec("UPDATE " + table + " SET " + key + " = " + key + " WHERE 1 = 0").Error
	}
}

// recordCutover records the last row of the old table in the journal. A row with a greater key that
// appears there later was written by a process that does not know of the cutover.
func (m *tableMove) recordCutover(ctx context.Context) error {
	all := m.all(m.d.to.plainOn(ctx, m.FromDatabase, m.FromTable))
	var high int64
	key := clause.Column{Name: m.model.key.DBName}
	if err := all.Select("COALESCE(MAX(?), 0)", key).Scan(&high).Error; err != nil {
		return err
	}
	return m.target(ctx).Transaction(func(tx *gorm.DB) error {
		at, err := m.journal(tx)
		if err != nil {
			return err
		}
		at.High = high
		return m.journalTable(tx).Save(&at).Error
	})
}

// PendingCleanup makes the Resharding of the process that cut over, as far as Clean needs it.
func (r *Router) PendingCleanup() (*Resharding, error) {
	before := int(r.staleShards.Load())
	if before == 0 {
		return nil, nil
	}
	from, err := newTopology(Config{
		EngineOf: r.engineOf, Layout: r.layout, Shards: before, Databases: r.dbs,
		Place: func(shard int) int { return r.place[shard] },
	}, r.given())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	return &Resharding{
		router: r, from: newCluster(from), to: r.cluster, chunk: defaultChunk,
		onProgress: func(ReshardProgress) {},
	}, nil
}

// errWrittenLate is wrapped by the error of Clean for rows that were written to an old table after the
// cutover.
var errWrittenLate = errors.New("rows were written to it after the cutover, by a process that still has " +
	"the old number of shards: stop that process, and move the rows by hand")

// Clean removes the stale rows table by table, and then the records of the resharding.
func (d *Resharding) Clean(ctx context.Context) error {
	if d.cleaned {
		return nil
	}
	if d.to.staleShards.Load() == 0 {
		return fmt.Errorf("%w: there is nothing to clean before the cutover", errs.ErrSharding)
	}
	var names []string
	for _, move := range d.moves() {
		if err := move.clean(ctx); err != nil {
			return move.failed("cleaning", err)
		}
		names = append(names, move.ToTable)
	}
	for i, db := range d.to.dbs {
		table := internalTable(db, movesTable)
		tx := d.to.plainOn(ctx, i, table).Where("name IN ?", names)
		if err := tx.Delete(&moveRecord{}).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	if err := (registry{d.to.topology}).recordCleanup(ctx); err != nil {
		return err
	}
	d.to.staleShards.Store(0)
	d.cleaned = true
	return nil
}

// clean removes the stale rows of the old table, unless there are rows that were written late.
func (m *tableMove) clean(ctx context.Context) error {
	var at moveRecord
	journal := m.d.to.plainOn(ctx, m.ToDatabase, internalTable(m.d.to.dbs[m.ToDatabase], movesTable))
	// Without a record, an earlier call has finished here. Rows that are there now were written late.
	err := journal.Where("name = ?", m.ToTable).Take(&at).Error
	if err != nil && !errors.Is(err, gorm.ErrRecordNotFound) {
		return err
	}
	key := clause.Column{Name: m.model.key.DBName}
	var late int64
	if err := m.sourceRows(ctx).Where(clause.Gt{Column: key, Value: at.High}).Count(&late).Error; err != nil {
		return err
	}
	if late > 0 {
		return fmt.Errorf("%d %w", late, errWrittenLate)
	}
	for removed := int64(0); ; {
		rows, err := m.read(m.sourceRows(ctx), 0, m.d.chunk)
		if err != nil || rows.Len() == 0 {
			return err
		}
		last := m.model.idOf(ctx, rows.Index(rows.Len()-1))
		gone := m.sourceRows(ctx).Where(clause.Lte{Column: key, Value: last}).Delete(m.model.value)
		if gone.Error != nil {
			return gone.Error
		}
		removed += gone.RowsAffected
		m.d.onProgress(ReshardProgress{Step: "clean", Table: m.FromTable, Rows: removed})
	}
}
