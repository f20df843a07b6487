package redislease_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
)

func open(t *testing.T, client redis.UniversalClient, prefix string, opts ...redislease.Option) *redislease.Store {
	t.Helper()
	store, err := redislease.New(client, prefix, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
