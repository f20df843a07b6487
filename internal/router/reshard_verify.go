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
	err := d.to.eachInTurn(ctx, len(d.moves), func(i int) []int {
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

// checkOwn refuses to remove a row from the new table that is not a copy. Undo has nothing to check: what the
// old table has beside the rows of the new one are copies of before.
func (m *tableMove) checkOwn(ctx context.Context, found []difference) error {
	superfluous := func(one difference) bool { return one.what == isSuperfluous }
	if m.d.shards != m.d.from.shards || !slices.ContainsFunc(found, superfluous) {
		return nil
	}
	at, err := m.readJournal(ctx)
	if err == nil {
		err = m.checkSuperfluous(found, at)
	}
	if err != nil {
		return m.failed("repair", err)
	}
	return nil
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
	return d.to.eachInTurn(ctx, len(shards), func(i int) []int {
		first := &d.moves[shards[i][0]]
		return []int{first.FromDatabase, first.ToDatabase}
	}, func(ctx context.Context, i int) error {
		return inAnyOrder(len(shards[i]), func(j int) error {
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
			// The range keeps PostgreSQL from reading the whole table if it knows little about it.
			only := fmt.Sprintf(" AND %%[1]s BETWEEN %d AND %d AND %%[1]s IN (%s)", some[0], some[len(some)-1],
				listKeys(some))
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
