package zklease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Prober = (*Store)(nil)

var _ lease.Identifier = (*Store)(nil)

// Store is a [lease.Store] in ZooKeeper. It is safe for concurrent use.
type Store struct {
	conn  *zk.Conn
	path  string // "/snowflake"
	acl   []zk.ACL
	slots chan struct{} // one for each request under way

	identity *leaseops.Identity
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
	if err := errs.Options(s, opts, lease.ErrInvalidOption); err != nil {
		return nil, fmt.Errorf("zklease: %w", err)
	}
	s.identity = &leaseops.Identity{
		Package: "zklease", Records: "the znodes " + s.znode("..."), Note: "the znode " + s.noteNode(),
		Entry: "znode", Where: s.znode(""),
		MarkBy: func(identity string) string {
			return fmt.Sprintf("create %s '%s'\ncreate %[1]s/%[3]s ''", s.markNode(), leaseops.MarkText(identity),
				identity)
		},
		NoteBy:   func(identity string) string { return "set " + s.noteNode() + " " + identity },
		ReadNote: s.readNote, MakeMark: s.makeMark, MakeNote: s.makeNote,
	}
	return s, nil
}

// Option changes what [New] does by default. The options of this package are the only ones.
type Option func(*Store) error

// WithACL tells the store whom to give which rights to the znodes that it makes. The processes that
// use the store need those to read, to write and to create. The rights of znodes that exist stay
// as they are.
//
// By default, everybody has all rights, as zk.WorldACL(zk.PermAll) says. No entry is an error.
func WithACL(entries ...zk.ACL) Option {
	return errs.Option(func(s *Store) { s.acl = slices.Clone(entries) }, len(entries) == 0,
		lease.ErrInvalidOption, "WithACL needs at least one entry, or nobody could read what is written")
}

// checkPath returns an error unless path is one that znodes may lie under.
func checkPath(path string) error {
	wrong := func(what string) error {
		return fmt.Errorf("%w: zklease: the path %q %s; name one like \"/snowflake\"",
			lease.ErrInvalidOption, path, what)
	}
	rest, absolute := strings.CutPrefix(path, "/")
	if !absolute {
		return wrong("does not begin with a slash")
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." || part == ".." {
			return wrong("has an empty or a relative part")
		}
		if strings.ContainsFunc(part, forbidden) {
			return wrong("has a character that ZooKeeper does not take")
		}
	}
	return nil
}

// forbidden tells whether ZooKeeper refuses a character in a path.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// Identity returns the random identity of the records under the path, of which the documentation of the
// package says where it lies. For records that have lost it the error wraps snowflakeplugin.ErrAuthority, and
// ends with what leads back.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	identity, err := s.identity.Seen(ctx)
	return lease.Identity{ID: identity, Place: "znodes " + s.path + "/nodes in ZooKeeper"}, err
}

func (s *Store) readNote(ctx context.Context) (noted string, err error) {
	err = s.asOfNow(ctx, func() error {
		note, err := s.content(ctx, s.noteNode())
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		noted = string(note.data)
		return err
	})
	return noted, err
}

// content is what a znode holds.
type content struct {
	data    []byte
	version int32
}

func (s *Store) content(ctx context.Context, znode string) (content, error) {
	return request(ctx, s, znode, func() (content, error) {
		data, stat, err := s.conn.Get(znode)
		if err != nil {
			return content{}, err
		}
		return content{data, stat.Version}, nil
	})
}

func (s *Store) makeMark(ctx context.Context, identity string, ifUsed bool) (found string, err error) {
	for {
		var names []string
		err := s.asOfNow(ctx, func() (err error) {
			if names, err = s.names(ctx); err == nil {
				found, err = s.identityBelow(ctx, identity)
			}
			return err
		})
		marked := slices.Contains(names, leaseops.MarkName)
		if err != nil || found != "" || ifUsed && (len(names) == 0 || len(names) == 1 && marked) {
			return found, err
		}
		var made []any
		switch {
		case !marked:
			made = append(made, s.creation(s.markNode(), leaseops.MarkText(identity)))
		case !ifUsed: // of several who make what the mark has lost, all make the same
			mark, err := s.content(ctx, s.markNode())
			if errors.Is(err, zk.ErrNoNode) {
				continue // somebody has deleted it meanwhile
			}
			if err != nil {
				return "", err
			}
			if identity, err = s.identity.In(mark.data); err != nil {
				return "", err
			}
		}
		made = append(made, s.creation(s.markNode()+"/"+identity, ""))
		// Somebody else may be faster, and what is there then is looked at again.
		if err := s.together(ctx, s.markNode(), made...); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", err
		}
	}
}

func (s *Store) makeNote(ctx context.Context, identity string) (string, error) {
	err := s.together(ctx, s.noteNode(), s.creation(s.noteNode(), identity))
	if errors.Is(err, zk.ErrNodeExists) {
		return s.readNote(ctx)
	}
	return identity, err
}

// identityBelow returns the identity below the mark: the one that is wanted, if there are several.
func (s *Store) identityBelow(ctx context.Context, wanted string) (string, error) {
	identities, err := s.children(ctx, s.markNode())
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return "", err
	case len(identities) == 0:
		return "", nil
	case slices.Contains(identities, wanted):
		return wanted, nil
	}
	return slices.Min(identities), nil
}

// markNode is the mark, below which a znode is named after the identity.
func (s *Store) markNode() string { return s.znode(leaseops.MarkName) }

