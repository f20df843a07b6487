package router

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
)

// maxDifferences is how many differences an error names.
const maxDifferences = 10

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

// compare finds the differences of each move. If only is not nil, it looks at these keys alone.
func (d *Resharding) compare(ctx context.Context, step string, only [][]int64) ([][]difference, error) {
	if err := d.readColumns(ctx); err != nil {
		return nil, err
	}
	found := make([][]difference, len(d.moves))
	for i := range d.moves {
		var keys []int64
		if only != nil {
			if keys = only[i]; len(keys) == 0 {
				continue
			}
		}
		var err error
		if found[i], err = d.moves[i].differences(ctx, keys); err != nil {
			return nil, d.moves[i].failed(step, err)
		}
		d.onProgress(ReshardProgress{Step: step, Table: d.moves[i].ToTable, Rows: int64(len(found[i]))})
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
	if err := d.inAnyOrder(func(i int) error { return d.moves[i].remove(ctx, gone[i]) }); err != nil {
		return nil, err
	}
	return repaired, d.inAnyOrder(func(i int) error { return d.moves[i].copyKeys(ctx, wanted[i]) })
}

// inAnyOrder does something with each move, and again with those that failed, as long as that helps:
// tables may have foreign keys to each other.
func (d *Resharding) inAnyOrder(do func(move int) error) error {
	return inAnyOrder(len(d.moves), func(i int) error {
		if err := do(i); err != nil {
			return d.moves[i].failed("repair", err)
		}
		return nil
	})
}

// inAnyOrder calls a function for each number below n, and again for those for which it failed, as long as
// fewer fail than before.
func inAnyOrder(n int, do func(i int) error) error {
	var left []int
	for i := range n {
		left = append(left, i)
	}
	for {
		var failed []int
		var failures []error
		for _, i := range left {
			if err := do(i); err != nil {
				failed, failures = append(failed, i), append(failures, err)
			}
		}
		if len(failed) == 0 {
			return nil
		}
		if len(failed) == len(left) {
			return errors.Join(failures...)
		}
		left = failed
	}
}

// remove deletes copies.
func (m *tableMove) remove(ctx context.Context, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		err := m.inTarget(ctx, func(tx *gorm.DB) error {
			if err := m.lockMap(tx); err != nil {
				return err
			}
			return tx.Exec(fmt.Sprintf("DELETE FROM %s WHERE %s IN (%s)", tx.Statement.Quote(m.ToTable),
				tx.Statement.Quote(m.key), listKeys(some))).Error
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyKeys copies the rows with these keys, as far as they still exist.
func (m *tableMove) copyKeys(ctx context.Context, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		err := m.inTarget(ctx, func(tx *gorm.DB) error {
			if err := m.lockMap(tx); err != nil {
				return err
			}
			only := " AND %s IN (" + listKeys(some) + ")"
			if err := m.noteHighest(tx, some[len(some)-1]); err != nil {
				return err
			}
			if m.FromDatabase == m.ToDatabase {
				return m.insertSelect(ctx, tx.Statement.ConnPool, onlyKeys(only, tx.Statement.Quote(m.key)))
			}
			rows, err := m.readFrom(ctx, m.pool(m.FromDatabase), m.FromTable, 0, only, len(some))
			if err != nil {
				return err
			}
			return m.insertRows(ctx, tx.Statement.ConnPool, rows)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasEffects reports whether a write to the new table may change other rows, by a trigger or a foreign key.
// AutoMigrate makes the tables of shards without either.
func (m *tableMove) hasEffects(ctx context.Context) (found bool, err error) {
	db := m.d.to.dbs[m.ToDatabase]
	space, name := splitTable(m.ToTable)
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres: // where a foreign key is a trigger of both tables
		query = "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(?)"
		args = []any{db.Statement.Quote(m.ToTable)}
	case dialectMySQL:
		query = "SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? " +
			"AND EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) " +
			"UNION ALL SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS " +
			"WHERE (TABLE_NAME = ? OR REFERENCED_TABLE_NAME = ?) " +
			"AND CONSTRAINT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
		args = []any{name, space, name, name, space}
	default:
		query = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? UNION ALL SELECT 1 " +
			"FROM sqlite_master t, pragma_foreign_key_list(t.name) k WHERE t.name = ? OR k.\"table\" = ?"
		args = []any{name, name, name}
		if space != "" {
			return true, nil // The other database of the connection is not asked.
		}
	}
	err = m.d.to.eachPlainRow(ctx, db, func(*sql.Rows) error {
		found = true
		return nil
	}, query, args...)
	return found, err
}
