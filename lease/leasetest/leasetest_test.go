package leasetest_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

func TestMemoryIsAStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) func() lease.Store {
		m := leasetest.NewMemory(nil)
		return func() lease.Store { return m }
	})
}
