// Package etcdlease keeps the records of package lease in etcd: one key for each node number, and
// every change one transaction that compares the revision of that key. etcd writes to the disks of
// most of its members before it acknowledges, and reads are as of now, so nothing that was
// acknowledged is ever lost; it is as good a store as there is.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
//	if err != nil { ... }
//	store, err := etcdlease.New(client, "snowflake/")
//	if err != nil { ... }
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//
// # Keys
//
// The record of node 7 under the prefix "snowflake/" is the key "snowflake/nodes/7", and its value
// the JSON of [lease.Record]. The keys have no etcd lease: a number falls free by the end that is
// written in its record, not because a key is gone, and the end of the last window has to outlive
// its holder. A user of etcd needs the permission to read and write the keys with that prefix.
//
// Two more keys have the identity of the records. The key "snowflake/nodes/9223372036854775807" lies among
// them, as the record of a reserved number, which is how versions before it read it. The key
// "snowflake/identity" notes it. The mark is made first and then the note, both before the first record.
// Package lease says what follows if the records were deleted, and what if the note was deleted with them.
//
// # The clock
//
// A keeper compares its clock with one that all processes share, so that one machine with a wrong
// clock is found before it spoils a record. The protocol of etcd has no clock, but every etcd
// answers GET /version by HTTP, and like any HTTP server says when, in whole seconds. The store
// takes the middle of that second, so it is off by half a second at most, of the 5 s that
// [lease.MaxSkew] allows. It asks the endpoints of the client in turn until one answers; the
// members of a cluster have to keep their clocks together, as etcd itself asks for.
//
// Three things may stand between the store and that clock, and each has an option:
//
//   - https with certificates of one's own: [WithHTTPClient] takes the client to ask with;
//   - an etcd that serves HTTP on other addresses (--listen-client-http-urls), or a proxy that
//     passes gRPC only: [WithClockURLs] names addresses to ask, which may be any HTTP servers that
//     keep their clocks;
//   - no HTTP at all: [WithLocalClock] does without, and without the comparison.
//
// When none answers, no number is taken and no window extended, and the error says what each
// address said.
package etcdlease
