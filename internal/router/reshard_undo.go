package router

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// errUndoing is the error of every step but Undo once that has begun.
var errUndoing = fmt.Errorf("%w: the resharding is being undone: call Undo again, or "+
	"\"snowflake shards undo\"", errs.ErrSharding)

// Undo ends the resharding with the old number of shards.
func (d *Resharding) Undo(ctx context.Context) error {
	if d.cleaned {
		return errCleaned
	}
	s, err := d.look(ctx)
	if err != nil {
		return err
	}
	if s.phase != phaseCleaned {
		if err := d.checkForeignToNew(ctx); err != nil {
			return err
		}
	}
	switch s.phase {
	case phaseOpen, phaseClosed, phaseHalf:
		err = d.giveUp(ctx, s)
	case phaseRecorded, phaseCut, phaseUndoing:
		if err = d.moveBack(ctx); err == nil {
			err = d.recordBack(ctx)
		}
	case phaseUndoHalf:
		// Nobody has written since the rows were found to be equal, and some databases have the old map.
		if err = d.takeOver(ctx, s); err == nil {
			err = d.recordBack(ctx)
		}
	case phaseUndone:
		err = registry{d.from}.openMap(ctx)
	case phaseCleaned:
		err = errCleaned
	}
	if err != nil {
		return err
	}
	if err := d.dropTables(ctx); err != nil {
		return err
	}
	if err := (registry{d.from}).recordCleanup(ctx); err != nil {
		return err
	}
	// The journals are removed last, because whoever goes on finds the resharding by them.
	if err := d.removeJournals(ctx); err != nil {
		return err
	}
	d.cleaned = true
	return d.follow(ctx)
}

// errCleaned is returned when there is nothing to undo any more.
var errCleaned = fmt.Errorf("%w: the resharding has ended, so it cannot be undone", errs.ErrSharding)

// follow lets the router of this process go by the map of now.
func (d *Resharding) follow(ctx context.Context) error {
	if d.router == nil {
		return nil
	}
	known := d.router.Known()
	known.staleShards.Store(0)
	return d.router.current.adopt(ctx, known.cluster, known.dbs)
}

// giveUp ends a resharding whose new map nobody has used yet. It opens the old map, after it has made sure
// that the new tables have nothing but copies.
func (d *Resharding) giveUp(ctx context.Context, s survey) error {
	old := registry{d.from}
	if s.phase == phaseHalf {
		if err := old.takeBack(ctx, s.closings, newClosing()); err != nil {
			return err
		}
	}
	if err := old.unmark(ctx, "next_shards = ?", d.to.shards); err != nil {
		return err
	}
	for i := range d.moves {
		if err := d.moves[i].checkCopies(ctx); err != nil {
			return d.moves[i].failed("undoing", err)
		}
	}
	return nil
}

// checkEffectsOfUndo looks once more at what somebody may have added to the tables since Undo began. Foreign
// keys to the old tables do no harm, because Undo leaves the rows there that have stayed.
func (d *Resharding) checkEffectsOfUndo(ctx context.Context) error {
	if err := d.checkForeignToNew(ctx); err != nil {
		return err
	}
	return d.checkTriggers(ctx)
}

// moveBack closes the new map and copies the moved rows back into the old tables. If that fails, it ends
// the cutover once more, so that the new map is open again.
func (d *Resharding) moveBack(ctx context.Context) error {
	if err := d.checkTriggers(ctx); err != nil {
		return err
	}
	back := d.reversed()
	if err := back.readColumns(ctx); err != nil {
		return err
	}
	back.closing = newClosing()
	d.closing = back.closing
	doubled := registry{d.to}
	err := doubled.closeMap(ctx, d.from.shards, back.closing)
	if err == nil {
		err = back.stopped(ctx, d.checkEffectsOfUndo)
	}
	if err == nil {
		return nil
	}
	again := context.WithoutCancel(ctx)
	for i := range d.to.dbs {
		// A process that has taken over meanwhile goes on with the Undo.
		e := doubled.change(again, i, map[string]any{"next_shards": d.to.shards}, "closing = ?", back.closing)
		if e != nil {
			return errors.Join(err, e)
		}
	}
	return errors.Join(err, doubled.finish(again))
}

// reversed is the resharding in the opposite direction: its moves lead from the new tables to the old ones.
func (d *Resharding) reversed() *Resharding {
	back := &Resharding{
		from: d.from, to: d.to, chunk: d.chunk, onProgress: d.onProgress, shards: d.to.shards,
	}
	for _, m := range d.moves {
		move := tableMove{d: back, key: m.key, shard: m.shard, ReshardMove: ReshardMove{
			Model: m.Model, FromTable: m.ToTable, ToTable: m.FromTable, FromShard: m.ToShard, ToShard: m.FromShard,
			FromDatabase: m.ToDatabase, ToDatabase: m.FromDatabase,
		}}
		back.moves = append(back.moves, move)
	}
	return back
}

// takeOver closes both maps, which the databases have in part each.
func (d *Resharding) takeOver(ctx context.Context, s survey) error {
	d.closing = newClosing()
	for i := range d.to.dbs {
		err := registry{d.to}.change(ctx, i, map[string]any{"closing": d.closing},
			"next_shards = ? AND closing = ?", d.from.shards, s.closings[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// recordBack records the old map, and opens it.
func (d *Resharding) recordBack(ctx context.Context) error {
	old := registry{d.from}
	if err := old.record(ctx, d.from.shards, d.to.shards, d.closing); err != nil {
		return err
	}
	return old.openMap(ctx)
}

// dropTables drops the tables that the resharding has made.
func (d *Resharding) dropTables(ctx context.Context) error {
	return d.inAnyOrder(func(i int) error {
		m := &d.moves[i]
		at, err := m.readJournal(ctx)
		if err != nil {
			return err
		}
		exists, err := d.hasTable(ctx, m.ToDatabase, m.ToTable)
		if err != nil {
			return err
		}
		if exists && at.Made {
			return m.drop(ctx)
		}
		return nil
	})
}

// removeJournals removes the records of all new tables.
func (d *Resharding) removeJournals(ctx context.Context) error {
	for _, m := range d.moves {
		table := internalTable(d.to.dbs[m.ToDatabase], movesTable)
		exists, err := d.hasTable(ctx, m.ToDatabase, table)
		if err == nil && exists {
			err = d.to.plainOn(ctx, m.ToDatabase, table).Where("name = ?", m.ToTable).Delete(&moveRecord{}).Error
		}
		if err != nil {
			return m.failed("undoing", err)
		}
	}
	return nil
}

// hasTable reports whether a database has a table.
func (d *Resharding) hasTable(ctx context.Context, database int, table string) (exists bool, err error) {
	err = onOneConnection(d.to.plainOn(ctx, database, table), func(tx *gorm.DB) error {
		if exists = tx.Session(&gorm.Session{}).Migrator().HasTable(table); exists {
			return nil
		}
		return ping(ctx, tx) // GORM also answers no if it cannot ask.
	})
	return exists, err
}
