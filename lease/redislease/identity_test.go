package redislease_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestStoresOnOnePrefixHaveOneIdentity(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t, "nodes")
	_, other := redistest.Shared(t, "nodes")
	storetest.OneIdentity(t,
		func() storetest.Identified { return open(t, client, prefix) },
		func() storetest.Identified { return open(t, client, other) })
}
