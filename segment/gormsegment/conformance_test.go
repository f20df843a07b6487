package gormsegment_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestEveryDatabaseKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		var last atomic.Int64
		segmenttest.Run(t, func(t *testing.T) func() segment.Store {
			table := gormsegment.WithTable(fmt.Sprint("segments_", last.Add(1)))
			return func() segment.Store {
				store, err := gormsegment.New(target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(2)), table)
				must(t, err)
				t.Cleanup(func() { must(t, store.Close()) })
				return store
			}
		})
	})
}
