package sqllease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// PgBouncer in transaction mode gives each transaction any of its connections to the server. What a
// driver has prepared on one of them is unknown on the others, or is there already.
func TestBehindPgBouncerTheErrorNamesTheParameterThatWorks(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	dsn := dbtest.PgBouncer(t, target.DSN(t), "transaction")
	var err error
	for i := 0; i < 3 && err == nil; i++ { // the first of them prepares its statements
		var store *gormlease.Store
		if store, err = gormlease.New(target.OpenDSN(t, dsn, nil)); err == nil {
			t.Cleanup(func() { must(t, store.Close()) })
			_, err = store.List(t.Context())
		}
	}
	complains(t, err, sqllease.ErrDatabase, "PgBouncer", "default_query_exec_mode=exec", "42P05")
	if snowflakeplugin.Retryable(err) {
		t.Error("the error counts as one that heals by itself")
	}
	var denied *pgconn.PgError
	if !errors.As(err, &denied) {
		t.Errorf("the error %q does not wrap that of the driver", err)
	}
	err = target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New())
	complains(t, err, gormlease.ErrDatabase, "default_query_exec_mode=exec")

	// The note of a database whose leases lie elsewhere goes the same way.
	leases, err := gormlease.New(dbtest.Named("sqlite").Open(t, nil))
	must(t, err)
	t.Cleanup(func() { must(t, leases.Close()) })
	for i := 0; i < 3 && (i == 0 || err == nil); i++ {
		plugin := snowflakeplugin.New(snowflakeplugin.WithLease(leases),
			snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
		t.Cleanup(func() { must(t, plugin.Close(context.Background())) })
		err = target.OpenDSN(t, dsn, nil).Use(plugin)
	}
	complains(t, err, gormlease.ErrDatabase, "default_query_exec_mode=exec", "snowflake_authority")
	if errors.Is(err, snowflakeplugin.ErrAuthority) || snowflakeplugin.Retryable(err) {
		t.Errorf("the error counts as one of another authority, or as one that heals by itself: %v", err)
	}
}

func TestTheContractHoldsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	dsn := dbtest.PgBouncer(t, target.DSN(t), "transaction")
	for _, mode := range nightly.Pick([]string{"exec"}, []string{"exec", "simple_protocol"}) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn := dsn + "&default_query_exec_mode=" + mode
			var last atomic.Int64
			leasetest.Run(t, func(t *testing.T) func() lease.Store {
				table := sqllease.WithTable(fmt.Sprint(mode, last.Add(1)))
				return func() lease.Store {
					pool := openPool(t, target, dsn)
					return newStore(t, pool, sqllease.PostgreSQL, sqllease.WithDedicatedPool(), table)
				}
			})
		})
	}
	shared := newStore(t, openPool(t, target, dsn+"&default_query_exec_mode=exec"), sqllease.PostgreSQL)
	must(t, storetest.Holds(t, shared, storetest.Create(t, shared, storetest.First(1))))
}

// In statement mode it lets no transaction through. The table is made in one, so somebody has to make it by another
// way.
func TestTheContractHoldsBehindPgBouncerInStatementModeWhereTheTableIsThere(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	direct := target.DSN(t)
	dsn := dbtest.PgBouncer(t, direct, "statement") + "&default_query_exec_mode=exec"
	_, err := gormlease.New(target.OpenDSN(t, dsn, nil))
	complains(t, err, sqllease.ErrDatabase, "PgBouncer", "statement mode")
	if errors.Is(err, sqllease.ErrTable) || snowflakeplugin.Retryable(err) {
		t.Errorf("the table is blamed, or the error counts as one that heals by itself: %v", err)
	}
	for _, way := range []string{direct, dsn} { // The first one also makes the note.
		plugin := snowflakeplugin.New()
		must(t, target.OpenDSN(t, way, nil).Use(plugin))
		_, err = plugin.NextID(t.Context())
		must(t, err)
		must(t, plugin.Close(context.Background()))
	}

	var last atomic.Int64
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		table := sqllease.WithTable(fmt.Sprint("statement", last.Add(1)))
		must(t, newStore(t, openPool(t, target, direct), sqllease.PostgreSQL, table).Close())
		return func() lease.Store {
			return newStore(t, openPool(t, target, dsn), sqllease.PostgreSQL, sqllease.WithDedicatedPool(), table)
		}
	})
}
