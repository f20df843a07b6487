package snowflakeplugin

import (
	"context"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
)

// ReshardConfig says how the shards of a router are doubled. The zero value keeps the databases.
type ReshardConfig struct {
	// Databases are the databases afterwards: those of the router in the same order, and after them any
	// number of new ones. By default no database is added.
	Databases []*gorm.DB
	// Place returns the index of the database of each new shard. The old shards stay where they are. By
	// default it is the shard modulo the number of databases. If that does not hold for the old shards,
	// set Place here, and set [ShardingConfig] Place to a function that knows all shards afterwards.
	Place func(shard int) int
	// Chunk is how many rows are moved in one transaction. The default is 1,000.
	Chunk int
	// Progress, if it is set, is called after every chunk and after every comparison of a table, on the
	// goroutine of the step.
	Progress func(ReshardProgress)
}

// ReshardProgress is how far a step of a resharding is with one table.
type ReshardProgress struct {
	Step  string // copy, repair, verify or clean
	Table string // the new table, or the old one when the step is clean
	// Rows is how many rows of the table are copied, or how many a comparison found to differ.
	Rows int64
}

// ReshardMove is one table that a resharding fills with rows of another.
type ReshardMove struct {
	Model                    string
	FromTable, ToTable       string
	FromShard, ToShard       int
	FromDatabase, ToDatabase int
	Rows                     int64 // that have to move, as counted by Plan
}

// Resharding moves the rows of a router to twice as many shards. Of the rows of shard s, about half
// stay, and the others move to shard s + Shards. All other shards are untouched, and no table is renamed.
//
//	d, err := router.Reshard(ctx, snowflakeplugin.ReshardConfig{})
//	err = d.Copy(ctx)             // during normal operation; it may take long
//	_, err = d.Cutover(ctx)       // goes over to the new tables; statements wait for a moment
//	err = d.Clean(ctx)            // ends the resharding; until then, Undo goes back
//
// All routers of all processes follow the cutover by themselves, because each of them holds a lease on the
// shard map that the databases record. No process has to be stopped, unless databases are added: a process
// that does not have those refuses statements until it is started again with them. Programs that start
// after the cutover must be configured with twice the number of shards.
//
// Every step may be interrupted at any time, by an error or by the end of the process. To continue, call
// Reshard and the step again, in the same or another process, with the old number of shards until Cutover
// has succeeded.
//
// Only one step may run at a time, among all processes.
type Resharding struct{ d *router.Resharding }

// Reshard prepares to double the shards of the router. It checks the configuration, and makes the new
// tables and the journal, which is the table snowflake_moves. It moves no rows. It refuses tables with a
// column that the new tables lack, because only the model says how those are made. It also refuses foreign
// keys, triggers, rules and policies by which the database would do more than move rows. Cutover and Undo
// look at these again, and once more when writes have stopped.
//
// The error wraps [ErrSharding], or is that of a database.
func (r *Router) Reshard(ctx context.Context, cfg ReshardConfig) (*Resharding, error) {
	inner := router.ReshardConfig{Databases: cfg.Databases, Place: cfg.Place, Chunk: cfg.Chunk}
	if cfg.Progress != nil {
		inner.Progress = func(p router.ReshardProgress) { cfg.Progress(ReshardProgress(p)) }
	}
	d, err := r.r.Known().Reshard(ctx, inner)
	if err != nil {
		return nil, publicError(err)
	}
	return &Resharding{d}, nil
}

// PendingCleanup returns the resharding for which [Resharding.Clean] has not been called yet, so that a
// process other than the one that called [Resharding.Cutover] can call it. It returns nil if there is none.
// The error wraps [ErrSharding].
func (r *Router) PendingCleanup() (*Resharding, error) {
	d, err := r.r.Known().PendingCleanup()
	if d == nil || err != nil {
		return nil, err
	}
	return &Resharding{d}, nil
}

// Plan lists the tables that will be filled, and counts the rows that have to move.
func (d *Resharding) Plan(ctx context.Context) ([]ReshardMove, error) {
	moves, err := d.d.Plan(ctx)
	var plan []ReshardMove
	for _, m := range moves {
		plan = append(plan, ReshardMove(m))
	}
	return plan, err
}

// Copy copies the rows that have to move into the new tables, in chunks. Each chunk is one transaction,
// which also records in the journal how far it got. After Copy has returned nil it need not be called
// again: [Resharding.Cutover] brings the copies up to date.
func (d *Resharding) Copy(ctx context.Context) error { return d.d.Copy(ctx) }

