// Package generator makes unique, time-ordered 64-bit IDs.
//
// An ID is a time, a node and a sequence number packed into one non-negative int64:
//
//	 62                  22 21        12 11           0
//	+----------------------+------------+--------------+
//	| time: ticks of epoch | node       | sequence     |   Default(): 41 + 10 + 12 bits
//	+----------------------+------------+--------------+
//
// Comparing two IDs compares their times first, so a primary key of such IDs is also an index
// on creation time. The sequence is always lowest, so the low bits choose a shard. A [Layout]
// says how many bits each part has, how long a tick is and when time began; presets such as
// [Default], [Twitter] and [Game] are functions that return one.
//
//	g, err := generator.New(generator.Default(), generator.Node(7))
//	if err != nil { ... }
//	id, err := g.Next(ctx)                     // one ID
//	err = g.Fill(ctx, ids)                     // a whole batch, strictly increasing
//	parts, err := g.Layout().Decompose(id)     // its time, node and sequence
//
// # Uniqueness
//
// Two IDs of one generator differ because the pair (tick, sequence) only ever grows. Two IDs of
// different generators differ because a generator stamps only ticks that its [Tenure] gives to
// it alone: a node number together with a window of time. [Node] is a number given by hand, for
// good; then it is up to the giver that no other generator uses it.
//
// # One virtual clock, one bound
//
// A generator keeps a virtual clock. Every reservation moves it to the later of the wall clock
// and itself. It runs ahead of the wall clock in two cases, which are one condition: the IDs of
// a tick were used up, or the wall clock was set back. As long as it is ahead by no more than
// MaxAhead ([WithMaxAhead]), IDs go on at once; beyond that callers wait, outside the lock,
// until the wall clock has caught up; and when the wait would be longer than MaxWait
// ([WithMaxWait]) they get a [*ClockError] at once. A clock that jumps forward is followed.
//
// # Restart
//
// A generator with a hand-given node starts its virtual clock MaxAhead in front of the wall
// clock, as if that tick were full. Whatever an earlier process with the same node issued lies
// at or below that point, so a restart repeats nothing, provided that the wall clock was not set
// back between the two processes and that both use the same MaxAhead. A clock that was set back
// while no process ran is the gap that a number given by hand leaves; only a Tenure that knows how
// far its node has come closes it.
//
// # Evenness
//
// Rows are spread over N shards by (sequence mod N). A generator that started every tick at
// sequence 0 would put all rows of a quiet table into shard 0. This one draws the first sequence
// of every fresh tick from a shuffled deck of the numbers 0..N-1, and goes on from there one by
// one: at one ID a tick, the counts of any two of the N shards never differ by more than 1.
// Declare N with [WithShards]; by default any power of two up to a sixteenth of the sequence will
// do.
package generator
