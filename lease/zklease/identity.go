package zklease

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Identifier = (*Store)(nil)

// Identity returns the random identity of the records under the path. It is the content of the znode
// path + "/identity", which the first call makes. Do not delete that znode: databases have noted it.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	znode, id := s.path+"/identity", rand.Text()
	created, err := s.create(ctx, znode, []byte(id))
	if err != nil {
		return lease.Identity{}, err
	}
	for !created {
		// It is there, but this server may lag behind.
		if _, err := s.barrier(ctx); err != nil {
			return lease.Identity{}, err
		}
		data, err := request(ctx, s, znode, func() ([]byte, error) {
			data, _, err := s.conn.Get(znode)
			return data, err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue // a new session, with another server
		}
		if err != nil {
			return lease.Identity{}, err
		}
		id, created = string(data), true
	}
	return lease.Identity{ID: id, Place: "znodes " + s.path + "/nodes in ZooKeeper"}, nil
}
