// Package zklease keeps the records of package lease in ZooKeeper: one znode for each node number,
// changed by writes that name the version of the znode. ZooKeeper writes to the disks of most of
// its servers before it acknowledges, so nothing that was acknowledged is ever lost.
//
//	conn, _, err := zk.Connect([]string{"127.0.0.1:2181"}, 10*time.Second)
//	if err != nil { ... }
//	store, err := zklease.New(conn, "/snowflake")
//	if err != nil { ... }
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//
// # Znodes
//
// The record of node 7 under the path "/snowflake" is the znode "/snowflake/nodes/7", and its data
// the JSON of [lease.Record]. All znodes are persistent, not ephemeral: a number falls free by the
// end that is written in its record, not because a session is over, and the end of the last window
// has to outlive its holder. They are made on first use, with the rights of [WithACL].
//
// More znodes have the identity of the records. The znode "/snowflake/nodes/9223372036854775807" lies among
// them, with the data of a reserved number, which is how versions before it read it, and a znode below it is
// named after the identity. The znode "/snowflake/identity" notes it, and is made after them. All are there
// before the first record. Package lease says what follows if the records were deleted, and what if the note
// was deleted with them.
//
// # As of now
//
// A server of ZooKeeper answers reads by itself, and may lag behind the others. But it answers one
// session in order, and a write has to pass the majority. So whenever it matters the store writes
// to the znode "/snowflake/clock" first, and what it reads next in the same session is as of that
// write at least. If the session is over in between it begins anew. Sync would not do: a leader
// that was deposed and does not know it yet would answer it.
//
// # The clock
//
// The time at which a znode was changed is the leader's, to the millisecond. So the same write
// tells the time: it is the clock that keepers compare theirs with. After the leader has changed it
// is another server's, and servers have to keep their clocks together.
//
// # Waiting
//
// The client knows no contexts. The store returns when the context ends, and the request that it
// waited for ends by the timeouts of the client, a little longer than the session's; a swap may
// be executed until then. No more than 32 requests of a store are under way at a time.
//
// When a server is lost the client asks the others at once. But when it has tried all of them it waits
// for a second, and it waits much longer for a server that accepts its connection while it starts and
// does not answer. So after all servers were away, or the only one, IDs may need seconds longer than
// those of other stores. A [HostProvider] shortens both waits:
//
//	hosts := zklease.NewHostProvider(ctx)
//	zk.Connect(servers, 10*time.Second, zk.WithHostProvider(hosts), zk.WithDialer(hosts.Dial))
package zklease
