package sqllease_test

import (
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

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
						return newStore(t, pool, dialect, append(prepare(pool), table)...)
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
		return func() lease.Store { return newStore(t, pool, sqllease.SQLite) }
	})
}
