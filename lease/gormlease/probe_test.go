package gormlease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestAProbeIsAnsweredWhileAnotherRequestWaits(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := target.Open(t, nil)
			store, err := gormlease.New(db)
			must(t, err)
			t.Cleanup(func() { must(t, store.Close()) })
			first := storetest.First(7)
			if ok, err := store.Swap(limited(t), lease.Record{}, first); !ok || err != nil {
				t.Fatalf("the first swap: %t, %v", ok, err)
			}
			tx := db.Begin()
			must(t, tx.Error)
			must(t, tx.Exec("UPDATE snowflake_nodes SET version = version WHERE node = 7").Error)

			next := first
			next.Version++
			ctx, cancel := context.WithCancel(limited(t))
			swapped := make(chan error)
			go func() {
				_, err := store.Swap(ctx, first, next)
				swapped <- err
			}()
			must(t, store.Probe(limited(t)))
			select {
			case err := <-swapped:
				t.Errorf("the swap did not wait for the lock: %v", err)
			default:
			}
			must(t, store.Probe(limited(t)))
			cancel()
			if err := <-swapped; !errors.Is(err, context.Canceled) {
				t.Errorf("the swap that was given up returned %v", err)
			}
			must(t, tx.Rollback().Error)
		})
	}
}
