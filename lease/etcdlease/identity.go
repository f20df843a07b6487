package etcdlease

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Identifier = (*Store)(nil)

// Identity returns the random identity of the records under the prefix. It is the value of the key
// prefix + "identity", which the first call writes. Do not delete that key: databases have noted it.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	key := strings.TrimSuffix(s.prefix, "nodes/") + "identity"
	id := rand.Text()
	answer, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, id)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return lease.Identity{}, fmt.Errorf("etcdlease: key %s: %w", key, err)
	}
	if !answer.Succeeded {
		id = string(answer.Responses[0].GetResponseRange().Kvs[0].Value)
	}
	return lease.Identity{ID: id, Place: "keys " + s.prefix + " in etcd"}, nil
}
