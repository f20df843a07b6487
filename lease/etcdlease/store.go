package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Prober = (*Store)(nil)

var _ lease.Identifier = (*Store)(nil)

// Store is a [lease.Store] in etcd. It is safe for concurrent use.
type Store struct {
	client    *clientv3.Client
	prefix    string // of the keys, "snowflake/nodes/"
	http      *http.Client
	tls       bool     // endpoints that do not say are asked by https
	clockURLs []string // nil: the endpoints of client
	local     bool
	identity  *leaseops.Identity
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
	fault := errs.Options(s, opts, lease.ErrInvalidOption)
	if s.local && (s.http != nil || s.clockURLs != nil) {
		fault = errors.Join(fault, fmt.Errorf("%w: WithLocalClock asks nobody, so leave out WithHTTPClient and "+
			"WithClockURLs", lease.ErrInvalidOption))
	}
	if fault != nil {
		return nil, fmt.Errorf("etcdlease: %w", fault)
	}
	if s.http == nil {
		s.http = newHTTPClient((&net.Dialer{Timeout: askTimeout}).DialContext)
	}
	s.identity = &leaseops.Identity{
		Package: "etcdlease", Records: "the keys " + s.prefix + "...", Note: "the key " + s.noteKey(),
		Entry: "key", Where: "key " + s.prefix, Before: " (etcdctl get --rev)",
		MarkBy: func(identity string) string {
			return fmt.Sprintf("etcdctl put %s '%s'", s.markKey(), leaseops.MarkText(identity))
		},
		NoteBy:   func(identity string) string { return "etcdctl put " + s.noteKey() + " " + identity },
		ReadNote: s.readNote, MakeMark: s.makeMark, MakeNote: s.makeNote,
	}
	return s, nil
}

// Option changes what [New] does by default. The options of this package are the only ones.
type Option func(*Store) error

// WithHTTPClient tells the store to ask for the time with client, for endpoints whose certificates the
// system does not know or that want one of the client's. Its transport then takes the same
// tls.Config as the etcd client. Endpoints without a scheme ("host:port") are asked by https then,
// otherwise by http.
//
// By default, endpoints are asked with a client that verifies certificates against those of the
// system, uses no proxy, and waits 5 s. The given one is never changed; nil is an error.
func WithHTTPClient(client *http.Client) Option {
	return errs.Option(func(s *Store) { s.http, s.tls = client, true }, client == nil, lease.ErrInvalidOption,
		"WithHTTPClient needs a client, not nil")
}

// WithClockURLs tells the store to ask these addresses for the time, each an http or https URL, in
// turn until one answers. Any answer will do, as long as it has a Date; all processes should name
// the same servers.
//
// By default, the endpoints of the etcd client are asked for /version.
func WithClockURLs(urls ...string) Option {
	return func(s *Store) error {
		if len(urls) == 0 {
			return fmt.Errorf("%w: WithClockURLs needs at least one URL", lease.ErrInvalidOption)
		}
		for _, text := range urls {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return fmt.Errorf("%w: WithClockURLs: %q is not like \"http://host:port/path\"",
					lease.ErrInvalidOption, text)
			}
		}
		s.clockURLs = slices.Clone(urls)
		return nil
	}
}

// WithLocalClock tells the store to pass the clock of this machine off as its own. Then nobody notices
// a machine whose clock is wrong: no ID is made twice even so, because windows are compared with
// each other and not with clocks, but a machine that is a year ahead takes its number out of use
// for a year, and finds numbers free that are still extended. Only for machines whose clocks
// somebody else watches.
//
// By default, etcd is asked by HTTP. WithLocalClock cannot be combined with [WithHTTPClient] or
// [WithClockURLs].
func WithLocalClock() Option {
	return errs.Set(func(s *Store) { s.local = true })
}

// Identity returns the random identity of the records under the prefix, of which the documentation of the
// package says where it lies. For records that have lost it the error wraps snowflakeplugin.ErrAuthority, and
// ends with what leads back.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	identity, err := s.identity.Seen(ctx)
	return lease.Identity{ID: identity, Place: "keys " + s.prefix + " in etcd"}, err
}

