// Package redisstore runs scripts on one key of Redis for stores that must forget nothing: it refuses a
// server that forgets, or warns of it, and sends no script again that must not be repeated. Packages
// redislease and redissegment are built on it. It is a module of its own, so that the root module knows no
// client of Redis.
package redisstore

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

//go:embed now.lua
var nowScript string

// Config is what a store keeps in Redis, and for whom.
type Config struct {
	Package string // of the store, for messages
	Name    string // of the key, which follows the prefix
	Holds   string // what the key holds: records
	Harm    string // what happens if the server forgets

	Strict *Strictness // nil: Redis is believed
	Log    *slog.Logger

	// The sentinels of the store's package. ErrStore is nil if errors of the server wrap none.
	ErrOption, ErrValue, ErrStore error
}

// Store is one key of Redis. Make one with [Open]. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
	config Config
	disks  bool        // the server can wait for the disks of its replicas (WAITAOF)
	looked atomic.Bool // at how the server is set, if it is believed
}

// Open applies the options and returns the store. It asks the server only if that has to be strict. The
// errors about client, prefix and options wrap ErrOption.
func Open(
	ctx context.Context, client redis.UniversalClient, prefix string, c Config, options []Option,
) (*Store, error) {
	var faults []error
	switch client.(type) {
	case nil:
		faults = append(faults, errors.New("no client"))
	case *redis.Ring:
		faults = append(faults, fmt.Errorf("a ring goes to another server when one is down, which does not know "+
			"the %s; use a client of one server, of Sentinel or of a cluster", c.Holds))
	}
	if prefix == "" {
		faults = append(faults, errors.New("no prefix; name one, like \"snowflake:\""))
	}
	c.Log = slog.Default()
	for _, apply := range options {
		if apply == nil {
			faults = append(faults, errors.New("an option is nil"))
		} else if err := apply(&c); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w: %s: %w", c.ErrOption, c.Package, errors.Join(faults...))
	}
	s := &Store{client: client, prefix: prefix, config: c}
	if c.Strict != nil {
		if err := s.verify(ctx); err != nil {
			return nil, s.failed(err)
		}
	}
	return s, nil
}

// Option changes one property of a store.
type Option func(*Config) error

// WithStrict asks for a strictness.
func WithStrict(replicas int, timeout time.Duration) Option {
	return func(c *Config) error {
		c.Strict = &Strictness{Replicas: replicas, Timeout: timeout}
		return c.Strict.Validate()
	}
}

// WithLogger sets where warnings go.
func WithLogger(l *slog.Logger) Option {
	return func(c *Config) error {
		if l == nil {
			return errors.New("WithLogger: no logger; to silence the store use slog.New(slog.DiscardHandler)")
		}
		c.Log = l
		return nil
	}
}

// Beside returns the store of another key under the prefix.
func (s *Store) Beside(name string) *Store {
	beside := &Store{client: s.client, prefix: s.prefix, config: s.config, disks: s.disks}
	beside.config.Name = name
	return beside
}

// Key returns the key.
func (s *Store) Key() string { return s.prefix + s.config.Name }

// Now returns the clock of the master, to the microsecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	answer, err := s.run(ctx, func(ctx context.Context) (*redis.Cmd, error) {
		command := redis.NewCmd(ctx, "eval", nowScript, 1, s.Key())
		return command, s.client.Process(ctx, command)
	})
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
	return time.Time{}, s.Unexpected(answer)
}

// A Repetition says whether the client may send a script again whose answer did not come.
type Repetition bool

// The repetitions.
const (
	Once  Repetition = false
	Again Repetition = true
)

// single is a command that the client never sends again.
type single struct{ *redis.Cmd }

func (single) NoRetry() bool { return true }

// Write runs a script that may change something, and returns its answer as texts. With strictness, an answer
// may come together with an error: that the change is not where no failover loses it. When ctx ends, what was
// sent may still take effect.
func (s *Store) Write(ctx context.Context, r Repetition, script string, args ...any) ([]string, error) {
	return s.run(ctx, func(ctx context.Context) (*redis.Cmd, error) {
		command := redis.NewCmd(ctx, append([]any{"eval", script, 1, s.Key()}, args...)...)
		var sent redis.Cmder = command
		if r == Once {
			sent = single{command}
		}
		if s.config.Strict != nil {
			return command, s.confirmed(ctx, sent)
		}
		return command, s.client.Process(ctx, sent)
	})
}

// run returns the answer to a script when it is there or ctx has ended.
func (s *Store) run(
	ctx context.Context, send func(context.Context) (*redis.Cmd, error),
) ([]string, error) {
	if ctx.Err() != nil {
		return nil, s.ended(ctx)
	}
	type result struct {
		answer []string
		err    error
	}
	r, late := attempt.Detached(ctx, func() (r result, _ error) {
		command, err := send(ctx)
		if r.err = err; command.Err() == nil {
			r.answer = texts(command.Val())
		}
		return r, nil
	})
	switch {
	case late != nil:
		return nil, s.ended(ctx)
	case r.err != nil:
		return r.answer, s.failed(r.err)
	}
	return r.answer, nil
}

// ended is the error of a request whose context has ended.
func (s *Store) ended(ctx context.Context) error {
	return fmt.Errorf("%s: %s: %w", s.config.Package, s.Key(), errs.Ended(ctx))
}

func (s *Store) failed(err error) error {
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%s: %s: %w: the key holds something else than %s; choose another prefix, or delete "+
			"the key: %w", s.config.Package, s.Key(), s.config.ErrValue, s.config.Holds, err)
	}
	err = fmt.Errorf("%s: %s: %w", s.config.Package, s.Key(), err)
	if s.config.ErrStore != nil && !errors.Is(err, s.config.ErrOption) {
		err = fmt.Errorf("%w: %w", s.config.ErrStore, err)
	}
	return err
}

// Unexpected is the error of an answer that no script returns.
func (s *Store) Unexpected(answer []string) error {
	return s.failed(fmt.Errorf("the server answered %q, which the script does not return", answer))
}

// texts are the parts of what a script returns: numbers and texts.
func texts(answer any) []string {
	parts, _ := answer.([]any)
	found := make([]string, 0, len(parts))
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			found = append(found, p)
		case int64:
			found = append(found, strconv.FormatInt(p, 10))
		}
	}
	return found
}
