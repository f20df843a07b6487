package etcdlease_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestStoresOnOnePrefixHaveOneIdentity(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	storetest.OneIdentity(t,
		func() storetest.Identified { return open(t, client, prefix) },
		func() storetest.Identified { return open(t, client, prefix+"other/") })
}
