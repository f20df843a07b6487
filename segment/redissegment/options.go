package redissegment

import (
	"log/slog"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
)

// Option changes what [New] does by default. The options of this package are the only ones.
type Option interface {
	apply(*redisstore.Config) error
}

type option func(*redisstore.Config) error

func (o option) apply(c *redisstore.Config) error { return o(c) }

// WithStrict tells the store to believe only what Redis cannot forget: what is on the disk of the
// master and has arrived at that many replicas, on their disks too if the server can tell (WAITAOF,
// since Redis 7.2). A claim that replicas have not confirmed within the timeout is an error, and its
// numbers are lost.
//
// replicas is how many the master has, all of them: a failover may choose any. With 0 it has none,
// and a server that is down has to come back with its disk. The timeout, from 1 ms to 10 s, is for
// the replicas alone, since Redis 7.2 once for their memory and once for their disks. Replicas that
// work answer within milliseconds, sometimes only with their next report a second later, so it
// should be two seconds or more.
//
// [New] asks the server how it is set, and so does every request, since a failover may lead to a server
// that is set otherwise. The server and the user need:
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
	return option(func(c *redisstore.Config) error { return c.WithStrict(replicas, timeout) })
}

// WithLogger sets where the store says that Redis may forget what it has acknowledged. By default it
// is slog.Default() at the time of [New].
//
// New looks once at how the server is set. If it does not answer then, the first claim that succeeds looks.
// The store warns if the server does not write to its disk before it answers, or may evict the counters,
// and names the settings. [WithStrict] refuses such a server instead. If the user may not run CONFIG GET,
// an INFO says that nobody has looked.
func WithLogger(l *slog.Logger) Option {
	return option(func(c *redisstore.Config) error { return c.WithLogger(l) })
}
