package router

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// The shard map of a router is the number of its shards and their places, as each database has recorded
// them, with a version. A process may route a statement to a database only while it holds a lease on the
// version that it was configured with. It takes the lease by reading the records, and the lease ends
// mapSpan after that read began, by the clock of the process. A cutover first marks the records, so no
// read gives a lease any more, and then waits for mapSpan. From then on no process routes by the old map,
// whether it still runs, was paused, or is cut off, and no clocks are compared.
const (
	// mapSpan is how long a lease lasts, unless the records say something else.
	mapSpan = 3 * time.Second
	// mapRenewal is the part of its span after which a lease in use is renewed. The leases of busy processes
	// therefore end within this time of each other, and for about as long statements wait in a cutover.
	mapRenewal = 1.0 / 12
	// mapReserve is the part of its span that is left of a lease when the router gives out a handle. For about
	// as long statements wait, too.
	mapReserve = 1.0 / 20
	// mapPatience is the time for which a database that did not answer is left to the statements.
	mapPatience = 3 * time.Second
)

// mapLease is the lease of a topology on one database.
type mapLease struct {
	renewing sync.Mutex                // held while the records are read
	granted  atomic.Pointer[mapGrant]  // nil without a lease
	failed   atomic.Pointer[time.Time] // when the last read failed; nil after one that did not
	recorded atomic.Bool               // the database is known to have records
	examined atomic.Bool               // the rows of its tables are known to be those of their shards
	// refused is when the last read began, if that found another map, or a closed one.
	refused atomic.Pointer[time.Time]
}

// mapGrant is a read that gave a lease.
type mapGrant struct {
	began time.Time
	span  time.Duration
}

// younger reports whether less than a span has passed since a time. It asks both clocks, because the
// monotonic one stops while a machine is suspended.
func younger(since *time.Time, span time.Duration) bool {
	if since == nil {
		return false
	}
	now := time.Now()
	return now.Sub(*since) < span && now.Round(0).Sub(since.Round(0)) < span
}

// holds reports whether more than a part of the lease is left.
func (l *mapLease) holds(reserve float64) bool {
	g := l.granted.Load()
	return g != nil && younger(&g.began, time.Duration((1-reserve)*float64(g.span)))
}

// isFresh reports whether the lease need not be renewed yet.
func (l *mapLease) isFresh() bool { return l.holds(1 - mapRenewal) }

// lasts reports whether the lease is used as it is: more than a part of it is left, and it was refused a
// moment ago. To read the records before each statement would only slow the statements down.
func (l *mapLease) lasts(reserve float64) bool {
	g := l.granted.Load()
	return g != nil && l.holds(reserve) && younger(l.refused.Load(), time.Duration(mapRenewal*float64(g.span)))
}

// errMapClosed is the reason of an ErrShardMap while a cutover is under way. It ends by itself, or by a
// call of Cutover.
var errMapClosed = errors.New("a cutover is under way, so nothing is routed for a moment; if it was " +
	"interrupted, call Reshard and Cutover again, in any process")

// errMapReplaced is the reason of an ErrShardMap for a handle that is older than the last cutover.
var errMapReplaced = errors.New("the shards have changed since this handle was made, so it was refused: " +
	"get a handle from the router again")

// mapError wraps a reason in the sentinel.
func mapError(reason error) error { return fmt.Errorf("%w: %w", errs.ErrShardMap, reason) }

// stage is when a lease is checked.
type stage int

const (
	beforeStatement stage = iota
	// afterStatement: the lease need not be renewed while it lasts. That would take a connection, and the
	// statement may hold the only one with the rows that it has opened.
	afterStatement
)

// checkLease returns an error unless the process may route a statement to a database at this moment. After
// the statement it is called again: if the map was still the same, so it was while the statement ran,
// because versions only grow. pool is what the statement runs on.
func (t *topology) checkLease(ctx context.Context, database int, pool gorm.ConnPool, when stage) error {
	l := t.leases[database]
	if when == beforeStatement && (l.isFresh() || l.lasts(0)) || when == afterStatement && l.holds(0) {
		return nil
	}
	if _, inside := pool.(gorm.TxCommitter); inside {
		if l.holds(0) {
			return nil
		}
		return t.lockMap(ctx, database, pool)
	}
	if _, single := pool.(*sql.Conn); !single {
		pool = t.dbs[database].ConnPool // which is never that of a replica
	}
	if !l.renewing.TryLock() {
		if l.holds(0) {
			return nil // Another statement is renewing it.
		}
		l.renewing.Lock()
	}
	defer l.renewing.Unlock()
	if l.isFresh() {
		return nil
	}
	if err := t.renewMap(ctx, database, pool); err != nil && !l.holds(0) {
		return err
	}
	return nil
}

