package router

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Copy goes on where the journal says that an earlier call ended.
func (d *Resharding) Copy(ctx context.Context) error {
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

// copyChunk copies one chunk, and records that in the same transaction. It returns true when there is
// nothing left to copy.
func (m *tableMove) copyChunk(ctx context.Context) (done bool, err error) {
	var at moveRecord
	doneBefore := false
	err = m.target(ctx).Transaction(func(tx *gorm.DB) error {
		if at, err = m.journal(tx); err != nil || at.Done {
			doneBefore = true
			return err
		}
		if err := m.lockMap(tx); err != nil {
			return err
		}
		pool := tx.Statement.ConnPool
		if m.FromDatabase != m.ToDatabase {
			pool = m.pool(m.FromDatabase)
		}
		rows, err := m.readFrom(ctx, pool, m.FromTable, at.LastID, "", m.d.chunk)
		if err != nil {
			return err
		}
		if n := len(rows); n > 0 {
			last := rows[n-1].id
			if m.FromDatabase == m.ToDatabase {
				key := tx.Statement.Quote(m.key)
				err = m.insertSelect(ctx, tx.Statement.ConnPool,
					fmt.Sprintf(" AND %s > %d AND %[1]s <= %[3]d", key, at.LastID, last))
			} else {
				err = m.insertRows(ctx, tx.Statement.ConnPool, rows)
			}
			if err != nil {
				return err
			}
			at.LastID = last
			at.Copied += int64(n)
		}
		at.Done = len(rows) < m.d.chunk
		return m.journalTable(tx).Save(&at).Error
	})
	if err == nil && !doneBefore {
		m.d.onProgress(ReshardProgress{Step: "copy", Table: m.ToTable, Rows: at.Copied})
	}
	return at.Done, err
}

// pool returns the connections to a database. They are never those of a replica.
func (m *tableMove) pool(database int) gorm.ConnPool { return m.d.to.dbs[database].ConnPool }

// target returns a handle for the database of the new table.
func (m *tableMove) target(ctx context.Context) *gorm.DB {
	return m.d.to.dbs[m.ToDatabase].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
}

// lockMap refuses to write to the new table when it is in use: a copy could undo what programs have written
// since. The records are locked until the end of the transaction, so the new map cannot be recorded here.
func (m *tableMove) lockMap(tx *gorm.DB) error {
	records := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(internalTable(tx, shardsTable)).
		Where("name IN ?", m.d.from.shardedTables()).Session(&gorm.Session{})
	if err := records.Update("shards", gorm.Expr("shards")).Error; err != nil {
		return err
	}
	var others int64
	if err := records.Where("shards <> ?", m.d.from.shards).Count(&others).Error; err != nil || others == 0 {
		return err
	}
	return fmt.Errorf("%w: the cutover to %d shards was recorded meanwhile, so nothing is copied any more: "+
		"call Reshard and Cutover again", errs.ErrSharding, m.d.to.shards)
}

// journalTable returns a handle for the journal in a transaction of the new table's database.
func (m *tableMove) journalTable(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(internalTable(tx, movesTable))
}

// journal reads how far the move is. It writes to the record first, so that a second process waits for
// the end of the transaction.
func (m *tableMove) journal(tx *gorm.DB) (at moveRecord, err error) {
	first := &moveRecord{Name: m.ToTable}
	err = m.journalTable(tx).Clauses(clause.OnConflict{DoNothing: true}).Create(first).Error
	if err != nil {
		return at, err
	}
	err = m.journalTable(tx).Where("name = ?", m.ToTable).Update("name", m.ToTable).Error
	if err != nil {
		return at, err
	}
	return at, m.journalTable(tx).Where("name = ?", m.ToTable).Take(&at).Error
}
