package router

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
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
	if s.Phase != shardmap.PhaseCleaned {
		if err := d.checkForeignToNew(ctx); err != nil {
			return err
		}
	}
	switch s.Phase {
	case shardmap.PhaseOpen, shardmap.PhaseClosed, shardmap.PhaseHalf:
		err = d.giveUp(ctx, s)
	case shardmap.PhaseRecorded, shardmap.PhaseCut, shardmap.PhaseUndoing:
		if err = d.moveBack(ctx); err == nil {
			err = d.recordBack(ctx)
		}
	case shardmap.PhaseUndoHalf:
		// Nobody has written since the rows were found to be equal, and some databases have the old map.
		if err = d.takeOver(ctx, s); err == nil {
			err = d.recordBack(ctx)
		}
	case shardmap.PhaseUndone:
		err = shardmap.Registry{Topology: d.from}.OpenMap(ctx)
	case shardmap.PhaseCleaned:
		err = errCleaned
	}
	if err != nil {
		return err
	}
	if err := d.dropTables(ctx); err != nil {
		return err
	}
	if err := (shardmap.Registry{Topology: d.from}).RecordCleanup(ctx); err != nil {
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
	known.StaleShards.Store(0)
	return d.router.current.adopt(ctx, known.cluster, known.Databases)
}

// giveUp ends a resharding whose new map nobody has used yet. It opens the old map, after it has made sure
// that the new tables have nothing but copies.
func (d *Resharding) giveUp(ctx context.Context, s shardmap.Survey) error {
	old := shardmap.Registry{Topology: d.from}
	if s.Phase == shardmap.PhaseHalf {
		if err := old.TakeBack(ctx, s.Closings, shardmap.NewClosing()); err != nil {
			return err
		}
	}
	if err := old.Unmark(ctx, "next_shards = ?", d.to.ShardCount); err != nil {
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
	back.closing = shardmap.NewClosing()
	d.closing = back.closing
	doubled := shardmap.Registry{Topology: d.to}
	err := doubled.CloseMap(ctx, d.from.ShardCount, back.closing)
	if err == nil {
		err = back.stopped(ctx, d.checkEffectsOfUndo)
	}
	if err == nil {
		return nil
	}
	again := context.WithoutCancel(ctx)
	for i := range d.to.Databases {
		// A process that has taken over meanwhile goes on with the Undo.
		e := doubled.Change(again, i, map[string]any{"next_shards": d.to.ShardCount}, "closing = ?", back.closing)
		if e != nil {
			return errors.Join(err, e)
		}
	}
	return errors.Join(err, doubled.Finish(again))
}

// reversed is the resharding in the opposite direction: its moves lead from the new tables to the old ones.
func (d *Resharding) reversed() *Resharding {
	back := &Resharding{
		from: d.from, to: d.to, chunk: d.chunk, onProgress: d.onProgress, shards: d.to.ShardCount,
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
func (d *Resharding) takeOver(ctx context.Context, s shardmap.Survey) error {
	d.closing = shardmap.NewClosing()
	for i := range d.to.Databases {
		err := shardmap.Registry{Topology: d.to}.Change(ctx, i, map[string]any{"closing": d.closing},
			"next_shards = ? AND closing = ?", d.from.ShardCount, s.Closings[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// recordBack records the old map, and opens it.
func (d *Resharding) recordBack(ctx context.Context) error {
	old := shardmap.Registry{Topology: d.from}
	if err := old.Record(ctx, d.from.ShardCount, d.to.ShardCount, d.closing); err != nil {
		return err
	}
	return old.OpenMap(ctx)
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
		table := shardmap.InternalTable(d.to.Databases[m.ToDatabase], shardmap.MovesTable)
		exists, err := d.hasTable(ctx, m.ToDatabase, table)
		if err == nil && exists {
			journal := d.to.PlainOn(ctx, m.ToDatabase, table)
			err = journal.Where("name = ?", m.ToTable).Delete(&shardmap.MoveRecord{}).Error
		}
		if err != nil {
			return m.failed("undoing", err)
		}
	}
	return nil
}

// hasTable reports whether a database has a table.
func (d *Resharding) hasTable(ctx context.Context, database int, table string) (exists bool, err error) {
	err = shardmap.OnOneConnection(d.to.PlainOn(ctx, database, table), func(tx *gorm.DB) error {
		if exists = tx.Session(&gorm.Session{}).Migrator().HasTable(table); exists {
			return nil
		}
		return shardmap.Ping(ctx, tx) // GORM also answers no if it cannot ask.
	})
	return exists, err
}
