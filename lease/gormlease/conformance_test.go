package gormlease_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	mysqldriver "gorm.io/driver/mysql"
	pgdriver "gorm.io/driver/postgres"
	sqlitedriver "gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestEveryDatabaseKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		leasetest.Run(t, func(t *testing.T) func() lease.Store {
			dsn := target.DSN(t)
			return func() lease.Store { return emptied(t, target.OpenDSN(t, dsn, nil)) }
		})
	})
}

// emptying is a store whose rows a test can delete.
type emptying struct {
	*gormlease.Store
	db *gorm.DB
}

var _ leasetest.Emptier = emptying{}

func (s emptying) Empty(ctx context.Context) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { // the session may commit nothing by itself
		return tx.Exec("DELETE FROM " + s.Table()).Error
	})
}

func emptied(t *testing.T, db *gorm.DB, opts ...gormlease.Option) emptying {
	t.Helper()
	return emptying{newStore(t, db, opts...), db}
}

// tables names a table for each clause. To make a database for each would take longer.
func tables() func() gormlease.Option {
	var last atomic.Int64
	return func() gormlease.Option { return gormlease.WithTable(fmt.Sprint("nodes_", last.Add(1))) }
}

// The settings of an application's connections are none of the store's business.
func TestTheContractHoldsInMySQLSettings(t *testing.T) {
	t.Parallel()
	eachMySQL(t, func(t *testing.T, target dbtest.Target) {
		const interpolated = "interpolated, in Latin 1, lax"
		latin := "latin1_swedish_ci"
		if target.IsTiDB(t) {
			latin = "latin1_bin" // the only one that it has
		}
		for name, params := range map[string][]dbtest.Option{
			"found rows, local times, without autocommit": {
				dbtest.DSNParam("clientFoundRows", "true"), dbtest.DSNParam("parseTime", "false"),
				dbtest.DSNParam("loc", "Asia/Kathmandu"), dbtest.DSNParam("time_zone", "'-03:30'"),
				dbtest.DSNParam("autocommit", "0"), dbtest.DSNParam("sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES'"),
				dbtest.DSNParam("completion_type", "'CHAIN'"), dbtest.DSNParam("sql_select_limit", "2"),
			},
			interpolated: {
				dbtest.DSNParam("interpolateParams", "true"), dbtest.DSNParam("charset", "latin1"),
				dbtest.DSNParam("collation", latin), dbtest.DSNParam("sql_mode", "''"),
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name == interpolated {
					nightly.Only(t, "it is the whole contract once more; the other settings remain")
				}
				dsn, table := target.DSN(t), tables()
				leasetest.Run(t, func(t *testing.T) func() lease.Store {
					mine := table()
					return func() lease.Store { return emptied(t, target.OpenDSN(t, dsn, nil, params...), mine) }
				})
			})
		}
	})
}

func TestTheContractHoldsOnPoolsThatAreShared(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, table := target.DSN(t), tables()
			leasetest.Run(t, func(t *testing.T) func() lease.Store {
				mine := table()
				return func() lease.Store {
					pool := poolOf(t, target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1)))
					db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{})
					must(t, err)
					return emptied(t, db, mine)
				}
			})
		})
	}
}

func TestTheContractHoldsInPostgresSettings(t *testing.T) {
	t.Parallel()
	const simple = "the simple protocol"
	target := target(postgres)
	for name, settings := range map[string]url.Values{
		"a time zone and a strict isolation": {
			"timezone": {"Asia/Kathmandu"}, "default_transaction_isolation": {"repeatable read"},
			"datestyle": {"SQL, DMY"}, "extra_float_digits": {"-3"},
		},
		simple: {"default_query_exec_mode": {"simple_protocol"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == simple {
				nightly.Only(t, "it is the whole contract once more; the other settings remain")
			}
			dsn, table := withSettings(t, target.DSN(t), settings), tables()
			leasetest.Run(t, func(t *testing.T) func() lease.Store {
				mine := table()
				return func() lease.Store { return emptied(t, target.OpenDSN(t, dsn, nil), mine) }
			})
		})
	}
}

func TestTheContractHoldsInMemory(t *testing.T) {
	t.Parallel()
	for name, conns := range map[string]int{"a private one": 1, "a shared one": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if conns == 1 {
				nightly.Only(t, "sqllease runs the same; the database in memory that several connections share remains")
			}
			leasetest.Run(t, func(t *testing.T) func() lease.Store {
				dsn := ":memory:"
				if conns > 1 {
					dsn = "file:" + url.PathEscape(t.Name()) + "?mode=memory&cache=shared"
				}
				db, err := gorm.Open(sqlitedriver.Open(dsn), &gorm.Config{})
				must(t, err)
				pool, err := db.DB()
				must(t, err)
				pool.SetMaxOpenConns(conns)
				t.Cleanup(func() { must(t, pool.Close()) })
				return func() lease.Store { return emptied(t, db) }
			})
		})
	}
}

// dialectorOn is a dialector that was made from a pool.
func dialectorOn(target dbtest.Target, pool gorm.ConnPool) gorm.Dialector {
	switch target.Dialect {
	case "postgres":
		return pgdriver.New(pgdriver.Config{Conn: pool})
	case "mysql":
		return mysqldriver.New(mysqldriver.Config{Conn: pool})
	default:
		return sqlitedriver.New(sqlitedriver.Config{Conn: pool})
	}
}

// withSettings sets settings of a PostgreSQL session.
func withSettings(t *testing.T, dsn string, settings url.Values) string {
	t.Helper()
	if !strings.Contains(dsn, "://") {
		for key, values := range settings {
			dsn += " " + key + "='" + values[0] + "'"
		}
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN of the tests cannot be read") // without the error, which quotes it
	}
	query := u.Query()
	for key, values := range settings {
		query[key] = values
	}
	// GORM looks for the time zone in the DSN as it stands there.
	u.RawQuery = strings.NewReplacer("+", "%20", "%2F", "/").Replace(query.Encode())
	return u.String()
}
