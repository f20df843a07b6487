package redislease

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisdurable"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A repetition says whether the client may send a script again whose answer did not come.
type repetition bool

const (
	// once: the second of two would be refused because of what the first has stored.
	once  repetition = false
	again repetition = true
)

// single is a command that the client never sends again.
type single struct{ *redis.Cmd }

func (single) NoRetry() bool { return true }

// read runs a script that changes nothing.
func (s *Store) read(ctx context.Context, script string) ([]string, error) {
	return s.run(ctx, func(ctx context.Context) (*redis.Cmd, error) {
		command := redis.NewCmd(ctx, "eval", script, 1, s.key)
		return command, s.client.Process(ctx, command)
	})
}

// write runs a script that may change something. With Strict, an answer may come together with an
// error: that the change is not where no failover loses it.
func (s *Store) write(ctx context.Context, r repetition, script string, args ...any) ([]string, error) {
	return s.run(ctx, func(ctx context.Context) (*redis.Cmd, error) {
		command := redis.NewCmd(ctx, append([]any{"eval", script, 1, s.key}, args...)...)
		var sent redis.Cmder = command
		if r == once {
			sent = single{command}
		}
		if s.strict != nil {
			return command, s.confirmed(ctx, sent)
		}
		return command, s.client.Process(ctx, sent)
	})
}

// run returns the answer to a script as texts, when it is there or ctx has ended.
func (s *Store) run(
	ctx context.Context, send func(context.Context) (*redis.Cmd, error),
) ([]string, error) {
	if ctx.Err() != nil {
		return nil, s.failed(context.Cause(ctx))
	}
	type result struct {
		answer []string
		err    error
	}
	done := make(chan result, 1)
	go func() {
		command, err := send(ctx)
		var answer []string
		if command.Err() == nil {
			answer = redisdurable.Texts(command.Val())
		}
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return r.answer, s.failed(r.err)
		}
		return r.answer, nil
	case <-ctx.Done():
		return nil, s.failed(context.Cause(ctx))
	}
}

func (s *Store) failed(err error) error {
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("redislease: %s: %w: the key holds something else than records; delete it, or choose "+
			"another prefix: %w", s.key, lease.ErrInvalidRecord, err)
	}
	return fmt.Errorf("redislease: %s: %w", s.key, err)
}
