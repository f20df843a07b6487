package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Prober = (*Store)(nil)

// Store is a [lease.Store] in etcd. It is safe for concurrent use.
type Store struct {
	client    *clientv3.Client
	prefix    string // of the keys, "snowflake/nodes/"
	http      *http.Client
	tls       bool     // endpoints that do not say are asked by https
	clockURLs []string // nil: the endpoints of client
	local     bool
}

// page is how many records are read with one request.
const page = 1000

// New returns a store that keeps its records under keys that begin with prefix, usually with a
// slash at its end: "snowflake/". All processes that must not make the same IDs use the same
// prefix in the same cluster. It does not connect.
//
// The client stays the caller's, who closes it after the last keeper; the store does not change
// it. An error wraps [lease.ErrInvalidOption].
func New(client *clientv3.Client, prefix string, opts ...Option) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: etcdlease: no client", lease.ErrInvalidOption)
	}
	if prefix == "" {
		return nil, fmt.Errorf("%w: etcdlease: no prefix; name one, like \"snowflake/\"", lease.ErrInvalidOption)
	}
	s := &Store{client: client, prefix: prefix + "nodes/"}
	if err := s.configure(opts); err != nil {
		return nil, err
	}
	return s, nil
}

// List returns all records as of one revision, which is the newest there is when it asks. If that
// revision is compacted before all pages are read, it begins anew at the newest, as long as ctx allows.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	s.reconnect()
	for {
		records, err := s.list(ctx)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return records, err
		}
	}
}

// Probe returns nil when the cluster has answered, with a leader. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	s.reconnect()
	_, err := s.client.Get(ctx, s.prefix, clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("etcdlease: key %s: %w", s.prefix, err)
	}
	return nil
}

// reconnect lets the client connect again now, if it waits to do so: for minutes after some failures in a
// row. Who asks the store decides how often that is tried, see package lease.
func (s *Store) reconnect() {
	if conn := s.client.ActiveConnection(); conn != nil {
		conn.ResetConnectBackoff() // which does nothing to a connection that is there
	}
}

func (s *Store) list(ctx context.Context) ([]lease.Record, error) {
	var records []lease.Record
	start, end := s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
	var revision int64 // 0: the newest, which most of the members have to confirm
	for {
		answer, err := s.client.Get(ctx, start,
			clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		if err != nil {
			return nil, fmt.Errorf("etcdlease: keys %s...: %w", s.prefix, err)
		}
		for _, kv := range answer.Kvs {
			record, err := s.decode(kv)
			if err != nil {
				return nil, err
			}
			records = append(records, record)
		}
		if !answer.More {
			return records, nil
		}
		revision = answer.Header.Revision
		start = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

// Swap stores next if the record of that node has the owner and the version of prev. An error
// means that it may have been stored.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	value, err := next.MarshalJSON()
	if err != nil {
		return false, err
	}
	s.reconnect()
	key := s.prefix + strconv.FormatInt(next.Node, 10)
	answer, err := s.client.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("etcdlease: key %s: %w", key, err)
	}
	stored := answer.Kvs
	for {
		same, revision, err := s.compare(stored, prev)
		if err != nil || !same {
			return false, err
		}
		// Revision 0 is that of a key which does not exist. The client never sends a transaction a
		// second time that may have been executed.
		answer, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, string(value))).
			Else(clientv3.OpGet(key)).
			Commit()
		if err != nil {
			return false, fmt.Errorf("etcdlease: key %s: %w", key, err)
		}
		if answer.Succeeded {
			return true, nil
		}
		// The key was changed meanwhile. A keeper's change refuses this swap, but a key that was
		// written again with the same owner and version does not.
		stored = answer.Responses[0].GetResponseRange().Kvs
	}
}

// compare tells whether what is stored, if anything, is what prev says, and at which revision.
func (s *Store) compare(stored []*mvccpb.KeyValue, prev lease.Record) (same bool, revision int64, err error) {
	if len(stored) == 0 {
		return prev.Version == 0, 0, nil
	}
	record, err := s.decode(stored[0])
	if err != nil {
		return false, 0, err
	}
	return record.Owner == prev.Owner && record.Version == prev.Version, stored[0].ModRevision, nil
}

func (s *Store) decode(kv *mvccpb.KeyValue) (lease.Record, error) {
	key := string(kv.Key)
	number := strings.TrimPrefix(key, s.prefix)
	node, err := strconv.ParseInt(number, 10, 64)
	if err != nil || node < 0 || strconv.FormatInt(node, 10) != number {
		return invalid(key, fmt.Errorf("%w: %q is no node number", lease.ErrInvalidRecord, number))
	}
	var record lease.Record
	if err := record.UnmarshalJSON(kv.Value); err != nil {
		return invalid(key, err)
	}
	if record.Node != node {
		return invalid(key, fmt.Errorf("%w: it is one of node %d", lease.ErrInvalidRecord, record.Node))
	}
	return record, nil
}

func invalid(key string, cause error) (lease.Record, error) {
	return lease.Record{}, fmt.Errorf("etcdlease: key %s: %w: no keeper wrote this: write what it was before "+
		"(etcdctl get --rev), or delete the key once no process has had the number for a span", key, cause)
}
