// Package segmenttest checks that an implementation of segment.Store keeps the contract of that interface,
// and has a store in memory for tests of programs that use package segment.
//
//	func TestTheStoreKeepsTheContract(t *testing.T) {
//		segmenttest.Run(t, func(t *testing.T) func() segment.Store {
//			database := newDatabase(t) // empty, for this test alone
//			return func() segment.Store { return mystore.New(database) }
//		})
//	}
package segmenttest