// endLeases gives the leases up.
func (t *topology) endLeases() {
	for _, l := range t.leases {
		l.granted.Store(nil)
	}
}

// renewMap reads the records and takes a new lease. The caller holds the lease's mutex.
func (t *topology) renewMap(ctx context.Context, database int, pool gorm.ConnPool) error {
	l := t.leases[database]
	began := time.Now()
	span, err := t.readMap(ctx, database, pool, false)
	if errors.Is(err, errs.ErrShardMap) {
		l.refused.Store(&began)
	} else {
		l.refused.Store(nil)
	}
	if err == nil {
		l.failed.Store(nil)
		l.granted.Store(&mapGrant{began, span})
		return nil
	}
	if !errors.Is(err, errs.ErrShardMap) && !errors.Is(err, errs.ErrSharding) && ctx.Err() == nil {
		l.failed.Store(&began)
	}
	return err
}

// lockMap reads the records in a transaction that has outlived the lease, on the connection of the
// transaction: a pool with a single connection has no other. The read locks the records, because a plain
// one might see them as they were when the transaction began. So no cutover begins before it ends. On
// SQLite a transaction sees the records and the tables of one instant anyway.
func (t *topology) lockMap(ctx context.Context, database int, pool gorm.ConnPool) error {
	if !t.leases[database].recorded.Load() {
		return nil
	}
	_, err := t.readMap(ctx, database, pool, true)
	return err
}

// readMap compares the records of a database with the map of the topology, and returns how long a lease
// lasts.
func (t *topology) readMap(
	ctx context.Context, database int, pool gorm.ConnPool, lock bool,
) (time.Duration, error) {
	if len(t.shardedTables()) == 0 {
		return mapSpan, nil
	}
	var records []shardRecord
	var err error
	if t.leases[database].recorded.Load() {
		records, err = t.queryMap(ctx, database, pool, lock)
	} else if records, err = (registry{t}).recordsIn(ctx, database); err == nil && len(records) == 0 {
		return mapSpan, t.examine(ctx, database)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("snowflakeplugin: the lease on the shard map of database %d has ended and cannot "+
			"be renewed: %w", database, err)
	case len(records) == 0:
		return 0, mapError(fmt.Errorf("database %d has lost its records in table %s", database,
			internalTable(t.dbs[database], shardsTable)))
	}
	t.leases[database].recorded.Store(true)
	found := mapState{}
	for _, c := range records {
		found.add(c)
	}
	switch {
	case found.next != 0:
		return 0, mapError(errMapClosed)
	case found.mixed || found.version != t.version || found.shards != t.shards:
		return 0, mapError(errMapReplaced)
	}
	t.staleShards.Store(int64(found.staleShards))
	return found.span, nil
}

// examine looks once at the tables of a database without records: the router has not made them.
func (t *topology) examine(ctx context.Context, database int) error {
	l := t.leases[database]
	if l.examined.Load() {
		return nil
	}
	err := migrator{newCluster(t)}.refuseStrangersIn(ctx, database)
	l.examined.Store(err == nil)
	return err
}

// queryMap reads the records by one statement, directly on a pool or connection: callbacks of the
// application might send it to a replica, which is behind.
func (t *topology) queryMap(
	ctx context.Context, database int, pool gorm.ConnPool, lock bool,
) (records []shardRecord, err error) {
	db := t.dbs[database]
	var query strings.Builder
	var names []any
	query.WriteString("SELECT shards, stale_shards, version, next_shards, lease_millis FROM " +
		db.Statement.Quote(internalTable(db, shardsTable)) + " WHERE name IN (")
	for i, name := range t.shardedTables() {
		if i > 0 {
			query.WriteByte(',')
		}
		names = append(names, name)
		db.BindVarTo(&query, &gorm.Statement{Vars: names}, name)
	}
	query.WriteByte(')')
	switch {
	case lock && db.Name() == dialectPostgres:
		query.WriteString(" FOR SHARE")
	case lock && db.Name() == dialectMySQL:
		query.WriteString(" LOCK IN SHARE MODE")
	}
	rows, err := pool.QueryContext(ctx, query.String(), names...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c shardRecord
		err := rows.Scan(&c.Shards, &c.StaleShards, &c.Version, &c.NextShards, &c.LeaseMillis)
		if err != nil {
			return nil, err
		}
		records = append(records, c)
	}
	return records, rows.Err()
}
