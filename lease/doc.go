// Package lease hands out node numbers, each together with a window of time that nobody else can
// have, so that IDs of any number of processes are unique without anybody configuring anything.
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
// # Window
//
// A window is the right to stamp, with one node number, the ticks that begin at or after From and
// end at or before Until. Every grant is one swap of the record, on Owner and Version:
//
//	take     From  = the later of the record's Until and the present
//	         Until = the present + span
//	extend   From stays; Until = the present + span, but never less than it was
//	release  Until = the end of the last tick that was stamped, Owner = none
//
// All times are on boundaries of ticks. "The present" is read off two clocks, the local one and
// the store's: the earlier one for From, the later one for Until. A generator that may run ahead
// of its clock gets as much more at the end. A number is free to be taken when its Until has
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
// The store does not answer: IDs go on until the window ends, two thirds of a span at least. Then
// they wait, for MaxWait of the generator, and fail with an error that says since when there has
// been no extension. The keeper goes on trying, and IDs go on when it succeeds.
//
// A swap was not answered: it counts as not granted. The keeper reads the record; if it is the one
// that the swap was to write, owner, version and times, then the keeper wrote it, and adopts the
// window. A swap that arrives late finds another version and fails.
//
// A process is paused, for however long: its window is in the past when it wakes, so it stamps
// nothing before it has a new one.
//
// A record is gone or has another owner: the keeper drops its window at once, logs it, and takes
// another free number. The generator goes on with it, and its IDs still increase. A keeper that
// may take only one number tries until that is free again.
//
// A process dies: its number falls free when its last window has ended, a span later at most.
//
// A clock is wrong: if the two clocks are more than [MaxSkew] apart, no window is granted and none
// extended ([ErrClockSkew]). A local clock that is behind makes its generator wait for the
// beginning of its window, one that is ahead shortens the time that its window lasts.
//
// A clock steps back: the generator's virtual clock stays where it is, and Until never falls.
//
// Close: the generator is sealed first, so that no ID can follow; then the number is released. If
// the release fails the number falls free by itself.
//
// # Why no ID is made twice
//
//  1. Two equal IDs would have the same node and the same tick.
//  2. A generator makes an ID only if its tick lies in the window of its tenure, and within one
//     generator the pair of tick and sequence only grows. A tenure serves one generator.
//  3. So the two IDs come from two tenures, which had windows of the same node with a common tick.
//  4. Windows of a node are granted by successive swaps of one record, because each swap compares
//     Version, which every swap changes.
//  5. While the owner stays the same, all windows belong to one tenure.
//  6. When the owner changes, the new window begins at or after the Until that the swap replaced.
//  7. That Until is at or after the end of every window granted before, because extensions never
//     lower it, or it was lowered by a release, after which the generator stamps nothing and
//     before which it stamped nothing beyond.
//  8. A window that a keeper believes to have is one whose swap was acknowledged, or whose record
//     was read after a swap that was not.
//  9. So windows of different tenures have no tick in common, and the two IDs cannot be.
//
// No step mentions a clock. Clocks decide only when a number is taken, extended and found free.
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
// A virtual machine that is cloned while it runs: both copies have the same window and stamp it
// alike until the second of them extends it, a third of a span at most. That one finds a record
// that it did not write, and takes another number under another name. Copies that wake when the
// window is over make no equal IDs at all.
package lease
