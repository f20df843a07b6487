package redislease

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var (
	//go:embed list.lua
	listScript string
	//go:embed now.lua
	nowScript string
	//go:embed swap.lua
	swapScript string
)

// readings is the field of the hash that is no record.
const readings = "lists"

var _ lease.Prober = (*Store)(nil)

// Store is a [lease.Store] in Redis. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	key    string
	strict *strictness // nil: Redis is believed
	log    *slog.Logger
	looked atomic.Bool // at how the server is set, if it is believed
}

// New returns a store that keeps its records in the hash prefix + "nodes", the prefix usually with
// a colon at its end: "snowflake:". All processes that must not make the same IDs use the same
// prefix in the same database.
//
// The client is one for a single server, for Sentinel or for a cluster, as redis.NewClient,
// NewFailoverClient, NewClusterClient and NewUniversalClient return them. A *redis.Ring is refused:
// it asks another server when one is down, which knows nothing of the windows that were granted.
// The client stays the caller's, who closes it after the last keeper.
//
// Without [WithStrict] the store believes Redis, which by default forgets what it has acknowledged when
// it crashes; the log says so, see [WithLogger].
//
// New connects only for [WithStrict]; then an error says what the server lacks, or that it does not
// answer. An error for client, prefix and options wraps [lease.ErrInvalidOption].
func New(client redis.UniversalClient, prefix string, opts ...Option) (*Store, error) {
	switch client.(type) {
	case nil:
		return nil, fmt.Errorf("%w: redislease: no client", lease.ErrInvalidOption)
	case *redis.Ring:
		return nil, fmt.Errorf("%w: redislease: a ring goes to another server when one is down, which does not "+
			"know the records; use a client of one server, of Sentinel or of a cluster", lease.ErrInvalidOption)
	}
	if prefix == "" {
		return nil, fmt.Errorf("%w: redislease: no prefix; name one, like \"snowflake:\"", lease.ErrInvalidOption)
	}
	s := &Store{client: client, key: prefix + "nodes", log: slog.Default()}
	if err := s.configure(opts); err != nil {
		return nil, err
	}
	if s.strict != nil {
		if err := s.verify(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Now returns the clock of the master.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	answer, err := s.read(ctx, nowScript)
	if err != nil {
		return time.Time{}, err
	}
	if len(answer) == 2 {
		seconds, err1 := strconv.ParseInt(answer[0], 10, 64)
		micros, err2 := strconv.ParseInt(answer[1], 10, 64)
		if err1 == nil && err2 == nil {
			return time.Unix(seconds, micros*1000).UTC(), nil
		}
	}
	return time.Time{}, s.unexpected(answer)
}

// Probe returns nil when the master has answered. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// List returns all records as of now. With [WithStrict] they are where no failover loses them; without
// it the first reading also looks at how the server is set, see [WithLogger].
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	answer, err := s.write(ctx, again, listScript)
	if err != nil {
		return nil, err
	}
	s.warn(ctx)
	if len(answer)%2 != 0 {
		return nil, s.unexpected(answer)
	}
	records := make([]lease.Record, 0, len(answer)/2)
	for i := 0; i < len(answer); i += 2 {
		if answer[i] == readings {
			continue
		}
		record, err := s.decode(answer[i], answer[i+1])
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

// Swap stores next if the record of that node has the owner and the version of prev. An error
// means that it may have been stored, or may be later; with [WithStrict] also that it is stored, but
// not where no failover loses it.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return s.swap(ctx, prev, next)
}

// SwapWithin is Swap, but only while the server's clock is from earliest to latest, to the
// microsecond. See [lease.WithinSwapper].
func (s *Store) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return s.swap(ctx, prev, next, micros(earliest), micros(latest))
}

// micros is a time as the scripts take it, in the range in which they count exactly.
func micros(t time.Time) int64 {
	const most = 1 << 53
	return max(-most, min(most, t.Unix()*1_000_000+int64(t.Nanosecond())/1000))
}

func (s *Store) swap(ctx context.Context, prev, next lease.Record, within ...any) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	value, err := next.MarshalJSON()
	if err != nil {
		return false, err
	}
	field := strconv.FormatInt(next.Node, 10)
	answer, err := s.write(ctx, once, swapScript,
		append([]any{field, prev.Owner, prev.Version, value}, within...)...)
	switch {
	case len(answer) == 2 && answer[0] == "0":
		_, err := s.decode(field, answer[1])
		return false, err
	case len(answer) == 1 && answer[0] == "0":
		return false, nil // whether or not replicas know it
	case err != nil:
		return false, err
	case len(answer) == 1 && answer[0] == "1":
		return true, nil
	}
	return false, s.unexpected(answer)
}

func (s *Store) decode(field, value string) (lease.Record, error) {
	node, err := strconv.ParseInt(field, 10, 64)
	if err != nil || node < 0 || strconv.FormatInt(node, 10) != field {
		return s.invalid(field, fmt.Errorf("%w: %q is no node number", lease.ErrInvalidRecord, field))
	}
	var record lease.Record
	if err := record.UnmarshalJSON([]byte(value)); err != nil {
		return s.invalid(field, err)
	}
	if record.Node != node {
		return s.invalid(field, fmt.Errorf("%w: it is one of node %d", lease.ErrInvalidRecord, record.Node))
	}
	return record, nil
}

func (s *Store) invalid(field string, cause error) (lease.Record, error) {
	return lease.Record{}, fmt.Errorf("redislease: %s, field %s: %w: no keeper wrote this: write what it was "+
		"before, or delete the field once no process has had the number for a span", s.key, field, cause)
}

func (s *Store) unexpected(answer []string) error {
	return fmt.Errorf("redislease: %s: the server answered %q, which the script does not return", s.key, answer)
}
