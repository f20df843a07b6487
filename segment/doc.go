// Package segment hands out numbers from a counter in a store, in blocks. One trip to the store claims a
// block of numbers, and the block is then given out in memory. The size of the block and the name of the
// counter make the difference between systems that are often built separately: large blocks serve
// millions of numbers a second, blocks of one make a series without gaps, a counter for each day makes
// readable numbers, and several counters with different remainders are ticket servers.
//
//	store, err := gormsegment.New(db) // or a store in Redis, or one of your own
//	if err != nil { ... }
//	defer store.Close()
//	orders, err := segment.New(store, "orders")
//	if err != nil { ... }
//	defer orders.Close()
//	number, err := orders.Next(ctx)
//
// A [Source] is also a snowflakeplugin.Source, so snowflakeplugin.WithSource and WithNumbers take it.
//
// # Two blocks
//
// When a tenth of a block is used, a goroutine claims the next one. Callers therefore wait for the store
// only if it has been silent for the time of nine tenths of a block. A block is meant to last for a
// horizon of 15 minutes: one that lasted less doubles the next, and one that lasted more than twice as
// long halves it, within the limits of [WithBlock]. When both blocks are used up, calls wait up to the
// maximum wait of 1 s, and then fail with [ErrExhausted]. The goroutine goes on trying, about every
// half second while somebody waits, so numbers come back by themselves. Some of its tries may take longer, so
// that a store which has become slow is not taken for a dead one. Probes go along with them ([Prober]), so
// numbers come back at most half a second after a store that was silent. With a store that cannot be probed
// these tries are ever rarer, and take a second.
//
// # Any number of processes
//
// Every process may use every counter. There is no leader and nothing to configure. Numbers increase
// within a process, and between processes roughly, block by block. A process that dies loses the rest of
// at most two blocks, and a claim whose answer is lost is a lost block. The numbers of the series then have
// a gap.
//
// # Why no number is given twice
//
//  1. A number is given out only from a block, and a block is made only from a claim that has returned
//     its first number without an error.
//  2. No two claims return a common number, because the store reads and raises the counter in one atomic
//     step, and commits it before it answers. This is the contract of [Store].
//  3. A claim without an answer makes no block. Its numbers are lost if it took effect after all.
//  4. A claim is never sent a second time to find out what became of it. The next claim is a new one.
//  5. Within a block, one atomic addition reserves numbers. Every number is reserved once, because the
//     addition never goes back.
//  6. A block belongs to one source of one process, and nothing writes it down for another one.
//  7. A source notices if its own store has lost a claim that it had acknowledged, because the counter is not
//     above the last block. The store compares that in the same step, and refuses the claim with
//     [ErrWentBack]. The counter does not move then, so the source does not come to the numbers of others. It
//     freezes the counter, and processes that begin later get no number either until it was raised.
//     A store that was emptied or made anew refuses those who knew it, also for counters that are new.
//  8. Sources with a remainder use one number of each modulus numbers in their blocks. So counters in
//     several databases never meet if they have one modulus and different remainders. The store notes
//     both and checks them in the same step as the claim.
//  9. A number of [Daily] has its date in it. Within a day it is a number of one counter. The store compares
//     the kind of the counter in the claim, so sources of [New] never have the counter of a day.
//  10. So two equal numbers would be in two claims of one counter, which step 2 excludes.
//
// No step mentions a clock, a pause or a process that dies.
//
// # What is not covered
//
// A store that loses a claim which it has acknowledged, because it was restored from an older backup, failed
// over to a replica that lagged behind, or does not write to disk, gives the same numbers again. Step 7 finds
// that only in processes that were running, and by their next claim. Until then others get such numbers. In a
// column with a unique index the
// plugin finds it by the first number that somebody else has: it calls [Source.Refused]. After such a loss,
// raise the counter above all numbers in use before you start anything: see [Raise].
package segment
