package sqllease_test

import (
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// What it costs to extend a window once, on a pool of the store's own and on one that is shared.
func BenchmarkRenewal(b *testing.B) {
	for _, target := range dbtest.Servers() {
		for name, opts := range map[string][]sqllease.Option{
			"dedicated": {sqllease.WithDedicatedPool()}, "shared": nil,
		} {
			b.Run(target.Name+"/"+name, func(b *testing.B) {
				pool := openPool(b, target, target.DSN(b))
				store := newStore(b, pool, sqllease.Dialect(target.Dialect), opts...)
				r := storetest.First(1)
				if ok, err := store.Swap(b.Context(), lease.Record{}, r); err != nil || !ok {
					b.Fatal(ok, err)
				}
				earliest, latest := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
				for b.Loop() {
					next := storetest.Renew(r)
					if ok, err := store.SwapWithin(b.Context(), r, next, earliest, latest); err != nil || !ok {
						b.Fatal(ok, err)
					}
					r = next
				}
			})
		}
	}
}
