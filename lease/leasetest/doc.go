// Package leasetest holds the tests that every [lease.Store] must pass, and a store in memory.
//
// The author of a store writes one test:
//
//	func TestStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) func() lease.Store {
//			name := newTable(t) // empty and not used by another test
//			return func() lease.Store { return openStore(t, name) }
//		})
//	}
//
// The outer function creates a storage. The inner function opens a handle on it as another process
// would: with its own client and connections, if the store has any.
//
// # Clauses
//
// The contract is divided into clauses. Each clause is a sub-test with a fresh storage. A clause
// that fails prints what it observed, what the contract requires, and why. The clauses of the group
// Store test the store alone. The clauses of the group Keeper let keepers and generators use the
// store. They take a few seconds and need a store whose clock is within [lease.MaxSkew] of the
// local clock. Optional features of a store, such as [lease.WithinSwapper], are tested if the store
// has them and skipped otherwise. One clause takes all records away; it needs a store that is an [Emptier].
//
// A test cannot prove that a store is linearizable. These tests find the usual faults: a comparison
// in the client, a collation, a rounded time, a page that ends early, an upsert instead of an
// update, an error where the answer is false, and a swap that is acknowledged and not committed
// because the connection is in a transaction or was renewed. The store's own tests must cover what
// happens if its server fails.
//
// # Memory
//
// [Memory] is the smallest store that passes. Use it to test programs that lease a node:
//
//	store := leasetest.NewMemory(nil)
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
package leasetest
