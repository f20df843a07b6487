package redissegment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// strictness is what Strict asks for.
type strictness struct {
	replicas int
	timeout  time.Duration
	disks    bool // the server can wait for the disks of its replicas (WAITAOF)
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
		server = server.WithTimeout(patience + 2*s.strict.timeout)
	}
	return server, nil
}

// verify returns an error if the server cannot give what Strict promises.
func (s *Store) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.strict.timeout+maxTimeout)
	defer cancel()
	server, err := s.master(ctx)
	if err != nil {
		return s.failed(err)
	}
	known, err := server.Do(ctx, "command", "info", "waitaof").Slice()
	if err != nil {
		return s.failed(readable(err))
	}
	s.strict.disks = len(known) == 1 && known[0] != nil
	pipe := server.Pipeline()
	look := lookAt(ctx, pipe)
	_, _ = pipe.Exec(ctx) // every command has its own error
	if err := look.judge(s.strict.replicas); err != nil {
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
	milliseconds := s.strict.timeout.Milliseconds()
	wait := pipe.Do(ctx, "wait", s.strict.replicas, milliseconds)
	if s.strict.disks {
		// After the other, because a replica that is asked for its disk before it has written there
		// only answers when it reports the next time, a second later.
		wait = pipe.Do(ctx, "waitaof", 1, s.strict.replicas, milliseconds)
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
	return errors.Join(s.strict.count(wait), look.judge(s.strict.replicas))
}

// count returns an error unless enough servers have confirmed.
func (t *strictness) count(wait *redis.Cmd) error {
	if err := wait.Err(); err != nil {
		return readable(err)
	}
	var confirmed int64
	switch value := wait.Val().(type) {
	case int64:
		confirmed = value
	case []any: // of WAITAOF: the disk of the master, then those of its replicas
		if len(value) != 2 || value[0] != int64(1) {
			return fmt.Errorf("the master did not confirm within %v that the write is on its disk", t.timeout)
		}
		confirmed, _ = value[1].(int64)
	}
	if confirmed < int64(t.replicas) {
		return fmt.Errorf("%d of %d replicas confirmed the write within %v, and a failover to another would "+
			"lose it: look why they lag, or are not there", confirmed, t.replicas, t.timeout)
	}
	return nil
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
			return readable(err)
		}
	}
	faults := forgetful(l.appending.Val(), l.memory.Val())
	role, connected := "", ""
	for line := range strings.SplitSeq(l.replication.Val(), "\r\n") {
		if value, found := strings.CutPrefix(line, "role:"); found {
			role = value
		}
		if value, found := strings.CutPrefix(line, "connected_slaves:"); found {
			connected = value
		}
	}
	if role != "master" {
		faults = append(faults, fmt.Errorf("the server is a %q, and has to be the master", role))
	} else if n, err := strconv.Atoi(connected); err != nil || n > replicas {
		faults = append(faults, fmt.Errorf("%q replicas are connected, and only %d have to confirm; a failover "+
			"to another would lose what it did not: name all of them in Strict", connected, replicas))
	}
	if len(faults) > 0 {
		return fmt.Errorf("the server may forget what it acknowledges, which Strict rules out: %w; change "+
			"that on every server and in its configuration file", errors.Join(faults...))
	}
	return nil
}

// readable says what to do about a server that does not say how it is set.
func readable(err error) error {
	if denied(err) {
		return fmt.Errorf("the option WithStrict has to see how the server is set: %w; let this user run "+
			"CONFIG GET, INFO, WAIT, WAITAOF and COMMAND INFO, or leave WithStrict out if somebody else "+
			"answers for that", err)
	}
	return err
}
