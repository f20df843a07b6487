package redissegment_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
)

func TestMain(m *testing.M) {
	chaos.Count(openForChaos)
	os.Exit(m.Run())
}

// openForChaos opens the store of a worker.
func openForChaos(_, address string) (segment.Ledger, error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	store, err := redissegment.New(ctx, client, "chaos:", redissegment.WithStrict(0, time.Second))
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return store, nil
}

func TestChaosRepeatsNoNumber(t *testing.T) {
	c := chaos.Usual("redis").FromEnvironment(t)
	server, client := redistest.Private(t, redistest.Durable()...)
	c.Address = client.Options().Addr
	c.Server = chaos.Daemon(server, func() error { return client.Ping(context.Background()).Err() })
	chaos.RunCounters(t, c, openForChaos).Check(t)
}
