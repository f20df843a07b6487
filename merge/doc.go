// Package merge joins the databases of game servers: many sources, one target, one run.
//
//	plan, err := merge.Load("plan.yaml")                        // or Draft, which makes the first one
//	m, err := merge.Open(ctx, plan, merge.WithOpener(open))     // open calls sql.Open
//	defer m.Close()
//	check, err := m.Check(ctx)                                  // writes nothing; its Verdict is 0, 2 or 3
//	run, err := m.Run(ctx)                                      // refuses what Check would refuse
//	verify, err := m.Verify(ctx)                                // reads sources and target again
//
// It works on database/sql, for SQLite, MySQL or MariaDB, and PostgreSQL, in any mixture, and imports no
// driver. What follows is the specification.
//
// # Principles
//
// Sources are opened read-only, by a setting of the session, and no statement writes to them. The
// target is a fresh database whose tables exist, made by the migrations of the game, and are empty:
// undo is to drop it. Every table has a policy in a plan that people review; a table that the plan does not
// know is an error. What is decided is written down in the target, in tables that begin with merge_, before
// the first row is copied, and everything that is done follows from there.
//
// # Policies
//
//	copy         every row; two rows with an equal key are an undecided conflict
//	rename       copy, but equal values of one column of a unique key get new names
//	sum          rows with an equal key become one, whose numbers are added
//	keep_target  of rows with an equal key the one of the server that the plan names first stays
//	newest       of rows with an equal key the one with the greatest value of a column stays
//	rebuild      no row: the game computes the table anew
//	skip         the table is not looked at
//	custom       a registered Go function sees every row, may change it or leave it out
//
// "Equal" is always what the unique key of the target calls equal, with its collation: keys are loaded into
// a temporary table of the target's own column types, and the target groups them. Where rows become one and
// their primary keys differ, the references of other tables are led to the one that stays.
//
// # Keys that were counted
//
// Keys of an auto-increment collide, and whoever refers to them would have to follow. "renumber: true" of a
// table adds to such keys of each server the sum of the greatest ones of the servers before it, and to every
// reference to them, whether a foreign key or declared in the plan. Keys made by a generator stay the same.
//
// # States of a run
//
//	(fresh) --Run--> [checked] --decisions and journal, one transaction--> [decided]
//	[decided] --chunk, chunk, ...--> [copied] --references of cycles--> [filled] --outputs--> [done]
//	[done] --Run--> [done], nothing changes
//
// The state is in the table merge_run, together with the hash of the plan. The journal, merge_journal, has a
// row for every step (copy or fill) of every table and server: the last key that was written, and the
// number of rows. A chunk, its rows of at most 10,000 and the journal's row are one transaction. No table
// of the target holds a time or a name of a process, so that every way through these states ends in the
// same bytes.
//
// Decisions are in merge_renames, merge_drops and merge_values, each row of them naming the table, the
// server and the primary key it is for. merge_servers maps every old server to where its rows went.
//
// # What each failure leads to
//
// The process dies, by kill -9 too: the database undoes the transaction it was in. Run again goes on behind
// the last key in the journal, reads the decisions that were taken, and ends with the same target as a run
// that was never interrupted. If it dies before [decided], the target is as it was, but for empty merge_
// tables.
//
// A source is lost: the run ends with an error that names the server; run again when it is back.
//
// A source was written to: the number of rows and the greatest key of every table are in the journal from
// the moment of decision. Run compares them when it begins and when it goes on, compares the number of rows
// again when a table is complete, and refuses with ErrSourceChanged. An UPDATE in between is not seen before
// Verify, by its checksums.
//
// The plan was changed after [decided]: ErrOtherPlan. Drop the target and begin anew, or take back the
// change.
//
// Two runs at once: the second gets ErrLocked. The lock belongs to a connection, so it ends with the
// process: an advisory lock on PostgreSQL, GET_LOCK on MySQL, and on SQLite a transaction held open in the
// file NAME-merge-lock beside the target.
//
// A row that the target refuses: the chunk is undone and the run ends with an error that names the table,
// the server and the row. With "bad_rows: quarantine" the row goes to merge_quarantine, with the reason, and
// the rest goes on.
//
// Rows whose foreign keys form a circle: SQLite and MySQL write without checking foreign keys, and Verify
// looks for orphans afterwards. PostgreSQL gets the nullable column of the circle as NULL first and filled
// in a second pass; where no column of the circle is nullable, Check refuses.
//
// # What is not covered
//
// Sources that are written to during the run are noticed by counts and greatest keys only: stop the servers
// first. Triggers of the target fire and are reported by Check. What lives outside of the databases is the
// business of hooks.
package merge
