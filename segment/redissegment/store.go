package redissegment

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

var (
	//go:embed claim.lua
	claimScript string
	//go:embed change.lua
	changeScript string
	//go:embed list.lua
	listScript string
	//go:embed identity.lua
	identityScript string
)

// Store is a [segment.Store] in Redis. Make one with [New]; it must not be copied. It is safe for
// concurrent use.
type Store struct {
	kept     *redisstore.Store
	identity atomic.Pointer[string] // of the hash; nil until it is known
}

var (
	_ segment.TermsStore = (*Store)(nil)
	_ segment.Ledger     = (*Store)(nil)
	_ segment.Prober     = (*Store)(nil)
	_ segment.Identifier = (*Store)(nil)
)

// New returns a store that keeps its counters in the hash prefix + "counters", the prefix usually with
// a colon at its end: "snowflake:". Counters of equal names in one hash are one counter.
//
// The client is one for a single server, for Sentinel or for a cluster, as redis.NewClient,
// NewFailoverClient, NewClusterClient and NewUniversalClient return them. A *redis.Ring is refused:
// it asks another server when one is down, which knows nothing of the numbers that were claimed.
// The client stays the caller's, who closes it after the last source.
//
// New looks at how the server is set. Without [WithStrict] a server that may forget what it has
// acknowledged is warned of in the log, see [WithLogger], and one that does not answer is no error. With
// WithStrict both are errors.
//
// An error for client, prefix and options wraps [segment.ErrInvalidOption]. Other errors wrap
// [segment.ErrStore], or that of ctx.
func New(ctx context.Context, client redis.UniversalClient, prefix string, opts ...Option) (*Store, error) {
	kept, err := redisstore.Open(ctx, client, prefix, redisstore.Config{
		Package: "redissegment", Name: "counters", Holds: "counters", Harm: "numbers are given twice",
		ErrOption: segment.ErrInvalidOption, ErrValue: segment.ErrInvalidCounter, ErrStore: segment.ErrStore,
	}, opts)
	if err != nil {
		return nil, err
	}
	kept.Warn(ctx)
	return &Store{kept: kept}, nil
}

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

// Claim reserves n numbers with a single script.
func (s *Store) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return s.ClaimOn(ctx, name, n, segment.AnyTerms())
}

// ClaimOn reserves n numbers on terms, which the script itself checks. With [WithStrict] an error may also
// mean that the numbers were claimed, but not where no failover loses that: they are lost.
func (s *Store) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := segment.CheckTerms(name, n, t); err != nil {
		return 0, err
	}
	// A second claim would only lose numbers, but a series without gaps would have one.
	answer, err := s.write(ctx, claimScript, name, n,
		t.Start, t.Last-n+1, residue(t.Remainder, t.Modulus), t.Above, t.Kind)
	if err != nil {
		return 0, err
	}
	s.kept.Warn(ctx)
	switch {
	case len(answer) == 2 && answer[0] == "1":
		first, err := strconv.ParseInt(answer[1], 10, 64)
		if err != nil || first < t.Start || first > t.Last-n+1 {
			return 0, s.kept.Unexpected(answer)
		}
		return first, nil
	case len(answer) == 4 && answer[0] == "0":
		c, err := s.counter(name, fields{next: answer[1], residue: answer[2], kind: answer[3]})
		if err == nil {
			err = segment.Refusal(c, n, t)
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, s.kept.Unexpected(answer)
}

// write runs a script, whose last argument is the identity of the hash.
func (s *Store) write(ctx context.Context, script string, args ...any) ([]string, error) {
	is, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := s.kept.Write(ctx, redisstore.Once, script, append(args, is.ID)...)
	if err == nil && len(answer) == 2 && answer[0] == "-" {
		return nil, s.emptied(is.ID, answer[1])
	}
	return answer, err
}

// emptied is the error about a hash that has lost its identity, and perhaps has another one.
func (s *Store) emptied(identity, found string) error {
	return fmt.Errorf("%w: redissegment: the hash %s had the identity %s and has %s now, so it was removed, "+
		"emptied or evicted. Nothing tells which counters were in there, so nothing is granted from it to those "+
		"who knew it. Restore the hash, or stop all programs that take numbers from it, raise each counter "+
		"above all numbers in use (segment.Raise), and start them again", segment.ErrWentBack, s.kept.Key(),
		identity, cmp.Or(found, "none"))
}

// Identity returns the random identity of the counters, which is the field "identity" of their hash. The
// first call sets it. A hash that Redis has lost gets another one, and databases that have noted the first
// one refuse the store.
func (s *Store) Identity(ctx context.Context) (segment.Identity, error) {
	if s.identity.Load() == nil {
		answer, err := s.kept.Write(ctx, redisstore.Again, identityScript, rand.Text())
		if err != nil {
			return segment.Identity{}, err
		}
		if len(answer) != 1 {
			return segment.Identity{}, s.kept.Unexpected(answer)
		}
		s.identity.CompareAndSwap(nil, &answer[0])
	}
	return segment.Identity{ID: *s.identity.Load(), Place: "hash " + s.kept.Key() + " in Redis"}, nil
}

// Now returns the clock of the master, to the microsecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.kept.Now(ctx) }

// Probe returns nil when the master has answered. See [segment.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}
