package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A database may be told not to wait for its disk, and forgets its last commits in a crash then. A window that
// is forgotten is granted again, and so is a number.
func TestWhatIsAcknowledgedIsOnTheDiskOfPostgreSQL(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("postgres")
	for name, dedicated := range map[string]bool{"dedicated": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			admin := openPool(t, target, dsn)
			var leaseOptions []sqllease.Option
			var counterOptions []sqlsegment.Option
			if dedicated {
				leaseOptions = append(leaseOptions, sqllease.WithDedicatedPool())
				counterOptions = append(counterOptions, sqlsegment.WithDedicatedPool())
			}
			leases := newStore(t, openPool(t, target, dsn), sqllease.PostgreSQL, leaseOptions...)
			counters, err := sqlsegment.New(t.Context(), openPool(t, target, dsn), sqlsegment.PostgreSQL, counterOptions...)
			must(t, err)
			t.Cleanup(func() { must(t, counters.Close()) })

			r := storetest.Create(t, leases, storetest.First(0))
			var c segment.Counter
			for name, change := range map[string]func(context.Context, int64) error{
				"a first swap": func(ctx context.Context, i int64) error {
					_, err := leases.Swap(ctx, lease.Record{Node: i}, storetest.First(i))
					return err
				},
				"a swap": func(ctx context.Context, _ int64) error {
					next := storetest.Renew(r)
					_, err := leases.Swap(ctx, r, next)
					r = next
					return err
				},
				"a first claim": func(ctx context.Context, i int64) error {
					_, err := counters.Claim(ctx, fmt.Sprint("orders ", i), 1)
					return err
				},
				"a claim": func(ctx context.Context, _ int64) error {
					_, err := counters.Claim(ctx, "orders", 1)
					return err
				},
				"a change of a counter": func(ctx context.Context, i int64) error {
					next := segment.Counter{Name: "bills", Next: i + 1, Modulus: 1}
					ok, err := counters.Change(ctx, c, next)
					if c = next; err == nil && !ok {
						err = fmt.Errorf("the change to %+v was refused", next)
					}
					return err
				},
			} {
				for i := range int64(5) {
					behind(t, admin, name, func() error { return change(t.Context(), i+1) })
				}
			}
		})
	}
}

// behind fails the test if something that has written, and was acknowledged, is not on the disk.
func behind(t *testing.T, admin *sql.DB, name string, write func() error) {
	t.Helper()
	var before string
	must(t, admin.QueryRowContext(t.Context(), "SELECT pg_current_wal_insert_lsn()").Scan(&before))
	must(t, write())
	var flushed bool
	must(t, admin.QueryRowContext(t.Context(), "SELECT pg_current_wal_flush_lsn() > $1::pg_lsn", before).Scan(&flushed))
	if !flushed {
		t.Errorf("%s was acknowledged and may be lost in a crash", name)
	}
}
