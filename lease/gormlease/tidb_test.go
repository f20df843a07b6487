package gormlease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// On TiDB a statement may be done in a way that finds out only at the end that somebody else was faster.
// These settings make that as likely as possible.
func optimistic() []dbtest.Option {
	return []dbtest.Option{dbtest.DSNParam("tidb_txn_mode", "'optimistic'"), dbtest.DSNParam("tidb_retry_limit", "0")}
}

// ways opens a database of TiDB in each of the ways in which a store uses one.
func ways(t *testing.T) map[string]func(dsn string) *gorm.DB {
	t.Helper()
	target := dbtest.TiDB(t)
	return map[string]func(dsn string) *gorm.DB{
		"its own connection": func(dsn string) *gorm.DB { return target.OpenDSN(t, dsn, nil) },
		"its own connection, optimistic": func(dsn string) *gorm.DB {
			return target.OpenDSN(t, dsn, nil, optimistic()...)
		},
		"a shared pool, optimistic": func(dsn string) *gorm.DB {
			pool := poolOf(t, target.OpenDSN(t, dsn, nil, optimistic()...))
			db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{})
			must(t, err)
			return db
		},
	}
}

func TestTheContractHoldsInTiDBSettings(t *testing.T) {
	t.Parallel()
	for name, open := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, table := dbtest.TiDB(t).DSN(t), tables()
			leasetest.Run(t, func(t *testing.T) func() lease.Store {
				mine := table()
				return func() lease.Store { return newStore(t, open(dsn), mine) }
			})
		})
	}
}

// Many stores change one record as fast as they can. Each version is a swap that exactly one of them was
// told of.
func TestOnTiDBEachVersionIsTheSwapOfOneStore(t *testing.T) {
	t.Parallel()
	for name, open := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const stores, swaps = 8, 40
			dsn := dbtest.TiDB(t).DSN(t)
			first := newStore(t, open(dsn))
			r := storetest.Create(t, first, storetest.First(1))
			var done atomic.Int64
			var all sync.WaitGroup
			ctx := limited(t)
			for range stores {
				store := newStore(t, open(dsn))
				all.Go(func() {
					for range swaps {
						if err := swapOnce(ctx, store, &done); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			records, err := first.List(ctx)
			must(t, err)
			if got, want := records[0].Version, r.Version+done.Load(); got != want || want != r.Version+stores*swaps {
				t.Errorf("the record has version %d after %d swaps from version %d on", got, done.Load(), r.Version)
			}
		})
	}
}

// swapOnce reads the record of the only node and changes it until that is done once, and counts it.
func swapOnce(ctx context.Context, store *gormlease.Store, done *atomic.Int64) error {
	for {
		records, err := store.List(ctx)
		if err != nil {
			return err
		}
		ok, err := store.Swap(ctx, records[0], storetest.Renew(records[0]))
		if err != nil {
			return err
		}
		if ok {
			done.Add(1)
			return nil
		}
	}
}
