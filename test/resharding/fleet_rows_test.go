package resharding_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Open rows hold their connection until the caller has read them. The check after the statement may need
// one to renew the lease, and a pool with a single connection has no other.
func TestRowsThatAreOpenDoNotWaitForTheirOwnConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := &doubled{T: t, dbs: []*gorm.DB{target.Open(t, nil, dbtest.MaxOpenConns(1))}}
		must(t, d.dbs[0].Use(snowflakeplugin.New(snowflakeplugin.WithNode(3))), "Use")
		d.router = d.open(doubledFrom)
		must(t, d.router.AutoMigrate(t.Context()), "AutoMigrate")
		shortLease(t, d.dbs[0])
		d.add(d.router, 4)
		var pause time.Duration
		must(t, d.dbs[0].Callback().Row().Before("gorm:row").Register("pause", func(*gorm.DB) {
			time.Sleep(pause)
		}), "the pause")
		// Of a lease of 300 ms, a sixth is fresh. It is younger than a twelfth when the handle is made.
		for _, pause = range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			handle, err := d.router.DB(ctx, &doubledOrder{}, d.live[0])
			must(t, err, "DB")
			rows, err := handle.Rows()
			switch {
			case ctx.Err() != nil:
				t.Errorf("after a pause of %v, the rows waited for a connection without end: %v", pause, err)
			case err == nil:
				must(t, rows.Close(), "Close")
			}
			cancel()
			var n int64
			must(t, d.dbs[0].Raw("SELECT COUNT(*) FROM snowflake_shards").Scan(&n).Error, "the next statement")
		}
	})
}
