// Package chaos disturbs processes that make IDs, and proves afterwards that no ID was made twice.
//
// A test calls [Run] with a store of leases. Run starts processes: the test binary once more, which
// its TestMain hands to [Work]. Each of them leases a node number with package lease, makes IDs with
// package generator, and writes every ID into a journal of its own. Meanwhile faults happen to them,
// which a plan draws from a seed: a process is killed and started again, stopped for up to three
// spans, given a clock that is wrong by up to 8 s, cut off from the server, or keeps a connection on
// which no answer arrives; and the server is killed and started again.
//
// In the end package checker compares the journals. It shares no code with the library. Run fails
// its test if a tick of a node was used twice, and reports how long processes were without IDs after
// the server was back.
//
// [RunCounters] does the same to processes that take numbers from a counter with package segment, in blocks,
// and proves that no number was given out twice.
//
// [TakeOver] and [ClaimLate] do the few things that show most, step by step and without chance, so that they
// show the same on any machine: "go test" runs them, also with processes that break a rule.
//
// The tests run a few seconds of the random faults at night, and "make chaos" and "make count" run three
// minutes of each store.
package chaos
