package router

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// A resharding from N to 2N shards is in one of these phases, by the records of all databases. next is the
// number in their column next_shards: while it is set, nobody gets a lease on the map.
//
//	phase              shards      next   what is left to do
//	phaseOpen          N           0      Copy and Cutover, or Undo
//	phaseClosed        N           2N     the same; nobody routes
//	phaseHalf          N and 2N    2N     the same; nobody has used the new map yet
//	phaseRecorded      2N          2N     Cutover removes the moved rows from the old tables, and opens
//	phaseCut           2N          0      Clean or Undo
//	phaseUndoing       2N          N      Undo copies the rows back
//	phaseUndoHalf      N and 2N    N      Undo records the old map
//	phaseUndone        N           N      Undo opens the map
//	phaseDropping      N           0      Undo drops the new tables; stale_shards is 2N
//
// Two processes may take steps although only one should: one may have been paused, and a killed one may have
// left a statement behind that still runs. So every change is conditional. Whoever closes a map writes a
// number of its own into the records, which takes the map over from whoever closed it before. All changes
// of records and rows by the first one are refused from then on, because they look for its own number.
type phase int

const (
	phaseOpen phase = iota
	phaseClosed
	phaseHalf
	phaseRecorded
	phaseCut
	phaseUndoing
	phaseUndoHalf
	phaseUndone
	phaseDropping
	phaseCleaned
)

// survey is what the records of all databases say about a resharding.
type survey struct {
	phase    phase
	versions map[int]int64 // the version of the map with a number of shards
	closings []int64       // by database, who has closed it
}

// survey reads the phase of a resharding from a number of shards.
func (r registry) survey(ctx context.Context, before int) (survey, error) {
	s := survey{versions: map[int]int64{}}
	next, stale := 0, 0
	for i := range r.dbs {
		records, err := r.recordsIn(ctx, i)
		if err != nil {
			return s, err
		}
		var closing int64
		for _, c := range records {
			if c.Shards != before && c.Shards != 2*before {
				return s, fmt.Errorf("%w: %s has %d shards according to table %s in database %d, and not %d or %d",
					errs.ErrSharding, c.Name, c.Shards, internalTable(r.dbs[i], shardsTable), i, before, 2*before)
			}
			s.versions[c.Shards] = max(s.versions[c.Shards], c.Version)
			next, stale, closing = max(next, c.NextShards), max(stale, c.StaleShards), max(closing, c.Closing)
		}
		s.closings = append(s.closings, closing)
	}
	_, old := s.versions[before]
	_, doubled := s.versions[2*before]
	s.phase = phaseOf(old, doubled, next/before, stale/before)
	return s, nil
}

// phaseOf derives the phase from the records with the old and with the new number of shards. next and stale
// are 0, or 1 for the old number, or 2 for the new one.
func phaseOf(old, doubled bool, next, stale int) phase {
	switch {
	case old && doubled && next == 1:
		return phaseUndoHalf
	case old && doubled:
		return phaseHalf
	case doubled && next == 2:
		return phaseRecorded
	case doubled && next == 1:
		return phaseUndoing
	case doubled && stale == 1:
		return phaseCut
	case doubled:
		return phaseCleaned
	case next == 2:
		return phaseClosed
	case next == 1:
		return phaseUndone
	case stale == 2:
		return phaseDropping
	}
	return phaseOpen
}

// newClosing makes the number of somebody who closes a map. It is never 0.
func newClosing() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // which never fails
	return int64(binary.LittleEndian.Uint64(b[:])>>2) | 1
}

// errTakenOver is wrapped by the error of a process that another one has overtaken.
func errTakenOver(database int) error {
	return fmt.Errorf("%w: another process has gone on with this resharding, or has ended it, as the records "+
		"of database %d say: look at its state, and call the step again", errs.ErrSharding, database)
}

// change updates the records that meet a condition, and fails unless all records of the database do.
func (r registry) change(
	ctx context.Context, database int, set map[string]any, condition string, args ...any,
) error {
	db := r.dbs[database]
	table := internalTable(db, shardsTable)
	err := r.plainOn(ctx, database, table).Transaction(func(tx *gorm.DB) error {
		held, err := r.hold(tx, condition, args...)
		if err == nil && !held {
			err = errTakenOver(database)
		}
		if err != nil {
			return err
		}
		return r.recordsOf(tx).Updates(set).Error
	})
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, database, err)
	}
	return nil
}

// hold locks the records of a database until the end of a transaction, and reports whether all of them meet
// a condition.
func (r registry) hold(tx *gorm.DB, condition string, args ...any) (bool, error) {
	// It writes first, because a read might see the records as they were when the transaction began.
	if err := r.recordsOf(tx).Update("shards", gorm.Expr("shards")).Error; err != nil {
		return false, err
	}
	var all, met int64
	if err := r.recordsOf(tx).Count(&all).Error; err != nil {
		return false, err
	}
	err := r.recordsOf(tx).Where(condition, args...).Count(&met).Error
	return all > 0 && met == all, err
}

// share is hold for a transaction that changes rows, and not the records: others of the kind need not wait
// for it. Whoever changes the records waits for all of them.
func (r registry) share(tx *gorm.DB, condition string, args ...any) (bool, error) {
	if tx.Name() == dialectSQLite {
		return r.hold(tx, condition, args...) // Only one transaction of a database writes at a time.
	}
	// A read that locks sees what is committed last, and not what was when the transaction began.
	var met []bool
	err := r.recordsOf(tx).Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).
		Select("CASE WHEN "+condition+" THEN 1 ELSE 0 END = 1", args...).Scan(&met).Error
	return len(met) > 0 && !slices.Contains(met, false), err
}

// recordsOf returns a handle for the records in a transaction.
func (r registry) recordsOf(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(internalTable(tx, shardsTable)).
		Where("name IN ?", r.shardedTables())
}
