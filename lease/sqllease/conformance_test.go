package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// emptying is a store whose rows a test can delete.
type emptying struct {
	*sqllease.Store
	pool *sql.DB
}

var _ leasetest.Emptier = emptying{}

func (s emptying) Empty(ctx context.Context) error {
	_, err := s.pool.ExecContext(ctx, "DELETE FROM "+s.Table())
	return err
}

func TestEveryDatabaseKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		dialect := sqllease.Dialect(target.Dialect)
		for name, prepare := range map[string]func(*sql.DB) []sqllease.Option{
			"dedicated": func(*sql.DB) []sqllease.Option { return []sqllease.Option{sqllease.WithDedicatedPool()} },
			"shared": func(pool *sql.DB) []sqllease.Option {
				pool.SetMaxOpenConns(2)
				return nil
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dsn := target.DSN(t)
				var last atomic.Int64
				leasetest.Run(t, func(t *testing.T) func() lease.Store {
					table := sqllease.WithTable(fmt.Sprint("nodes_", last.Add(1)))
					return func() lease.Store {
						pool := openPool(t, target, dsn)
						return emptying{newStore(t, pool, dialect, append(prepare(pool), table)...), pool}
					}
				})
			})
		}
	})
}

func TestTheContractHoldsInMemory(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(t *testing.T) func() lease.Store {
		pool := openPool(t, dbtest.Targets()[0], ":memory:")
		pool.SetMaxOpenConns(1)
		return func() lease.Store { return emptying{newStore(t, pool, sqllease.SQLite), pool} }
	})
}
