package shardmap

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// newMapped makes a topology of one database with a record of its map, without models.
func newMapped(t *testing.T, db *gorm.DB) *Topology {
	t.Helper()
	record := Record{Name: "lots", Shards: 1, Held: "0", KeyColumn: "id", Mask: 4095, LeaseMillis: 60_000}
	check(t, db.Table(ShardsTable).AutoMigrate(&Record{}))
	check(t, db.Table(ShardsTable).Create(&record).Error)
	top, err := BareTopology([]*gorm.DB{db}, 1, map[int]int{0: 0}, []string{"lots"}, []MapRecord{{record, 0}})
	check(t, err)
	return top
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// age makes the lease on the only database as old as a part of its span.
func (t *Topology) age(part float64) *mapGrant {
	const span = time.Minute
	g := &mapGrant{time.Now().Add(-time.Duration(part * float64(span))), span}
	t.leases[0].granted.Store(g)
	return g
}

// A process whose statements are all in transactions renews its lease long before that ends. Otherwise
// its statements would wait in a cutover for up to the whole span of a lease.
func TestMethodsRenewTheLeaseOnTheMapEarly(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		c, ctx := newMapped(t, db), t.Context()
		lease := c.leases[0]

		fresh := c.age(mapRenewal / 2)
		check(t, c.RenewMaps(ctx))
		if lease.granted.Load() != fresh {
			t.Error("a fresh lease was renewed")
		}
		old := c.age(2 * mapRenewal)
		check(t, c.RenewMaps(ctx))
		if lease.granted.Load() == old {
			t.Error("a lease that was not fresh was not renewed")
		}

		check(t, db.Table(ShardsTable).Where("name = ?", "lots").Update("next_shards", 2).Error)
		old = c.age(2 * mapRenewal)
		check(t, c.RenewMaps(ctx)) // The rest of the lease is used.
		if lease.granted.Load() != old {
			t.Error("a lease was renewed on a closed map")
		}
		refused := lease.refused.Load()
		check(t, c.RenewMaps(ctx))
		check(t, c.CheckLease(ctx, 0, db.ConnPool, BeforeStatement))
		if refused == nil || lease.refused.Load() != refused {
			t.Error("a closed map was read again at once")
		}
		c.age(1 - mapReserve/2)
		if err := c.RenewMaps(ctx); !errors.Is(err, errs.ErrShardMap) {
			t.Errorf("a lease that ends on a closed map: %v", err)
		}
	})
}

// The caller may hold the only connection of the pool, so a lease that suffices is not renewed with it.
func TestAnEarlyRenewalDoesNotWaitForAConnection(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil, dbtest.MaxOpenConns(1))
		c := newMapped(t, db)
		pool, err := db.DB()
		check(t, err)
		only, err := pool.Conn(t.Context())
		check(t, err)
		defer only.Close()
		c.age(2 * mapRenewal)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check(t, c.RenewMaps(ctx))
		if waited := pool.Stats().WaitCount; waited > 0 {
			t.Errorf("it waited for a connection %d times", waited)
		}
	})
}
