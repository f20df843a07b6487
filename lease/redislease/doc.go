// Package redislease keeps the records of package lease in Redis or Valkey. Read this first: Redis may
// forget what it has acknowledged. Package lease promises that no ID is made twice only if the store
// forgets nothing.
//
// # What Redis may forget
//
// By default Redis writes to disk once a second or less often, so a server that crashes forgets its
// last second or everything. It also sends writes to its replicas only after it has acknowledged
// them, so a failover forgets what was not sent yet. Then the record of a number may be gone, or older
// than its holder knows, while the holder goes on with its window. If another process takes the
// number now, two processes have it. This ends when the first of them extends its window and finds
// a record that is not its own: after a third of a span usually, 5 s with the default span, and
// after a whole span at the latest. An ID is made twice only if both stamp the same tick in that
// time, and the same sequence number in it.
//
// Where this is not good enough there are two ways:
//
//   - another store: a database (gormlease), etcd or ZooKeeper. If you already run one of
//     these, use it;
//   - [WithStrict], which refuses a Redis that forgets. It costs an fsync and a round trip to every
//     replica for each window, a few times a minute and process, and it costs availability: while
//     one replica is missing no window is granted.
//
// Without WithStrict the store logs a warning when [lease.Acquire] first reads the records, if the
// server is set so that it may forget them; see [WithLogger].
//
// In either case Redis must not evict the records. It does so when its memory is full and
// maxmemory-policy begins with "allkeys", as for a cache: keep the records elsewhere then.
//
// # Use
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	store, err := redislease.New(client, "snowflake:", redislease.WithStrict(1, 2*time.Second))
//	if err != nil { ... }
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//
// # Keys
//
// All records under the prefix "snowflake:" are one hash, "snowflake:nodes", with a field for each
// node number whose value is the JSON of [lease.Record]. It never expires. Two more fields are no
// numbers. The field 9223372036854775807 has the identity, as the record of a reserved number, which is how
// versions before it read it. The field "lists" counts how often the records were read: only a master takes
// writes, so a reading that writes cannot be answered by a replica that lags behind. Every change is made by
// a script on this one key, so that in a cluster all of it happens at one server; TIME in a script is the
// clock. The key "snowflake:identity" notes the identity, and is read and written once by each process.
// Package lease says what follows if the first key was deleted, evicted or renamed, and what if Redis loses
// both, as FLUSHALL does.
//
// It takes Redis 5 or later, and a user who may run EVAL with HGET, HSET, HGETALL, HINCRBY and TIME
// on the first key, and with GET and SET on the second.
//
// # Waiting
//
// Unless its ContextTimeoutEnabled is set the client does not heed deadlines. The store returns
// when the context ends, and what it waited for ends by the timeouts of the client; a swap may be
// executed until then. A swap is never sent twice.
package redislease
