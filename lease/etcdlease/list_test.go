package etcdlease_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// The records are read in pages as of one revision. Whoever compacts the cluster meanwhile, as a cron
// job or Kubernetes does, removes that revision.
func TestTheRecordsAreReadAgainIfTheirRevisionIsCompacted(t *testing.T) {
	t.Parallel()
	_, address := private(t)
	client := connect(t, address)
	const records, compactions = 2500, 8
	servers.Eventually(t, func() error {
		_, err := client.Get(t.Context(), "p/")
		return err
	})
	fill(t, client, "p/", records)
	store := open(t, client, "p/")

	var compacted atomic.Int64
	client.KV = betweenPages{KV: client.KV, do: func(ctx context.Context) {
		if compacted.Add(1) > compactions {
			return
		}
		answer, err := client.Put(ctx, "something else", fmt.Sprint(compacted.Load()))
		if err == nil {
			_, err = client.Compact(ctx, answer.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	}}
	listed, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != records {
		t.Errorf("%d of %d records were listed", len(listed), records)
	}
	seen := map[int64]bool{}
	for _, r := range listed {
		if seen[r.Node] {
			t.Fatalf("node %d was listed twice", r.Node)
		}
		seen[r.Node] = true
	}
	if compacted.Load() <= compactions {
		t.Errorf("the revision was compacted %d times", compacted.Load())
	}
}

// fill stores the first records of n nodes.
func fill(t *testing.T, client *clientv3.Client, prefix string, n int) {
	t.Helper()
	var puts []clientv3.Op
	for node := range n {
		value, err := storetest.First(int64(node)).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		puts = append(puts, clientv3.OpPut(prefix+"nodes/"+strconv.Itoa(node), string(value)))
		if len(puts) == 100 || node == n-1 {
			if _, err := client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
				t.Fatal(err)
			}
			puts = nil
		}
	}
}

// betweenPages does something before each page but the first.
type betweenPages struct {
	clientv3.KV
	do func(ctx context.Context)
}

func (b betweenPages) Get(
	ctx context.Context, key string, opts ...clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	if strings.HasSuffix(key, "\x00") {
		b.do(ctx)
	}
	return b.KV.Get(ctx, key, opts...)
}
