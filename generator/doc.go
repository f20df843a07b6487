// Package generator generates unique, time-ordered 64-bit IDs.
//
// An ID is a time, a node and a sequence number packed into one non-negative int64:
//
//	 62                  22 21        12 11           0
//	+----------------------+------------+--------------+
//	| time: ticks of epoch | node       | sequence     |   Default(): 41 + 10 + 12 bits
//	+----------------------+------------+--------------+
//
// IDs are compared by time first, so a primary key of such IDs is also an index on creation time.
// The sequence is always lowest, so the low bits select a shard. A [Layout] defines how many bits
// each part has, how long a tick is and when the epoch begins. Presets such as [Default], [Twitter]
// and [Game] are functions that return a Layout.
//
//	g, err := generator.New(generator.Default(), generator.FixedNode(7))
//	if err != nil { ... }
//	id, err := g.Next(ctx)                     // one ID
//	err = g.Fill(ctx, ids)                     // a whole batch, strictly increasing
//	parts, err := g.Layout().Decompose(id)     // its time, node and sequence
//
// # Uniqueness
//
// Two IDs of one generator differ because the pair (tick, sequence) only ever grows. Two IDs of
// different generators differ because a generator uses only the ticks that its [Tenure] grants to
// it alone. A grant is a node number together with a window of time. The window of a [FixedNode]
// never ends. You must then make sure that no other generator uses the same number.
//
// # One virtual clock, one bound
//
// A generator keeps a virtual clock. Every reservation sets it to the wall clock, if that is later.
// The virtual clock runs ahead of the wall clock in two cases: the IDs of a tick were used up, or
// the wall clock was set back. The generator treats both in the same way. As long as the virtual
// clock is ahead by no more than MaxAhead ([WithMaxAhead]), IDs are issued at once. Beyond that,
// callers wait outside the lock until the wall clock has caught up. If the wait would be longer
// than MaxWait ([WithMaxWait]), they get a [*ClockError] at once. If the wall clock jumps forward,
// the virtual clock follows it.
//
// A reading of the clock takes several times as long as an ID. At a rate of 256 IDs a tick and more,
// [Generator.Next] therefore gets a small budget of the tick's IDs, which it gives out without a reading,
// and a timer takes the rest of it back after a tick. So an ID can be up to a tick older than the clock. If
// the whole process is paused in a busy tick, some IDs of that tick may be given out right after the pause.
// They are unique, because the tick was granted before.
//
// # Restart
//
// A generator with a fixed node starts its virtual clock MaxAhead ahead of the wall clock, and
// treats that tick as used up. Every ID that an earlier process with the same node issued is at or
// before that tick, so a restart repeats no ID. This requires that the wall clock was not set back
// between the two processes and that both use the same MaxAhead. A fixed node is not protected
// against a clock that is set back while no process runs. Only a lease, which records the node's
// last time, covers that.
//
// # Evenness
//
// Rows are spread over N shards by (sequence mod N). If a generator started every tick at sequence
// 0, all rows of a rarely used table would go to shard 0. This generator draws the first sequence
// number of every new tick from a shuffled deck of the numbers 0..N-1, and then counts up. At one
// ID per tick, the counts of any two of the N shards never differ by more than 1. Declare N with
// [WithShards]. The default suits any power of two up to a sixteenth of the sequence.
package generator
