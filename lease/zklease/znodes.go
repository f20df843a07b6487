package zklease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func (s *Store) znode(name string) string { return s.path + "/nodes/" + name }

// read returns the records of all znodes, several at a time.
func (s *Store) read(ctx context.Context) ([]lease.Record, error) {
	above := s.path + "/nodes"
	names, err := request(ctx, s, above, func() ([]string, error) {
		names, _, err := s.conn.Children(above)
		return names, err
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records := make([]lease.Record, len(names))
	var (
		next    atomic.Int64
		readers sync.WaitGroup
	)
	for range min(len(names), maxRequests) {
		readers.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(names)) {
					return
				}
				record, _, err := s.get(ctx, s.znode(names[i]))
				if err != nil {
					cancel(err)
					return
				}
				records[i] = record
			}
		})
	}
	readers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("zklease: the records could not be read: %w", err)
	}
	return records, nil
}

// get returns the record of a znode and the znode's version.
func (s *Store) get(ctx context.Context, znode string) (lease.Record, int32, error) {
	type content struct {
		data    []byte
		version int32
	}
	c, err := request(ctx, s, znode, func() (content, error) {
		data, stat, err := s.conn.Get(znode)
		if err != nil {
			return content{}, err
		}
		return content{data, stat.Version}, nil
	})
	if err != nil {
		return lease.Record{}, 0, err
	}
	record, err := s.decode(znode, c.data)
	return record, c.version, err
}

// prepare makes the znodes above the records, those that are not there.
func (s *Store) prepare(ctx context.Context) error {
	var above string
	for part := range strings.SplitSeq(s.path[1:], "/") {
		above += "/" + part
		if err := s.make(ctx, above, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	for _, name := range []string{"nodes", "clock"} {
		if err := s.make(ctx, s.path+"/"+name, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func (s *Store) make(ctx context.Context, znode string, data []byte) error {
	_, err := request(ctx, s, znode, func() (string, error) {
		return s.conn.Create(znode, data, zk.FlagPersistent, s.acl)
	})
	return err
}

// request asks ZooKeeper about a znode, and returns when it has answered or ctx has ended.
func request[T any](ctx context.Context, s *Store, znode string, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	wrap := func(err error) error { return fmt.Errorf("zklease: %s: %w", znode, err) }
	var none T
	if ctx.Err() != nil {
		return none, wrap(context.Cause(ctx))
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return none, wrap(context.Cause(ctx))
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-s.slots }()
		value, err := ask()
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		switch {
		case a.err == nil:
			return a.value, nil
		case errors.Is(a.err, zk.ErrNoAuth):
			return none, fmt.Errorf("zklease: %s: %w: give this process the rights to read, to write and to "+
				"create there (the option ACL, and AddAuth of the connection)", znode, a.err)
		}
		return none, wrap(a.err)
	case <-ctx.Done():
		return none, wrap(context.Cause(ctx))
	}
}

func (s *Store) decode(znode string, data []byte) (lease.Record, error) {
	number := strings.TrimPrefix(znode, s.znode(""))
	node, err := strconv.ParseInt(number, 10, 64)
	if err != nil || node < 0 || strconv.FormatInt(node, 10) != number {
		return invalid(znode, fmt.Errorf("%w: %q is no node number", lease.ErrInvalidRecord, number))
	}
	var record lease.Record
	if err := record.UnmarshalJSON(data); err != nil {
		return invalid(znode, err)
	}
	if record.Node != node {
		return invalid(znode, fmt.Errorf("%w: it is one of node %d", lease.ErrInvalidRecord, record.Node))
	}
	return record, nil
}

func invalid(znode string, cause error) (lease.Record, error) {
	return lease.Record{}, fmt.Errorf("zklease: %s: %w: no keeper wrote this: write what it was before, "+
		"or delete the znode once no process has had the number for a span", znode, cause)
}
