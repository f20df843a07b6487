package etcdlease_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func TestMain(m *testing.M) {
	chaos.Work(openForChaos)
	os.Exit(m.Run())
}

// openForChaos opens the store of a worker.
func openForChaos(_, address string) (lease.Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	store, err := etcdlease.New(client, "chaos/")
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return store, nil
}

func TestChaosRepeatsNoID(t *testing.T) {
	c := chaos.Usual("etcd").FromEnvironment(t)
	server, address := private(t)
	answers := func() error { return healthy("http://" + address + "/health") }
	servers.Eventually(t, answers)
	c.Address, c.Server = address, chaos.Daemon(server, answers)
	chaos.Run(t, c).Check(t)
}

// healthy asks the server how it is.
func healthy(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && !strings.Contains(string(text), `"health":"true"`) {
		err = fmt.Errorf("the server says %q", text)
	}
	return err
}
