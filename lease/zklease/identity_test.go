package zklease_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestStoresOnOnePathHaveOneIdentity(t *testing.T) {
	t.Parallel()
	client, path := shared(t)
	storetest.OneIdentity(t,
		func() storetest.Identified { return open(t, client, path) },
		func() storetest.Identified { return open(t, client, path+"/other") })
}
