package redissegment

import (
	"log/slog"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
)

// Option changes what [New] does by default. The options of this package are the only ones.
type Option = redisstore.Option

// WithStrict tells the store to believe only what Redis cannot forget: what is on the disk of the
// master and has arrived at that many replicas, on their disks too if the server can tell (WAITAOF,
// since Redis 7.2). A claim that replicas have not confirmed within the timeout is an error, and its
// numbers are lost.
//
// The parameters, and what the server and its user need, are those of WithStrict in package redislease. Every
// request asks the server how it is set, since a failover may lead to one that is set otherwise.
//
// By default, Redis is believed, whatever it is set to, and the log says what that may cost; see
// [WithLogger].
func WithStrict(replicas int, timeout time.Duration) Option {
	return redisstore.WithStrict(replicas, timeout)
}

// WithLogger sets where the store says that Redis may forget what it has acknowledged. By default it
// is slog.Default() at the time of [New].
//
// New looks once at how the server is set. If it does not answer then, the first claim that succeeds looks.
// The store warns if the server does not write to its disk before it answers, or may evict the counters,
// and names the settings. [WithStrict] refuses such a server instead. If the user may not run CONFIG GET,
// an INFO says that nobody has looked.
func WithLogger(l *slog.Logger) Option { return redisstore.WithLogger(l) }
