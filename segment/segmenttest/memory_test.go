package segmenttest_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

func TestTheStoreInMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	segmenttest.Run(t, func(*testing.T) func() segment.Store {
		m := segmenttest.NewMemory()
		return func() segment.Store { return m.Handle() }
	})
}
