package redissegment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisdurable"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
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

// write runs a script that may change something. The client never sends it again: a second claim would
// only lose numbers, but a series without gaps would have one. With strictness, an error may come although
// the change was made: it is not where no failover loses it.
func (s *Store) write(ctx context.Context, script string, args ...any) ([]string, error) {
	return s.run(ctx, func(ctx context.Context) (*redis.Cmd, error) {
		command := redis.NewCmd(ctx, append([]any{"eval", script, 1, s.key}, args...)...)
		if s.strict != nil {
			return command, s.confirmed(ctx, single{command})
		}
		return command, s.client.Process(ctx, single{command})
	})
}

// run returns the answer to a script as texts, when it is there or ctx has ended.
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
		return nil, s.ended(ctx)
	}
}

// ended is the error of a request whose context has ended. What was sent may still take effect: the numbers
// of a claim are lost then.
func (s *Store) ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("redissegment: %s: %w: %w", s.key, ctx.Err(), cause)
	}
	return fmt.Errorf("redissegment: %s: %w", s.key, ctx.Err())
}

func (s *Store) failed(err error) error {
	switch {
	case errors.Is(err, segment.ErrInvalidOption):
		return fmt.Errorf("redissegment: %s: %w", s.key, err)
	case strings.Contains(err.Error(), "WRONGTYPE"):
		return fmt.Errorf("redissegment: %s: %w: the key holds something else than counters; choose another "+
			"prefix, or delete the key: %w", s.key, segment.ErrInvalidCounter, err)
	}
	return fmt.Errorf("%w: redissegment: %s: %w", segment.ErrStore, s.key, err)
}
