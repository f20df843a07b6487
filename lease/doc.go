// Package lease hands out node numbers. Each comes with a window of time that no other process can
// hold, so the IDs of any number of processes are unique without any configuration.
//
//	store, err := gormlease.New(db)        // or a store in etcd, ZooKeeper, Redis
//	if err != nil { ... }
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//	if err != nil { ... }
//	defer keeper.Close(ctx)
//	g, err := generator.New(generator.Default(), keeper)
//	if err != nil { ... }
//	id, err := g.Next(ctx)
//
// The plugin does all of this by itself. What follows is the specification of the protocol; the
// tests of this package run it through simulated and real faults.
//
// # Authority
//
// The authority is one [Store]: one record for every node number that was ever used, changed only
// by compare-and-swap. There is no leader, and no process asks another. Nothing is decided by a
// timeout, by an address or by a process number.
//
// # Record
//
// A [Record] says who has the number (Owner, different for every tenure), up to which time ticks
// were granted to its holders, past and present (Until), how often it was changed (Version), and
// for which layout. A record is never removed.
//
// Two stores grant the same numbers, so all who write to one database must use one store. A store that is
// an [Identifier] has a random [Identity], which is made with its records. The plugin notes it in each
// database whose rows it gives IDs, in the table snowflake_authority, and refuses another store there.
//
// # Layout
//
// IDs of two layouts can be equal, so all processes of one store use one layout. A record binds the
// store to a layout. It stops doing so when its holder gives it back without having made an ID, if no
// holder before it had made one either: then its layout is "none", as if it had never been taken.
// Whoever takes a number that binds nothing looks at all records once more afterwards. If one of them
// is bound to another layout, it gives the number back as it was, and makes no ID.
//
// So two layouts are never in use together. Suppose that L and M were:
//
//  1. Each has a first record that was bound to it and has stayed bound ever since.
//  2. Both records bound nothing when they were taken, so each taker read all records after its swap.
//  3. The later of these two readings came after both swaps, so it showed the record of the other layout.
//  4. The taker that made this reading gave its number back, and its record did not stay bound. This
//     contradicts step 1.
//
// A holder that takes a number which is bound already need not read all records again. The record was
// bound when the holder listed all records. Its version is the same at the swap, so nobody has given it
// back in between. Whoever bound another layout after that list has therefore seen it.
//
// # Window
//
// A window is the right to stamp, with one node number, the ticks that begin at or after From and
// end at or before Until. Every grant is one swap of the record, on Owner and Version:
//
//	take     From  = the later of the record's Until and the present
//	         Until = the present + span
//	extend   From stays; Until = the present + span, but never less than it was
//	release  Until = the end of the last tick that was stamped, if that is known; Owner = none;
//	         Layout = none if no ID was ever made with the number
//
// All times are on boundaries of ticks. "The present" is read from two clocks, the local one and
// the store's: the earlier one counts for From, the later one for Until. If the generator may run
// ahead of its clock (MaxAhead), Until is later by as much. A number is free when its Until has
// passed by the store's clock, whoever the owner is.
//
// # States
//
//	         take                     extend, about every third of a span
//	(free) -------> [holding: window] <--+
//	   ^              |    |   |  +------+
//	   |    release   |    |   |
//	   +--------------+    |   +--> [overdue: the window has ended, IDs wait] --extend--> [holding]
//	   |    (Close)        |                    |
//	   |                   +---- lost ----------+---> [moving: takes another free number]
//	   +--- Until passes, for those who look at the record (a crash, a pause, a partition)
//
// # What each failure leads to
//
// The store does not answer: IDs go on until the window ends, which takes at least two thirds of a
// span. Then calls wait for the generator's MaxWait and fail with an error that says since when
// there has been no extension. The keeper keeps trying, and IDs go on when it succeeds. While calls
// wait it tries again after at most 250 ms, and gives up a request that has not been answered for
// 250 ms, or for four times as long as the slowest of the latest attempts. So IDs come back at most half
// a second after the store does, whether it refused connections or was silent. While no call waits, the
// pauses grow to a third of a span.
//
// The store may have become slow, so some attempts may take longer, up to a third of a span. Short probes
// ([Prober]) run beside such an attempt. If a probe is answered and the attempt is not, the request of the
// attempt counts as lost, and the next attempt begins. If the store answers probes all the time and is slow
// with attempts, each attempt is given four times as long as the one before. A request that was given up
// counts as unanswered, like any other, and a probe changes nothing, so neither can grant anything.
//
// A swap was not answered: it counts as not granted. The keeper reads the record; if it is the one
// that the swap was to write, owner, version and times, then the keeper wrote it, and adopts the
// window. A swap that arrives late finds another version and fails.
//
// The record can be read and not written, because a transaction of somebody else has locked it: when that
// has lasted for a span, and for 10 s, and the window has ended, the keeper takes another number, if more
// than one may be taken. It tries that once in a span, since a store that is only slow to write may grant the
// number when nobody waits for it any more.
//
// A process is paused, for any length of time: when it wakes, its window may have ended. Then it
// issues no ID before it has a new window.
//
// A record is gone or has another owner: the keeper drops its window at once, logs it, and takes
// another free number. The generator goes on with it, and its IDs still increase. A keeper that
// may take only one number tries until that is free again.
//
// A process dies: its number falls free when its last window ends, at most a span later. Where a store asks
// for longer spans, a window lasts as long as its process has lived, so a process that dies young costs its
// number for a minute at most ([WithSpan]).
//
// A clock is wrong: if the two clocks are more than [MaxSkew] apart, no window is granted and none
// extended ([ErrClockSkew]). A local clock that is behind makes its generator wait for the
// beginning of its window, one that is ahead shortens the time that its window lasts.
//
// A clock steps back: the generator's virtual clock stays where it is, and Until never falls.
//
// The records were deleted: nothing tells which windows run, so a store that is an [Identifier] grants
// nothing. IDs go on until the windows end, and then fail with snowflakeplugin.ErrAuthority. The error ends
// with what gives the records their identity again; run that when no process holds a number of the lost
// records any more.
//
// Close: the generator is sealed first, so that no ID can follow; then the number is released. If
// the release fails, or is not answered within 5 s, the number falls free by itself.
//
// Nobody has claimed the keeper, because somebody's own Tenure stands between it and the generator:
// nothing can be sealed, and nobody says which tick was the last. A release leaves Until where it is.
//
// # Why no ID is made twice
//
//  1. Two equal IDs would have the same node and the same tick, because all have one layout.
//  2. A generator makes an ID only if its tick lies in the window of its tenure, and within one
//     generator the pair of tick and sequence only grows. A tenure serves one generator.
//  3. So the two IDs come from two tenures, which had windows of the same node with a common tick.
//  4. Windows of a node are granted by successive swaps of one record, because each swap compares
//     Version, which every swap changes.
//  5. While the owner stays the same, all windows belong to one tenure.
//  6. When the owner changes, the new window begins at or after the Until that the swap replaced.
//  7. That Until is at or after the end of every window granted before, because extensions never
//     lower it, or it was lowered by a release, after which the generator stamps nothing and
//     before which it stamped nothing beyond. A release lowers it only if the generator has claimed
//     the keeper, and so was sealed, or if nobody ever asked for the window.
//  8. A window that a keeper believes to have is one whose swap was acknowledged, or whose record
//     was read after a swap that was not.
//  9. So windows of different tenures have no tick in common, and the two IDs cannot be.
//
// No step mentions a clock. Clocks decide only when a number is taken, extended and found free.
//
// # Why no two stores fill one database
//
// The argument above is about one store. Another store may grant the same numbers, so the plugin sees to it
// that the IDs of the rows of a database come from one store. The package test/model has a model of this
// protocol. It visits all states of a few processes and two databases, with every order of their requests. In
// quotes are the clauses that it proves. It also shows that each clause falls if a mechanism is taken away.
//
//  1. The identity of a store is a record among its records, the mark. A process reads the mark before any
//     other record, and notes the identity beside the records: in the same schema, or under a key of its own.
//     A program that leases from a table without the plugin does so by a call of Identity.
//  2. If the identity is noted and there is no mark, the table was dropped or emptied, and nothing tells
//     which numbers were in there. A table without records gets its mark back only from an operator, who
//     first waits until all windows have ended.
//  3. The statement that makes the first record of a number looks for the mark that its process knows, and so
//     does every reading of all records. If a transaction is emptying the table, the statement waits for its
//     end. A record that is there is changed only if it has the owner and the version that the process has
//     read. So "a store that was emptied or replaced grants nothing to those who know its identity".
//  4. Before a process makes an ID for a database, it inserts the note of the rows, unless there is one, and
//     reads it afterwards. The primary key lets one note win, and all processes read that one. Where nothing
//     can be written, no ID is made until it can. So "nobody makes an ID for a database that does not note
//     the identity of his store".
//  5. Two stores have one identity only if one of them is a copy of the other. If a database seems to have
//     the leases of a process whose store is in another place, the process looks there for its own record. In
//     a copy that record has another owner or an older version. So "nobody makes an ID for a copy that is
//     older than his last swap".
//  6. A number is granted once in one store, as shown above. So "no two processes make one ID for the rows of
//     a database", unless its leases were copied, restored or lost under running processes.
//  7. After these faults the primary key of the rows decides: "a row keeps its key to itself". A process
//     whose new key is refused asks for the row that has it. An equal row is its own, which a proxy has sent
//     twice: "a witness is the row of somebody else". "Who has met two rows of somebody else takes another
//     number, if one is free."
//  8. No mechanism stands in the way of those who did nothing wrong: "without faults, somebody gets a number,
//     and nobody is refused unless an operator has to act".
//
// When the rows move to another store, the old leases are drained first: every record gets another version
// and a layout that is none. Whoever makes a first record looks at all records once more, and gives it back.
// Then the records of the new store are raised to the ends that were read, and only then the note changes. So
// the clause of step 6 holds during a move, too.
//
// # What is not covered
//
// A store that loses a swap which it has acknowledged, because it was restored from an older
// backup, failed over to a replica that lagged behind, or does not write to disk: the processes
// that hold numbers at that moment and those that take them afterwards may have windows in common,
// for a span at most, until the former find their records changed.
//
// A record that somebody changes by hand so that Until falls, or removes, while a process holds
// the number; it is the same with the same exposure.
//
// A store whose records are lost together with the note of its identity: a process that starts later makes a
// new identity. The databases that have noted the first one refuse it, and a program without a database is
// not warned.
//
// A virtual machine that is cloned while it runs: both copies have the same window and stamp it
// alike until the second of them extends it, a third of a span at most. That one finds a record
// that it did not write, and takes another number under another name. Copies that wake when the
// window is over make no equal IDs at all.
//
// A database that is copied, or whose note is removed, while a process fills it: the process does not look
// at the note again.
//
// A table of leases that is removed with its notes, and made anew, while a process is paused between its
// reading of the records and its swap: if the number was given back in both tables, and its record was
// changed as often, the process takes the new record for the old one.
package lease