func (s *Store) readNote(ctx context.Context) (string, error) {
	return textOf(s.get(ctx, s.noteKey()))
}

// get returns what is at a key, or nil.
func (s *Store) get(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	answer, err := s.client.Get(ctx, key)
	if err != nil {
		return nil, failed(key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, nil
	}
	return answer.Kvs[0], nil
}

func textOf(kv *mvccpb.KeyValue, err error) (string, error) {
	if kv == nil {
		return "", err
	}
	return string(kv.Value), err
}

func (s *Store) makeMark(ctx context.Context, identity string, ifUsed bool) (string, error) {
	var also []clientv3.Cmp
	if ifUsed { // by a key that begins with the prefix
		also = append(also, clientv3.Compare(clientv3.CreateRevision(s.prefix), ">", 0).WithPrefix())
	}
	found, err := s.create(ctx, s.markKey(), leaseops.MarkText(identity), also...)
	if err != nil || found == nil {
		return "", err
	}
	return s.identity.In(found.Value)
}

func (s *Store) makeNote(ctx context.Context, identity string) (string, error) {
	return textOf(s.create(ctx, s.noteKey(), identity))
}

// create puts a value at a key that is not there, if other conditions hold as well. It returns what is there
// then.
func (s *Store) create(
	ctx context.Context, key, value string, also ...clientv3.Cmp,
) (*mvccpb.KeyValue, error) {
	answer, err := s.client.Txn(ctx).
		If(append(also, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))...).
		Then(clientv3.OpPut(key, value), clientv3.OpGet(key)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, failed(key, err)
	}
	if kvs := answer.Responses[len(answer.Responses)-1].GetResponseRange().Kvs; len(kvs) > 0 {
		return kvs[0], nil
	}
	return nil, nil
}

func (s *Store) noteKey() string { return strings.TrimSuffix(s.prefix, "nodes/") + "identity" }

func (s *Store) markKey() string { return s.prefix + leaseops.MarkName }

// Now returns the clock of the first member that answers by HTTP, to half a second, or the local
// one with [WithLocalClock].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.local {
		return time.Now().Round(0).UTC(), nil
	}
	addresses := s.clockURLs
	if addresses == nil {
		addresses = s.client.Endpoints()
	}
	var faults []error
	for _, address := range addresses {
		now, err := s.ask(ctx, address)
		if err == nil {
			return now, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 0 {
		faults = append(faults, errors.New("the client has no endpoints"))
	}
	return time.Time{}, fmt.Errorf("etcdlease: no member told the time by HTTP "+
		"(the options WithHTTPClient, WithClockURLs and WithLocalClock say how else to ask): %w",
		errors.Join(faults...))
}

func (s *Store) ask(ctx context.Context, address string) (time.Time, error) {
	client := s.http
	target := address
	if s.clockURLs == nil {
		var socket string
		target, socket = clockURL(address, s.tls)
		if socket != "" {
			dialer := &net.Dialer{Timeout: askTimeout}
			client = newHTTPClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			})
			defer client.CloseIdleConnections()
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("endpoint %q: %w", address, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	// Whatever else it says, even that the client may not ask. It is read so that the connection
	// can be used again; if that fails there is the time all the same.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: status %d without the time (Date): %w",
			target, answer.StatusCode, err)
	}
	// The header is cut to the second.
	return date.UTC().Add(time.Second / 2), nil
}

// clockURL returns the URL to ask for an endpoint in any of the forms that the etcd client takes,
// and the socket to reach it by, if it is one. What it does not know the request will refuse.
func clockURL(endpoint string, tls bool) (target, socket string) {
	if rest, unix := strings.CutPrefix(endpoint, "unix:"); unix {
		return "http://socket/version", strings.TrimPrefix(rest, "//")
	}
	if !strings.Contains(endpoint, "://") {
		// The etcd client takes TLS here if it has a configuration for it, which it does not show.
		if tls {
			return "https://" + endpoint + "/version", ""
		}
		return "http://" + endpoint + "/version", ""
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint, ""
	}
	return u.Scheme + "://" + u.Host + "/version", ""
}

// askTimeout bounds the question to one address, where the caller's client does not.
const askTimeout = 5 * time.Second

