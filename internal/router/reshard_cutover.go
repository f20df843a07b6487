package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// errUndoing is the error of every step but Undo once that has begun.
var errUndoing = fmt.Errorf("%w: the resharding is being undone: call Undo again, or "+
	"\"snowflake shards undo\"", errs.ErrSharding)

// Cutover brings the copies up to date while statements go on. Then it closes the shard map and waits until
// no process routes by it. What was written up to then is copied and verified, and the new map is recorded
// and opened. If that fails before anything is recorded, the old map is opened again.
func (d *Resharding) Cutover(ctx context.Context) (*Router, error) {
	s, err := d.look(ctx) // Another process may have gone on meanwhile.
	if err != nil {
		return nil, err
	}
	switch s.phase {
	case phaseRecorded:
		if err := d.checkEffects(ctx); err != nil {
			return nil, err
		}
		return d.open(ctx)
	case phaseHalf:
		d.closing = newClosing()
		if err := (registry{d.from}).takeBack(ctx, s.closings, d.closing); err != nil {
			return nil, err
		}
	case phaseClosed:
		d.closing = newClosing()
		if err := (registry{d.from}).closeMap(ctx, d.to.shards, d.closing); err != nil {
			return nil, err
		}
	case phaseOpen:
		d.closing = 0
	case phaseCut, phaseCleaned:
		return nil, fmt.Errorf("%w: the cutover to %d shards is over", errs.ErrSharding, d.to.shards)
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
		opened := registry{d.from}.unmark(context.WithoutCancel(ctx), "closing = ?", d.closing)
		return nil, errors.Join(err, opened)
	}
	if err := (registry{d.to}).record(ctx, d.to.shards, d.from.shards, d.closing); err != nil {
		return nil, err
	}
	return d.open(ctx)
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

// look reads the phase, and brings the versions of both maps up to date.
func (d *Resharding) look(ctx context.Context) (survey, error) {
	s, err := registry{d.from}.survey(ctx, d.from.shards)
	if err == nil {
		d.setVersions(s, d.from.span)
	}
	return s, err
}

// open removes the moved rows from the old tables, and lets statements go on. All databases have recorded
// the new map, so the copies must not be compared any more: some rows are only there.
func (d *Resharding) open(ctx context.Context) (*Router, error) {
	if d.router == nil {
		return nil, registry{d.to}.finish(ctx)
	}
	now := d.router.current
	now.adopting.Lock() // because only this goroutine knows the databases that are added
	defer now.adopting.Unlock()
	if err := now.replace(ctx, d.router.cluster, d.to.dbs, true); err != nil {
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
	d.closing = newClosing()
	if err := (registry{d.from}).closeMap(ctx, d.to.shards, d.closing); err != nil {
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
	case <-time.After(d.from.span + d.from.span/100):
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

// awaitWrites waits for the end of the transactions that have written to a table until the context ends.
func (m *tableMove) awaitWrites(ctx context.Context, database int, table string) error {
	db := m.d.to.dbs[database].Session(&gorm.Session{NewDB: true, SkipHooks: true, Context: ctx})
	err := m.lockOnce(db, db.Statement.Quote(table))
	if err == nil || ctx.Err() == nil && !isLockTimeout(err) {
		return err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), mapPatience)
	defer cancel()
	return fmt.Errorf("%w: a transaction that has written to %s has not ended within %v, and nothing was "+
		"routed meanwhile, so the shard map is open as before. %s. End it, and call this step again: %w",
		errs.ErrSharding, table, writersPatience, inTheWay(db.WithContext(asking), table), err)
}

// lockOnce takes a lock that excludes every transaction which has written to a table, and releases it at
// once. The context has a deadline, which the server knows as well: otherwise it might go on waiting, with
// the statements of others behind it, after the program has given up.
func (m *tableMove) lockOnce(db *gorm.DB, table string) error {
	ctx := db.Statement.Context
	deadline, _ := ctx.Deadline()
	left := max(time.Until(deadline), time.Second)
	switch db.Name() {
	case dialectPostgres:
		return db.Transaction(func(tx *gorm.DB) error {
			err := tx.Exec(fmt.Sprintf("SET LOCAL lock_timeout = %d", left.Milliseconds())).Error
			if err != nil {
				return err
			}
			return tx.Exec("LOCK TABLE " + table + " IN SHARE MODE").Error
		})
	case dialectMySQL:
		return db.Connection(func(tx *gorm.DB) error {
			err := tx.Exec("SET @snowflake_wait = @@lock_wait_timeout, lock_wait_timeout = ?",
				int(left.Seconds())).Error
			if err != nil {
				return err
			}
			// Should another statement fail, the connection is broken, and the server has unlocked the table.
			err = tx.Exec("LOCK TABLES " + table + " READ").Error
			return errors.Join(err, tx.Exec("UNLOCK TABLES").Error,
				tx.Exec("SET lock_wait_timeout = @snowflake_wait").Error)
		})
	default:
		// Only one transaction of a database writes at a time.
		key := db.Statement.Quote(m.key)
		return db.Exec("UPDATE " + table + " SET " + key + " = " + key + " WHERE 1 = 0").Error
	}
}

// isLockTimeout reports whether a server has given up waiting for a lock.
func isLockTimeout(err error) bool {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) && coded.SQLState() == "55P03" {
		return true
	}
	return strings.Contains(err.Error(), "Error 1205") || strings.Contains(err.Error(), "is locked")
}

// inTheWay says whose transactions are open, as far as the login may know it.
func inTheWay(db *gorm.DB, table string) string {
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres:
		// These are all locks with which SHARE MODE conflicts.
		query = `SELECT DISTINCT concat('process ', a.pid, ' of ', a.usename, ' (',
				nullif(a.application_name, ''), '), in a transaction since ', a.xact_start)
			FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.relation = to_regclass(?) AND l.granted AND l.pid <> pg_backend_pid()
				AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'ShareLock')`
		args = []any{db.Statement.Quote(table)}
	case dialectMySQL:
		query = `SELECT concat('connection ', trx_mysql_thread_id, ', in a transaction since ', trx_started)
			FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> connection_id()
			ORDER BY trx_started LIMIT 10`
	default:
		return "It is one of another connection to the file"
	}
	var found []string
	if err := db.Raw(query, args...).Scan(&found).Error; err != nil || len(found) == 0 {
		if db.Name() == dialectMySQL {
			return "A login with the right PROCESS finds it in information_schema.innodb_trx"
		}
		return "It has ended by now"
	}
	return "In the way is " + strings.Join(found, "; ")
}

// PendingCleanup makes the Resharding of the process that cut over, as far as Clean needs it.
func (r *Router) PendingCleanup() (*Resharding, error) {
	before := int(r.staleShards.Load())
	if before == 0 {
		return nil, nil
	}
	if before >= r.shards { // It is being undone.
		return OpenResharding(r.dbs[0].Statement.Context, ReshardConfig{Databases: r.dbs})
	}
	from, err := newTopology(Config{
		EngineOf: r.engineOf, Layout: r.layout, Shards: before, Databases: r.dbs,
		Place: func(shard int) int { return r.place[shard] },
	}, r.given())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	d := &Resharding{
		router: r, from: from, to: r.topology, chunk: defaultChunk, shards: before,
		onProgress: func(ReshardProgress) {},
	}
	from.span = r.span
	d.moves = d.allMoves()
	return d, nil
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
	case s.phase < phaseCut:
		return fmt.Errorf("%w: there is nothing to clean before the cutover", errs.ErrSharding)
	case s.phase > phaseCut && s.phase < phaseCleaned:
		return errUndoing
	}
	var names []string
	for _, move := range d.moves {
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
	if err := (registry{d.to}).recordCleanup(ctx); err != nil {
		return err
	}
	if d.router != nil {
		d.router.Known().staleShards.Store(0)
	}
	d.cleaned = true
	return nil
}

// clean refuses an old table with rows of the new one. The cutover has removed those that it moved.
func (m *tableMove) clean(ctx context.Context) error {
	late, err := m.countSource(ctx)
	if err != nil {
		return err
	}
	if late > 0 {
		return fmt.Errorf("%d %w", late, errWrittenLate)
	}
	m.d.onProgress(ReshardProgress{Step: "clean", Table: m.FromTable})
	return nil
}
