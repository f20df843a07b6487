package redissegment

import (
	"context"
	_ "embed" // the scripts
	"strconv"
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
)

// Store is a [segment.Store] in Redis. Make one with [New]; it must not be copied. It is safe for
// concurrent use.
type Store struct{ kept *redisstore.Store }

var (
	_ segment.TermsStore = (*Store)(nil)
	_ segment.Ledger     = (*Store)(nil)
	_ segment.Prober     = (*Store)(nil)
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
	}, opts, Option.apply)
	if err != nil {
		return nil, err
	}
	kept.Warn(ctx)
	return &Store{kept}, nil
}

// Claim reserves n numbers with a single script.
func (s *Store) Claim(ctx context.Context, name string, n int64) (int64, error) {
	if err := segment.CheckClaim(name, n); err != nil {
		return 0, err
	}
	return s.ClaimOn(ctx, name, n, segment.AnyTerms())
}

// ClaimOn reserves n numbers on terms, which the script itself checks. With [WithStrict] an error may also
// mean that the numbers were claimed, but not where no failover loses that: they are lost.
func (s *Store) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := segment.CheckTerms(name, n, t); err != nil {
		return 0, err
	}
	// A second claim would only lose numbers, but a series without gaps would have one.
	answer, err := s.kept.Write(ctx, redisstore.Once, claimScript, name, n,
		t.Start, t.Last-n+1, residue(t.Remainder, t.Modulus), t.Above)
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
	case len(answer) == 3 && answer[0] == "0":
		c, err := s.counter(name, fields{next: answer[1], residue: answer[2]})
		if err == nil {
			err = segment.Refusal(c, n, t)
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, s.kept.Unexpected(answer)
}

// Now returns the clock of the master, to the microsecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.kept.Now(ctx) }

// Probe returns nil when the master has answered. See [segment.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}