// newHTTPClient returns a client of the store's own. It goes by no proxy: the etcd client does not
// either, and a proxy would tell its own time.
func newHTTPClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{
		DialContext:         dial,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: askTimeout,
	}
	return &http.Client{Transport: transport, Timeout: askTimeout}
}

// List returns all records as of one revision, which is the newest there is when it asks. If that
// revision is compacted before all pages are read, it begins anew at the newest, as long as ctx allows. It
// returns an error wrapping snowflakeplugin.ErrAuthority if the records are not those any more that the store
// has seen first.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	s.reconnect()
	return s.identity.List(ctx, func(string) (records []lease.Record, found string, err error) {
		for {
			if records, found, err = s.list(ctx); !errors.Is(err, rpctypes.ErrCompacted) {
				return records, found, err
			}
		}
	})
}

// list returns the records, and the identity that they have.
func (s *Store) list(ctx context.Context) (records []lease.Record, found string, err error) {
	start, end := s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
	var revision int64 // 0: the newest, which most of the members have to confirm
	for {
		answer, err := s.client.Get(ctx, start,
			clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		if err != nil {
			return nil, "", failed(s.prefix+"...", err)
		}
		for _, kv := range answer.Kvs {
			if string(kv.Key) == s.markKey() {
				if found, err = s.identity.In(kv.Value); err != nil {
					return nil, "", err
				}
				continue
			}
			record, err := s.decode(kv)
			if err != nil {
				return nil, "", err
			}
			records = append(records, record)
		}
		if !answer.More {
			return records, found, nil
		}
		revision = answer.Header.Revision
		start = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

// Swap stores next if the record of that node has the owner and the version of prev. The first record of a
// node is stored only among the records that the store has seen first. An error means that it may have been
// stored.
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
	for {
		stored, err := s.get(ctx, key)
		if err != nil {
			return false, err
		}
		same, revision, err := s.compare(stored, prev)
		if err != nil || !same {
			return false, err
		}
		// Revision 0 is that of a key which does not exist. The client never sends a transaction a
		// second time that may have been executed.
		unchanged := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)}
		if prev.Version == 0 {
			mark, err := s.markSeen(ctx)
			if err != nil || mark == nil {
				return false, err
			}
			unchanged = append(unchanged,
				clientv3.Compare(clientv3.ModRevision(s.markKey()), "=", mark.ModRevision))
		}
		answer, err := s.client.Txn(ctx).If(unchanged...).Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil {
			return false, failed(key, err)
		}
		if answer.Succeeded {
			return true, nil
		}
		// A key was changed meanwhile. A keeper's change refuses this swap, but a key that was
		// written again with the same owner and version does not.
	}
}

// markSeen returns the mark, or nil if it does not tell the identity any more that was seen first.
func (s *Store) markSeen(ctx context.Context) (*mvccpb.KeyValue, error) {
	seen, err := s.identity.Seen(ctx)
	if err != nil {
		return nil, err
	}
	mark, err := s.get(ctx, s.markKey())
	if err != nil || mark == nil {
		return nil, err
	}
	found, err := s.identity.In(mark.Value)
	if err != nil || found != seen {
		return nil, err
	}
	return mark, nil
}

// compare tells whether what is stored, if anything, is what prev says, and at which revision.
func (s *Store) compare(stored *mvccpb.KeyValue, prev lease.Record) (same bool, revision int64, err error) {
	if stored == nil {
		return prev.Version == 0, 0, nil
	}
	record, err := s.decode(stored)
	if err != nil {
		return false, 0, err
	}
	return record.Owner == prev.Owner && record.Version == prev.Version, stored.ModRevision, nil
}

// Probe returns nil when the cluster has answered, with a leader. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error {
	s.reconnect()
	_, err := s.client.Get(ctx, s.prefix, clientv3.WithKeysOnly())
	if err != nil {
		return failed(s.prefix, err)
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

func (s *Store) decode(kv *mvccpb.KeyValue) (lease.Record, error) {
	return s.identity.Decode(strings.TrimPrefix(string(kv.Key), s.prefix), kv.Value)
}

func failed(key string, cause error) error { return fmt.Errorf("etcdlease: key %s: %w", key, cause) }
