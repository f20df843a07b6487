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
// driver. The rest of this page is the specification.
//
// # Principles
//
// Sources are opened read-only, by a setting of the session, and no statement writes to them. The target
// is a fresh database: the migrations of the game have made its tables, and the tables are empty. So
// dropping the target undoes a merge. Every table has a policy in a plan that people review; a table that
// is not in the plan is an error. All decisions are stored in the target, in tables whose names begin with
// merge_, before the first row is copied, and the run follows them.
//
// # Policies
//
//	copy         every row; two rows with an equal key are an undecided conflict
//	rename       copy, but values of a unique column that are equal get new names
//	sum          rows with an equal key become one row, and its numbers are added up
//	keep_first   of rows with an equal key, the row of the first server in the plan stays
//	newest       of rows with an equal key, the row with the greatest value of a column stays
//	rebuild      no row is copied: the game computes the table anew
//	skip         the table is ignored
//	undecided    nobody has said yet; Check lists what there is to choose from, and Run refuses
//
// Draft writes only what keeps every row, copy and rename, and undecided where that may be wrong.
// It looks for references in the data, since the databases of most games declare none: what it is almost
// certain of stands under identities, and what may be one is undecided. Everything that it has found is in a
// [Lock], which is kept beside the plan. Check looks again, and refuses columns that are new, of which the
// data says something else now, or which hold keys that change although nobody has said what they are.
//
// In its file a plan is short. An identity lists the columns that hold its keys, by name or by a pattern such
// as character_*.guid. Tables with the same settings share an entry under groups, and what is undecided about
// columns is listed by the keys that they may hold.
//
// Rows become one, by sum, keep_first and newest, if they are equal in the columns under key. Nobody but the
// plan says which ones these are, and a column that a database counts is none of them: it has equal values
// for rows that have nothing in common.
//
// Two keys are equal if the unique key of the target treats them as equal, with its collation. Keys are
// loaded into a temporary table with the column types of the target, and the target groups them. Where
// rows with different primary keys become one, references to them are changed to the row that stays.
//
// # Balance
//
// For each table, the rows of all servers are those of the target and those that the plan gives up, with
// their number for each reason, such as "gives_up: {auction_log: {skipped: 1204}}":
//
//	collapsed     the row became one with another row
//	orphans       it refers to a row that the target does not have, and the plan drops such rows
//	filtered      it does not meet the condition of the plan
//	skipped       the policy of the table is skip; nothing is lost, and no number needed, if the target has
//	              the rows that each server has, as what the migrations of a game fill
//	rebuilt       the policy of the table is rebuild
//	quarantined   the target has refused it
//
// Check counts them, and refuses a plan with other numbers; its report has the lines. Run counts again what
// it has done, and the rows of the target, before it ends. Verify counts sources and target by itself.
// Only a run knows all rows that go to the quarantine, so Check takes the number of the plan for it.
//
// # Counted keys
//
// Keys that databases count (AUTO_INCREMENT and the like) collide. With "renumber: apart", the keys of
// a table move, on every server, into a range in which no column has a value that may be one of the old
// keys. A reference that the plan forgets then leads to no row. Tables whose keys lie in one range move
// by one number on each server, so keys that were equal stay equal, and others differ. With "renumber:
// true", the keys of a table on each server grow by the greatest key of the servers before it, and by
// one more if they start at 0. So does every reference to them, whether it is a foreign key or declared
// in the plan. Keys that a generator made stay the same. No rows become one by a key that is
// renumbered.
//
// # Node leases
//
// If the target has a table of leases, as package gormlease makes it, a run marks the node numbers of the
// merged servers there as held until the year 9999, so that no process can lease them again. The table is
// found by its columns and its primary key, whatever its name. If several tables have this shape, Check
// refuses until the plan names the right ones. Tables outside the current schema are not seen.
//
// # States of a run
//
//	(fresh) --Run--> [checked] --decisions and journal, one transaction--> [decided]
//	[decided] --chunk, chunk, ...--> [copied] --references of cycles--> [filled] --outputs--> [done]
//	[done] --Run--> [done], nothing changes
//
// The table merge_run holds the state and the hash of the plan. The journal, merge_journal, has a row for
// every step (copy or fill) of every table and server: the last key that was written, and the number of
// rows. A chunk, which is at most 10,000 rows and, if they go through this program, about 8 MB, and its
// journal entry are written in one transaction. No table of the target holds a time or the name of a
// process, so every path through these states ends with the same bytes.
//
// Decisions are in merge_renames, merge_drops and merge_values. Each row names the table, the server and
// the primary key that it is for. merge_servers maps every old server to the server that has its rows now.
//
// # What each failure leads to
//
// The process dies, even by kill -9: the database rolls back its transaction. The next run continues after
// the last key in the journal, reads the stored decisions, and ends with the same target as a run that was
// never interrupted. If the process dies before [decided], the target has not changed, except for empty
// merge_ tables.
//
// A source is lost: the run ends with an error that names the server. Run again when the source is back.
//
// A source was written to: the journal stores the number of rows and the greatest key of every table
// together with the decisions. Run compares them when it starts or resumes, compares the number of rows
// again when a table is complete, and fails with ErrSourceChanged. An UPDATE is only found by Verify, by
// its checksums.
//
// Other rows are missing in the target than the plan gives up: ErrBalance, before [done].
//
// The plan was changed after [decided]: ErrOtherPlan. Undo the change, or drop the target and begin anew.
//
// Two runs at once: the second one gets ErrLocked. The lock belongs to a connection, so it ends with the
// process. It is an advisory lock on PostgreSQL, GET_LOCK on MySQL, and on SQLite a transaction held open
// in the file NAME-merge-lock beside the target.
//
// The target refuses a row: the chunk is rolled back, and the run ends with an error that names the table,
// the server and the row. With "bad_rows: quarantine" the row and the reason go to merge_quarantine
// instead, and the run continues.
//
// Foreign keys form a circle: SQLite and MySQL write without checking foreign keys, and Verify looks for
// orphans afterwards. On PostgreSQL a nullable column of the circle is written as NULL and filled in a
// second pass. If no column of the circle is nullable, Check reports a problem.
//
// # What is not covered
//
// Writes to a source during the run are noticed by row counts and greatest keys only, so stop the servers
// first. Triggers and events of the target act if the plan lists them under fires. Data outside of the
// databases is a matter for hooks.
package merge
