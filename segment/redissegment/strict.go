package redissegment

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisdurable"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// strictness is what Strict asks for.
type strictness struct {
	redisdurable.Strictness
	disks bool // the server can wait for the disks of its replicas (WAITAOF)
}

// master returns a client of the one server that has the counters, because a confirmation is about
// the connection that the write went by.
func (s *Store) master(ctx context.Context) (*redis.Client, error) {
	var server *redis.Client
	switch client := s.client.(type) {
	case *redis.Client:
		server = client
	case *redis.ClusterClient:
		var err error
		if server, err = client.MasterForKey(ctx, s.key); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: Strict takes a *redis.Client or a *redis.ClusterClient, not a %T",
			segment.ErrInvalidOption, s.client)
	}
	// The client has to be more patient than the server, which may wait twice.
	if patience := server.Options().ReadTimeout; patience > 0 {
		server = server.WithTimeout(patience + 2*s.strict.Timeout)
	}
	return server, nil
}

// verify returns an error if the server cannot give what Strict promises.
func (s *Store) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.strict.Timeout+redisdurable.MaxTimeout)
	defer cancel()
	server, err := s.master(ctx)
	if err != nil {
		return s.failed(err)
	}
	known, err := server.Do(ctx, "command", "info", "waitaof").Slice()
	if err != nil {
		return s.failed(redisdurable.Readable(err))
	}
	s.strict.disks = len(known) == 1 && known[0] != nil
	pipe := server.Pipeline()
	look := lookAt(ctx, pipe)
	_, _ = pipe.Exec(ctx) // every command has its own error
	if err := look.judge(s.strict.Replicas); err != nil {
		return s.failed(err)
	}
	return nil
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
	pipe := server.Pipeline()
	_ = pipe.Process(ctx, command) // it is only noted
	milliseconds := s.strict.Timeout.Milliseconds()
	wait := pipe.Do(ctx, "wait", s.strict.Replicas, milliseconds)
	if s.strict.disks {
		// After the other, because a replica that is asked for its disk before it has written there
		// only answers when it reports the next time, a second later.
		wait = pipe.Do(ctx, "waitaof", 1, s.strict.Replicas, milliseconds)
	}
	look := lookAt(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		// In a cluster the counters may have moved, which the client learns from its own commands only.
		if cluster, ok := s.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx)
		}
	}
	if err := command.Err(); err != nil {
		return err
	}
	return errors.Join(s.strict.answered(wait), look.judge(s.strict.Replicas))
}

// answered returns an error unless enough servers have confirmed.
func (t *strictness) answered(wait *redis.Cmd) error {
	if err := wait.Err(); err != nil {
		return redisdurable.Readable(err)
	}
	return t.Confirmed(wait.Val())
}

// A look is at how a server is set.
type look struct {
	appending, memory *redis.MapStringStringCmd
	replication       *redis.StringCmd
}

func lookAt(ctx context.Context, pipe redis.Pipeliner) look {
	return look{
		appending:   pipe.ConfigGet(ctx, "*append*"),
		memory:      pipe.ConfigGet(ctx, "maxmemory-policy"),
		replication: pipe.Info(ctx, "replication"),
	}
}

// judge returns an error that names everything which lets the server forget.
func (l look) judge(replicas int) error {
	for _, command := range []redis.Cmder{l.appending, l.memory, l.replication} {
		if err := command.Err(); err != nil {
			return redisdurable.Readable(err)
		}
	}
	return redisdurable.Settings{
		Appending: l.appending.Val(), Memory: l.memory.Val(), Replication: l.replication.Val(),
	}.Judge(replicas)
}