// Verify compares every row that has to move with its copy, column by column. It changes nothing. While
// programs write, some copies may be behind, and are reported.
//
// The error is a [*DifferenceError] if there are differences, or that of a database.
func (d *Resharding) Verify(ctx context.Context) error { return publicDifference(d.d.Verify(ctx)) }

// Cutover brings the copies up to date, verifies them, and makes the new tables the valid ones, for all
// processes. It returns the router that the resharding was made from, which has twice the shards from then
// on, as those of the other processes have.
//
// The steps are:
//
//  1. Copy and repair, while statements go on.
//  2. Close the shard map. Nobody gets a lease on it any more, and after three seconds nobody holds one.
//  3. Wait for the end of open transactions, for five seconds at most.
//  4. Compare all rows that move with their copies.
//  5. Repair the copies of rows that were written up to then, and compare those again.
//  6. Record the new map.
//  7. Remove the moved rows from the old tables.
//  8. Open the new map.
//
// From step 2 to step 8, statements and methods of routers whose lease has ended wait, or are refused with
// [ErrShardMap]. So reads and writes stand still for about as long as it takes to compare the rows that move
// with their copies, and to delete them. Handles that were made before the cutover are refused with
// ErrShardMap from then on.
//
// The errors are those of [Resharding.Copy] and [Resharding.Verify], or one wrapping [ErrSharding] that says
// which transactions are open after these five seconds; after one of them nothing has changed, and the old
// map is open again. If the process ends while the map is closed, or a database fails
// while the new number of shards is recorded, nothing is routed until Reshard and Cutover are called again,
// in any process.
func (d *Resharding) Cutover(ctx context.Context) (*Router, error) {
	r, err := d.d.Cutover(ctx)
	if err != nil {
		return nil, publicDifference(err)
	}
	return &Router{r}, nil
}

// Clean ends the resharding after Cutover: it removes the journal, and until then there cannot be another
// resharding. No table has rows of another shard since Cutover.
//
// The error is that of a database, or says that an old table has rows of another shard, which a program
// without this library has written after the cutover. Clean never removes a row.
func (d *Resharding) Clean(ctx context.Context) error { return d.d.Clean(ctx) }

// Undo ends the resharding with the old number of shards, from any state until [Resharding.Clean] has ended
// it. No row is lost.
//
// Before the cutover it opens the old map, if that is closed, and drops the new tables, of which nobody has
// made use. It drops only tables that Reshard has made, and refuses one with a row that is not a copy.
//
// After the cutover it goes back: it closes the shard map as [Resharding.Cutover] does, waits for leases and
// transactions, copies the rows of the new tables back into the old ones, also rows that were written since
// the cutover, and verifies them. Then it records the old number of shards, opens the map, and drops the new
// tables. Statements wait meanwhile, for longer than in a cutover. All routers of all processes follow by
// themselves. Programs that start afterwards must be configured with the old number again.
//
// If it fails before all databases have recorded the old number, the new map is opened again. If the process
// ends meanwhile, call Undo again, in any process, or use "snowflake shards undo".
//
// The error wraps [ErrSharding], or is a [*DifferenceError] or that of a database.
func (d *Resharding) Undo(ctx context.Context) error { return publicDifference(d.d.Undo(ctx)) }

// Difference is a row that differs between the old and the new table.
type Difference struct {
	Table string // the new table
	ID    ID
	What  string // missing, superfluous or changed
}

// DifferenceError says that copies differ from the rows that they were made from.
type DifferenceError struct {
	// Rows is the number of rows that differ.
	Rows int64
	// First has the first ten of them.
	First []Difference
}

// Error names the first differences.
func (e *DifferenceError) Error() string {
	inner := &router.DifferenceError{Rows: e.Rows}
	for _, d := range e.First {
		inner.First = append(inner.First, router.Difference{Table: d.Table, ID: int64(d.ID), What: d.What})
	}
	return inner.Error()
}

// publicDifference is publicError for what compares rows as well.
func publicDifference(err error) error {
	inner, is := err.(*router.DifferenceError) //nolint:errorlint // likewise never wrapped
	if !is {
		return publicError(err)
	}
	public := &DifferenceError{Rows: inner.Rows}
	for _, d := range inner.First {
		public.First = append(public.First, Difference{d.Table, ID(d.ID), d.What})
	}
	return public
}
