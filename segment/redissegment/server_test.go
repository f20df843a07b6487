package redissegment_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
)

func open(t *testing.T, client redis.UniversalClient, prefix string, opts ...redissegment.Option) *redissegment.Store {
	t.Helper()
	store, err := redissegment.New(t.Context(), client, prefix, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
