// Package redissegment keeps the counters of package segment in Redis or Valkey. A claim is one script,
// which compares the residue and raises the counter in the same atomic step. Read this first: Redis may
// forget what it has acknowledged, and then it gives the same numbers again.
//
// # What Redis may forget
//
// By default Redis writes to disk once a second or less often, so a server that crashes forgets its
// last second or everything. It also sends writes to its replicas only after it has acknowledged
// them, so a failover forgets what was not sent yet. Then a counter is lower than it was, or begins
// again at 1, and the next claim gets numbers that are in use. A process that was running before notices
// this and fails with [segment.ErrWentBack]. A process that is started afterwards cannot notice it.
//
// Where this is not good enough there are two ways:
//
//   - another store: a database, with package gormsegment or sqlsegment;
//   - [WithStrict], which refuses a Redis that forgets. It costs an fsync and a round trip to every
//     replica for each claim, which is little with large blocks. It costs availability too: while one
//     replica is missing no numbers are claimed.
//
// Without WithStrict [New] logs a warning if the server is set so that it may forget; see [WithLogger].
// After a loss, raise every counter above all numbers in use before you start anything: see
// [segment.Raise].
//
// In either case Redis must not evict the counters. It does so when its memory is full and
// maxmemory-policy begins with "allkeys", as for a cache: keep the counters elsewhere then.
//
// # Use
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	store, err := redissegment.New(ctx, client, "snowflake:", redissegment.WithStrict(1, 2*time.Second))
//	if err != nil { ... }
//	orders, err := segment.New(store, "orders")
//
// # The key
//
// All counters under the prefix "snowflake:" are one hash, "snowflake:counters", which never expires. The
// counter "orders" has these fields:
//
//	next:orders     the first number that was not claimed yet
//	residue:orders  remainder and modulus: "0 1" without a residue, and "0 0" if it is frozen
//	updated:orders  when it was last changed, in seconds since 1970, by the server's clock
//
// The field "kind orders" is "segment", or "daily" for the counter of a day, and tells whether the counter
// went back. A colon in the name is the byte 1 there, because earlier versions know no such field.
//
// The field "identity" has a random text. A claim by somebody who knows another one is refused with
// [segment.ErrWentBack]: the hash was removed, emptied or evicted meanwhile.
//
// The field "readings" counts how often the counters were listed. Only a master takes writes, so a listing
// that writes cannot be answered by a replica that lags behind. Everything is done by scripts on this one
// key, so that in a cluster all of it happens at one server.
//
// The store needs Redis 5 or later, and a user who may run EVAL with HMGET, HSET, HDEL, HGETALL, HINCRBY and
// TIME on that key.
//
// # Waiting
//
// Unless its ContextTimeoutEnabled is set the client does not heed deadlines. The store returns
// when the context ends, and what it waited for ends by the timeouts of the client. A claim may be
// executed until then, and its numbers are lost. A claim is never sent twice.
package redissegment
