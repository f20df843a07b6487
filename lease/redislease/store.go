package redislease

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var (
	//go:embed list.lua
	listScript string
	//go:embed note.lua
	noteScript string
	//go:embed mark.lua
	markScript string
	//go:embed identity.lua
	identityScript string
	//go:embed swap.lua
	swapScript string
)

// readings is the field of the hash that is no record.
const readings = "lists"

var (
	_ lease.WithinSwapper = (*Store)(nil)
	_ lease.Prober        = (*Store)(nil)
	_ lease.Identifier    = (*Store)(nil)
)

// Store is a [lease.Store] in Redis. It is safe for concurrent use.
type Store struct {
	kept, note *redisstore.Store
	identity   *leaseops.Identity
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
// New connects only for [WithStrict]; then an error that wraps [lease.ErrStore] says what the server
// lacks, or that it does not answer. An error for client, prefix and options wraps [lease.ErrInvalidOption].
func New(client redis.UniversalClient, prefix string, opts ...Option) (*Store, error) {
	kept, err := redisstore.Open(context.Background(), client, prefix, redisstore.Config{
		Package: "redislease", Name: "nodes", Holds: "records", Harm: "IDs can be made twice",
		ErrOption: lease.ErrInvalidOption, ErrValue: lease.ErrInvalidRecord,
	}, opts)
	if err != nil {
		if !errors.Is(err, lease.ErrInvalidOption) {
			err = fmt.Errorf("%w: %w", lease.ErrStore, err) // as a keeper does with errors of the store
		}
		return nil, err
	}
	s := &Store{kept: kept, note: kept.Beside("identity")}
	s.identity = &leaseops.Identity{
		Package: "redislease", Records: "the records in the hash " + kept.Key(), Note: "the key " + s.note.Key(),
		Entry: "field", Where: kept.Key() + ", field ",
		MarkBy: func(identity string) string {
			return fmt.Sprintf("HSET %s %s '%s'", kept.Key(), leaseops.MarkName, leaseops.MarkText(identity))
		},
		NoteBy:   func(identity string) string { return "SET " + s.note.Key() + " " + identity },
		ReadNote: func(ctx context.Context) (string, error) { return s.ask(ctx, s.note, noteScript) },
		MakeMark: s.makeMark,
		MakeNote: func(ctx context.Context, identity string) (string, error) {
			return s.ask(ctx, s.note, identityScript, identity)
		},
	}
	return s, nil
}

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

// Now returns the clock of the master.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.kept.Now(ctx) }

// Probe returns nil when the master has answered. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// List returns all records as of now. With [WithStrict] they are where no failover loses them; without
// it the first reading also looks at how the server is set, see [WithLogger]. It returns an error wrapping
// snowflakeplugin.ErrAuthority if the hash is not the one any more that the store has seen first.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	return s.identity.List(ctx, func(string) (records []lease.Record, found string, err error) {
		answer, err := s.kept.Write(ctx, redisstore.Again, listScript)
		if err != nil {
			return nil, "", err
		}
		s.kept.Warn(ctx)
		if len(answer)%2 != 0 {
			return nil, "", s.kept.Unexpected(answer)
		}
		for pair := range slices.Chunk(answer, 2) {
			switch name, value := pair[0], []byte(pair[1]); name {
			case readings:
			case leaseops.MarkName:
				found, err = s.identity.In(value)
			default:
				var record lease.Record
				record, err = s.identity.Decode(name, value)
				records = append(records, record)
			}
			if err != nil {
				return nil, "", err
			}
		}
		return records, found, nil
	})
}

// Swap stores next if the record of that node has the owner and the version of prev. The first record of a
// node is stored only in the hash that the store has seen first. An error
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
	owner := prev.Owner
	if prev.Version == 0 {
		seen, err := s.identity.Seen(ctx)
		if err != nil {
			return false, err
		}
		owner = leaseops.Mark(seen).Owner
	}
	field := strconv.FormatInt(next.Node, 10)
	answer, err := s.kept.Write(ctx, redisstore.Once, swapScript,
		append([]any{field, owner, prev.Version, value}, within...)...)
	switch {
	case len(answer) == 2 && answer[0] == "0":
		_, err := s.identity.Decode(field, []byte(answer[1]))
		return false, err
	case len(answer) == 1 && answer[0] == "0":
		return false, nil // whether or not replicas know it
	case err != nil:
		return false, err
	case len(answer) == 1 && answer[0] == "1":
		return true, nil
	}
	return false, s.kept.Unexpected(answer)
}

// Identity returns the random identity of the records under the prefix, of which the documentation of the
// package says where it lies. For records that have lost it the error wraps snowflakeplugin.ErrAuthority, and
// ends with what leads back.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	id, err := s.identity.Seen(ctx)
	return lease.Identity{ID: id, Place: "hash " + s.kept.Key() + " in Redis"}, err
}

func (s *Store) makeMark(ctx context.Context, identity string, ifUsed bool) (string, error) {
	args := []any{leaseops.MarkName, leaseops.MarkText(identity)}
	if ifUsed {
		args = append(args, "used")
	}
	mark, err := s.ask(ctx, s.kept, markScript, args...)
	if err != nil || mark == "" {
		return "", err
	}
	return s.identity.In([]byte(mark))
}

// ask runs a script that returns one text or nothing.
func (s *Store) ask(ctx context.Context, key *redisstore.Store, script string, args ...any) (string, error) {
	answer, err := key.Write(ctx, redisstore.Again, script, args...)
	switch {
	case err != nil && key == s.note && redisstore.Denied(err):
		return "", fmt.Errorf("%w: let this user run GET and SET on the key too, which notes the identity of "+
			"the records", err)
	case err != nil:
		return "", err
	case len(answer) > 1:
		return "", key.Unexpected(answer)
	}
	return strings.Join(answer, ""), nil
}
