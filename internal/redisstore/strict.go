package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
)

// master returns a client of the one server that has the key, because a confirmation is about the connection
// that the write went by.
func (s *Store) master(ctx context.Context) (*redis.Client, error) {
	var server *redis.Client
	switch client := s.client.(type) {
	case *redis.Client:
		server = client
	case *redis.ClusterClient:
		var err error
		if server, err = client.MasterForKey(ctx, s.Key()); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: WithStrict takes a *redis.Client or a *redis.ClusterClient, not a %T",
			s.config.ErrOption, s.client)
	}
	// The client has to be more patient than the server, which may wait twice.
	if patience := server.Options().ReadTimeout; patience > 0 {
		server = server.WithTimeout(patience + 2*s.config.Strict.Timeout)
	}
	return server, nil
}

// verify returns an error if the server cannot give what strictness promises.
func (s *Store) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Strict.Timeout+MaxTimeout)
	defer cancel()
	server, err := s.master(ctx)
	if err != nil {
		return err
	}
	known, err := server.Do(ctx, "command", "info", "waitaof").Slice()
	if err != nil {
		return Readable(err)
	}
	s.disks = len(known) == 1 && known[0] != nil
	return s.judged(func() (Settings, error) { return s.settings(ctx) })
}

// confirmed sends a command that writes, and returns nil if what it wrote is safe, which whatever
// was written before is then too. All goes by one connection at once: if the client sends it again
// then all of it.
func (s *Store) confirmed(ctx context.Context, command redis.Cmder) error {
	server, err := s.master(ctx)
	if err != nil {
		command.SetErr(err)
		return err
	}
	strict := s.config.Strict
	pipe := server.Pipeline()
	_ = pipe.Process(ctx, command) // it is only noted
	milliseconds := strict.Timeout.Milliseconds()
	wait := pipe.Do(ctx, "wait", strict.Replicas, milliseconds)
	if s.disks {
		// After the other, because a replica that is asked for its disk before it has written there
		// only answers when it reports the next time, a second later.
		wait = pipe.Do(ctx, "waitaof", 1, strict.Replicas, milliseconds)
	}
	look := lookAt(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		// In a cluster the key may have moved, which the client learns from its own commands only.
		if cluster, ok := s.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx)
		}
	}
	if err := command.Err(); err != nil {
		return err
	}
	answered := Readable(wait.Err())
	if answered == nil {
		answered = strict.Confirmed(wait.Val())
	}
	return errors.Join(answered, s.judged(look))
}

// lookAt asks how a server is set, with commands of a pipe, and returns what reads the answers.
func lookAt(ctx context.Context, pipe redis.Pipeliner) func() (Settings, error) {
	appending, memory := pipe.ConfigGet(ctx, "*append*"), pipe.ConfigGet(ctx, "maxmemory-policy")
	replication := pipe.Info(ctx, "replication")
	return func() (Settings, error) {
		s := Settings{Appending: appending.Val(), Memory: memory.Val(), Replication: replication.Val()}
		return s, cmp.Or(appending.Err(), memory.Err(), replication.Err())
	}
}

// judged returns an error that names everything which lets the server forget.
func (s *Store) judged(look func() (Settings, error)) error {
	set, err := look()
	if err != nil {
		return Readable(err)
	}
	return set.Judge(s.config.Strict.Replicas)
}

// Warn says once whether the server may forget what it acknowledges. It returns when ctx ends, even if
// the client waits longer.
func (s *Store) Warn(ctx context.Context) {
	if s.config.Strict != nil || !s.looked.CompareAndSwap(false, true) {
		return
	}
	_, _ = attempt.Detached(ctx, func() (any, error) {
		s.look(ctx)
		return nil, nil
	})
}

// look is Warn without an end. A server that does not answer is looked at the next time.
func (s *Store) look(ctx context.Context) {
	c := &s.config
	set, err := s.settings(ctx)
	switch {
	case err == nil:
		if faults := set.Forgetful(); len(faults) > 0 {
			c.Log.Warn(c.Package+": the server may forget what it has acknowledged, and then "+c.Harm+
				"; change these settings on every server, use "+c.Package+".WithStrict, which refuses such a "+
				"server, or keep the "+c.Holds+" in another store", "key", s.Key(),
				"settings", errors.Join(faults...))
		}
	case Denied(err):
		c.Log.Info(c.Package+": whether the server may forget what it has acknowledged could not be checked, "+
			"because this user may not run CONFIG GET and INFO", "key", s.Key(), "error", err)
	default:
		s.looked.Store(false)
	}
}

// settings asks the server that has the key how it is set.
func (s *Store) settings(ctx context.Context) (Settings, error) {
	var server redis.Cmdable = s.client
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, s.Key())
		if err != nil {
			return Settings{}, err
		}
		server = master
	}
	pipe := server.Pipeline()
	look := lookAt(ctx, pipe)
	_, _ = pipe.Exec(ctx) // every command has its own error
	return look()
}
