package redislease_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
)

func TestMain(m *testing.M) {
	chaos.Work(openForChaos)
	os.Exit(m.Run())
}

// openForChaos opens the store of a worker.
func openForChaos(_, address string) (lease.Store, error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	store, err := redislease.New(client, "chaos:", redislease.WithStrict(0, time.Second))
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return store, nil
}

func TestChaosRepeatsNoID(t *testing.T) {
	c := chaos.Usual("redis").FromEnvironment(t)
	server, client := redistest.Private(t, redistest.Durable()...)
	c.Address = client.Options().Addr
	c.Server = chaos.Daemon(server, func() error { return client.Ping(context.Background()).Err() })
	chaos.Run(t, c).Check(t)
}
