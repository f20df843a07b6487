package redislease

import (
	"log/slog"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
)

// Option changes what [New] does by default. The options of this package are the only ones.
type Option = redisstore.Option

// WithStrict tells the store to believe only what Redis cannot forget: what is on the disk of the
// master and has arrived at that many replicas, on their disks too if the server can tell (WAITAOF,
// since Redis 7.2). Replicas that have not confirmed within the timeout make it an error, which
// means as always that the record may or may not be stored.
//
// replicas is how many the master has, all of them: a failover may choose any. With 0 it has none,
// and a server that is down has to come back with its disk. The timeout, from 1 ms to 10 s, is for
// the replicas alone, since Redis 7.2 once for their memory and once for their disks. Those that
// work answer within milliseconds, sometimes only with their next report a second later, so it
// should be two seconds or more.
//
// [New] asks the server, and so does every swap and every reading of the records, since a failover
// may lead to one that is set otherwise. What it takes:
//
//	appendonly yes, appendfsync always, no-appendfsync-on-rewrite no
//	maxmemory-policy noeviction, or one that begins with volatile
//	no more replicas than confirm
//	a user who may run CONFIG GET, INFO and WAIT, and COMMAND INFO and WAITAOF since Redis 7.2
//
// Before Redis 7.2 nobody can see whether a replica writes to its disk: give all servers the same
// settings. Whoever promotes a replica by hand that was cut off from its master for a while still
// loses what the master has acknowledged since.
//
// By default, Redis is believed, whatever it is set to, and the log says what that may cost; see
// [WithLogger].
func WithStrict(replicas int, timeout time.Duration) Option {
	return redisstore.WithStrict(replicas, timeout)
}

// WithLogger sets where the store says that Redis may forget what it has acknowledged. By default it
// is slog.Default() at the time of [New].
//
// The store looks once at how the server is set, when its records are read for the first time, which
// lease.Acquire does. It warns if the server does not write to its disk before it answers, or may
// evict the records, and names the settings. [WithStrict] refuses such a server instead. If the user
// may not run CONFIG GET, an INFO says that nobody has looked.
func WithLogger(l *slog.Logger) Option { return redisstore.WithLogger(l) }