func (s *Store) noteNode() string { return s.path + "/identity" }

// Now returns the leader's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.barrier(ctx) }

// Probe returns nil when the leader has answered. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// List returns all records as of now. It returns an error wrapping snowflakeplugin.ErrAuthority if the
// records are not those any more that the store has seen first.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	return s.identity.List(ctx, func(seen string) (records []lease.Record, found string, err error) {
		err = s.asOfNow(ctx, func() (err error) {
			records, found, err = s.read(ctx, seen)
			return err
		})
		if err != nil {
			err = fmt.Errorf("zklease: the records could not be read: %w", err)
		}
		return records, found, err
	})
}

// names returns the names of the records and of the mark.
func (s *Store) names(ctx context.Context) ([]string, error) {
	for {
		names, err := s.children(ctx, s.path+"/nodes")
		if !errors.Is(err, zk.ErrNoNode) {
			return names, err
		}
		if err := s.prepare(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Store) children(ctx context.Context, znode string) ([]string, error) {
	return request(ctx, s, znode, func() ([]string, error) {
		names, _, err := s.conn.Children(znode)
		return names, err
	})
}

// read returns the records of all znodes, several at a time, and the identity that they have.
func (s *Store) read(ctx context.Context, seen string) (records []lease.Record, found string, err error) {
	names, err := s.names(ctx)
	if err != nil {
		return nil, "", err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == leaseops.MarkName })
	if found, err = s.identityBelow(ctx, seen); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records = make([]lease.Record, len(names))
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
	return records, found, context.Cause(ctx)
}

// get returns the record of a znode and the znode's version.
func (s *Store) get(ctx context.Context, znode string) (lease.Record, int32, error) {
	c, err := s.content(ctx, znode)
	if err != nil {
		return lease.Record{}, 0, err
	}
	record, err := s.identity.Decode(strings.TrimPrefix(znode, s.znode("")), c.data)
	return record, c.version, err
}

// Swap stores next if the record of that node has the owner and the version of prev. The first record of a
// node is stored only among the records that the store has seen first. An error means that it may have been
// stored, or may be later.
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
		stored, differs, err := s.attempt(ctx, znode, prev, data)
		if stored || err != nil || differs && current && s.conn.SessionID() == session {
			return stored, err
		}
	}
}

// attempt reads a record, compares it, and replaces it if it has not changed since. It differs if the record
// that was read is not the one to replace.
func (s *Store) attempt(
	ctx context.Context, znode string, prev lease.Record, data []byte,
) (stored, differs bool, err error) {
	record, version, err := s.get(ctx, znode)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, true, nil
	case err != nil:
		return false, false, err
	case record.Owner != prev.Owner || record.Version != prev.Version:
		return false, true, nil
	}
	_, err = request(ctx, s, znode, func() (*zk.Stat, error) { return s.conn.Set(znode, data, version) })
	if errs.IsAny(err, zk.ErrBadVersion, zk.ErrNoNode) {
		return false, false, nil // it has changed since
	}
	return err == nil, false, err
}

// create stores the first record of a node, if the mark has the identity that was seen first.
func (s *Store) create(ctx context.Context, znode string, data []byte) (bool, error) {
	seen, err := s.identity.Seen(ctx)
	if err != nil {
		return false, err
	}
	err = s.together(ctx, znode, &zk.CheckVersionRequest{Path: s.markNode() + "/" + seen, Version: -1},
		s.creation(znode, string(data)))
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// creation is the request that makes a znode, for together.
func (s *Store) creation(znode, data string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: znode, Data: []byte(data), Acl: s.acl}
}

// together makes several requests at once, all or none.
func (s *Store) together(ctx context.Context, znode string, requests ...any) error {
	_, err := request(ctx, s, znode, func() ([]zk.MultiResponse, error) { return s.conn.Multi(requests...) })
	return err
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

// asOfNow reads what is not older than this call.
func (s *Store) asOfNow(ctx context.Context, read func() error) error {
	for {
		session := s.conn.SessionID()
		if _, err := s.barrier(ctx); err != nil {
			return err
		}
		err := read()
		// A new session may be with a server that lags behind what the old one has written.
		if s.conn.SessionID() == session {
			return err
		}
	}
}

func (s *Store) znode(name string) string { return s.path + "/nodes/" + name }

// prepare makes the znodes above the records, those that are not there.
func (s *Store) prepare(ctx context.Context) error {
	var parent string
	var all []string
	for part := range strings.SplitSeq(s.path[1:], "/") {
		parent += "/" + part
		all = append(all, parent)
	}
	for _, znode := range append(all, s.path+"/nodes", s.path+"/clock") {
		_, err := request(ctx, s, znode, func() (string, error) {
			return s.conn.Create(znode, nil, zk.FlagPersistent, s.acl)
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// request asks ZooKeeper about a znode, and returns when it has answered or ctx has ended.
func request[T any](ctx context.Context, s *Store, znode string, ask func() (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, fmt.Errorf("zklease: %s: %w", znode, context.Cause(ctx))
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("zklease: %s: %w", znode, context.Cause(ctx))
	}
	answer, err := attempt.Detached(ctx, func() (T, error) {
		defer func() { <-s.slots }()
		return ask()
	})
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, zk.ErrNoAuth):
		return none, fmt.Errorf("zklease: %s: %w: give this process the rights to read, to write and to create "+
			"there (the option ACL, and AddAuth of the connection)", znode, err)
	}
	return none, fmt.Errorf("zklease: %s: %w", znode, err)
}
