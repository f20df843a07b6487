package zklease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Prober = (*Store)(nil)

// Store is a [lease.Store] in ZooKeeper. It is safe for concurrent use.
type Store struct {
	conn  *zk.Conn
	path  string // "/snowflake"
	acl   []zk.ACL
	slots chan struct{} // one for each request under way
}

// maxRequests bounds what a store keeps a connection busy with, and how many goroutines may be
// left waiting for one that answers no more.
const maxRequests = 32

// New returns a store that keeps its records in znodes under path, which begins with a slash and
// does not end with one. All processes that must not make the same IDs use the same path in the
// same ensemble. It does not wait for the connection.
//
// The connection stays the caller's, who closes it after the last keeper, and authenticates it if
// that is needed. An error wraps [lease.ErrInvalidOption].
func New(conn *zk.Conn, path string, opts ...Option) (*Store, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: zklease: no connection", lease.ErrInvalidOption)
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	s := &Store{
		conn: conn, path: path, acl: zk.WorldACL(zk.PermAll), slots: make(chan struct{}, maxRequests),
	}
	if err := s.configure(opts); err != nil {
		return nil, err
	}
	return s, nil
}

// Now returns the leader's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.barrier(ctx) }

// Probe returns nil when the leader has answered. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// List returns all records as of now.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	for {
		session := s.conn.SessionID()
		if _, err := s.barrier(ctx); err != nil {
			return nil, err
		}
		records, err := s.read(ctx)
		// A new session may be with a server that lags behind what the old one has written.
		if s.conn.SessionID() == session {
			return records, err
		}
	}
}

// Swap stores next if the record of that node has the owner and the version of prev. An error
// means that it may have been stored, or may be later.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	data, err := next.MarshalJSON()
	if err != nil {
		return false, err
	}
	znode := s.znode(strconv.FormatInt(next.Node, 10))
	if prev.Version == 0 {
		return s.create(ctx, znode, data)
	}
	// What is read at first may be old. That does no harm to a write, which names the version; but
	// to refuse takes what is read as of now.
	for current := false; ; current = true {
		session := s.conn.SessionID()
		if current {
			if _, err := s.barrier(ctx); err != nil {
				return false, err
			}
		}
		got, err := s.attempt(ctx, znode, prev, data)
		switch {
		case err != nil:
			return false, err
		case got == stored:
			return true, nil
		case got == differs && current && s.conn.SessionID() == session:
			return false, nil
		}
	}
}

// An outcome is what became of an attempt to swap.
type outcome int

const (
	stored    outcome = iota
	differs           // the record that was read is not the one to replace
	overtaken         // it was, but has changed since
)

// attempt reads a record, compares it, and replaces it if it has not changed since.
func (s *Store) attempt(ctx context.Context, znode string, prev lease.Record, data []byte) (outcome, error) {
	record, version, err := s.get(ctx, znode)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return differs, nil
	case err != nil:
		return 0, err
	case record.Owner != prev.Owner || record.Version != prev.Version:
		return differs, nil
	}
	_, err = request(ctx, s, znode, func() (*zk.Stat, error) { return s.conn.Set(znode, data, version) })
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return overtaken, nil
	}
	return stored, err
}

// create stores the first record of a node, and the znodes above it if they are not there yet.
func (s *Store) create(ctx context.Context, znode string, data []byte) (bool, error) {
	for {
		err := s.make(ctx, znode, data)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNodeExists):
			return false, nil
		case !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
		if err := s.prepare(ctx); err != nil {
			return false, err
		}
	}
}

// barrier writes to the clock and returns when that was. What the same session reads afterwards is
// not older.
func (s *Store) barrier(ctx context.Context) (time.Time, error) {
	znode := s.path + "/clock"
	for {
		stat, err := request(ctx, s, znode, func() (*zk.Stat, error) { return s.conn.Set(znode, nil, -1) })
		if err == nil {
			return time.UnixMilli(stat.Mtime).UTC(), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return time.Time{}, err
		}
		if err := s.prepare(ctx); err != nil {
			return time.Time{}, err
		}
	}
}
