package router

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

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

// copyChunk copies one chunk, and records that in the same transaction. It returns true when there is
// nothing left to copy.
func (m *tableMove) copyChunk(ctx context.Context) (done bool, err error) {
	var at moveRecord
	doneBefore := false
	err = m.inTarget(ctx, func(tx *gorm.DB) error {
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
			at.LastID, at.Highest = last, max(at.Highest, last)
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

// lockMap refuses to write to a table that is in use, or after another process has taken over: a copy could
// undo what programs have written since. The records stay as they are until the end of the transaction.
func (m *tableMove) lockMap(tx *gorm.DB) error {
	held, err := registry{m.d.from}.share(tx, "shards = ? AND closing = ?", m.d.shards, m.d.closing)
	if err == nil && !held {
		return errTakenOver(m.ToDatabase)
	}
	return err
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

// noteHighest notes the largest key that a copy has had, for a table that Undo may drop.
func (m *tableMove) noteHighest(tx *gorm.DB, key int64) error {
	if m.d.shards != m.d.from.shards {
		return nil // Undo copies the rows back.
	}
	return m.journalTable(tx).Where("name = ? AND highest < ?", m.ToTable, key).Update("highest", key).Error
}

// inTarget runs a transaction in the database of the new table.
func (m *tableMove) inTarget(ctx context.Context, do func(tx *gorm.DB) error) error {
	return inTransaction(m.target(ctx), do)
}

// inTransaction runs a transaction of a resharding. On MySQL, INSERT ... SELECT would lock the rows that it
// reads if the transactions were isolated as usual there. It would stop writes of programs, and could end
// them by deadlocks, because they may lock the records of the map after their rows. DELETE would lock the
// rows that stay.
func inTransaction(db *gorm.DB, do func(tx *gorm.DB) error) error {
	if db.Name() == dialectMySQL {
		return db.Transaction(do, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	}
	return db.Transaction(do)
}
