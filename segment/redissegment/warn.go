package redissegment

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisdurable"
)

// WithLogger sets where the store says that Redis may forget what it has acknowledged. By default it
// is slog.Default() at the time of [New].
//
// New looks once at how the server is set. If it does not answer then, the first claim that succeeds looks.
// The store warns if the server does not write to its disk before it answers, or may evict the counters,
// and names the settings. [WithStrict] refuses such a server instead. If the user may not run CONFIG GET,
// an INFO says that nobody has looked.
func WithLogger(l *slog.Logger) Option {
	return option(func(s *Store) error {
		if l == nil {
			return errors.New("WithLogger: no logger; to silence the store use slog.New(slog.DiscardHandler)")
		}
		s.log = l
		return nil
	})
}

// warn says once whether the server may forget what it acknowledges. It returns when ctx ends, even if
// the client waits longer.
func (s *Store) warn(ctx context.Context) {
	if s.strict != nil || !s.looked.CompareAndSwap(false, true) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.look(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// look is warn without an end. A server that does not answer is looked at the next time.
func (s *Store) look(ctx context.Context) {
	appending, memory, err := s.settings(ctx)
	switch {
	case err == nil:
		if faults := (redisdurable.Settings{Appending: appending, Memory: memory}).Forgetful(); len(faults) > 0 {
			s.log.Warn("redissegment: the server may forget what it has acknowledged, and then numbers are given "+
				"twice; change these settings on every server, use redissegment.WithStrict, which refuses such a "+
				"server, or keep the counters in another store", "key", s.key, "settings", errors.Join(faults...))
		}
	case redisdurable.Denied(err):
		s.log.Info("redissegment: whether the server may forget what it has acknowledged could not be checked, "+
			"because this user may not run CONFIG GET", "key", s.key, "error", err)
	default:
		s.looked.Store(false)
	}
}

// settings asks the server that has the counters how it is set.
func (s *Store) settings(ctx context.Context) (appending, memory map[string]string, err error) {
	var server redis.Cmdable = s.client
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		if server, err = cluster.MasterForKey(ctx, s.key); err != nil {
			return nil, nil, err
		}
	}
	if appending, err = server.ConfigGet(ctx, "*append*").Result(); err != nil {
		return nil, nil, err
	}
	memory, err = server.ConfigGet(ctx, "maxmemory-policy").Result()
	return appending, memory, err
}
