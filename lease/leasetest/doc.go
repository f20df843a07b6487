// Package leasetest has the tests that every [lease.Store] must pass, and a store in memory.
//
// Whoever writes a store writes one test:
//
//	func TestStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) func() lease.Store {
//			name := newTable(t) // empty, and no other test's
//			return func() lease.Store { return openStore(t, name) }
//		})
//	}
//
// The outer function makes a storage, the inner one opens a handle on it, as another process would:
// with a client and connections of its own, if the store has any.
//
// # Clauses
//
// The contract is divided into clauses, each of them a sub-test with fresh storage. A clause that
// fails says what it saw and, below it, what the contract asks for and why. The clauses in the
// group Store look at the store alone; those in the group Keeper let keepers and generators work
// on it, which takes a few seconds and needs a store whose clock is within [lease.MaxSkew] of the
// local one. What a store may leave out, such as [lease.WithinSwapper], is tested if it is there
// and skipped otherwise.
//
// A test cannot prove that a store is linearizable. These find the usual faults: a comparison that
// is left to the client, a collation, a rounded time, a page that ends early, an upsert where an
// update was meant, an error where "no" was the answer. What a store does when its server fails is
// for its own tests.
//
// # Memory
//
// [Memory] is the smallest store that passes. It serves tests of programs that lease a node:
//
//	store := leasetest.NewMemory(nil)
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
package leasetest
