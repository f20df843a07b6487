package gormlease_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	mysqldriver "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// After SET GLOBAL autocommit=0 only the connections that are opened later are different, so it is
// not enough to ask once. The test does the same to its own connections, because other tests use the
// server too.
func TestASwapOnARenewedConnectionWithoutAutocommitIsCommitted(t *testing.T) {
	t.Parallel()
	eachMySQL(t, func(t *testing.T, target dbtest.Target) {
		for name, shared := range map[string]bool{"its own connection": false, "a shared pool": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dsn := target.DSN(t)
				d := &autocommitDriver{}
				config := mysqldriver.Config{DSN: dsn, DriverName: d.register()}
				if shared {
					pool, err := sql.Open(config.DriverName, dsn)
					must(t, err)
					t.Cleanup(func() { must(t, pool.Close()) })
					config = mysqldriver.Config{Conn: pool}
				}
				db, err := gorm.Open(mysqldriver.New(config), &gorm.Config{Logger: logger.Discard})
				must(t, err)
				application := poolOf(t, db)
				if !shared {
					t.Cleanup(func() { must(t, application.Close()) })
				}
				store, watcher := newStore(t, db), newStore(t, target.OpenDSN(t, dsn, nil))
				r := storetest.Create(t, store, storetest.First(1))

				d.off.Store(true)
				pool, _ := store.Pool()
				pool.SetMaxIdleConns(0) // closes the connection
				pool.SetMaxIdleConns(1)
				for range 3 {
					r = storetest.Swap(t, store, r, storetest.Renew(r))
					must(t, storetest.Holds(t, watcher, r))
					must(t, storetest.Holds(t, store, r))
				}
				second := storetest.Create(t, store, storetest.First(2))
				must(t, storetest.Holds(t, watcher, r, second))
			})
		}
	})
}

// autocommitDriver is the driver of MySQL, whose connections do not commit by themselves when off.
type autocommitDriver struct{ off atomic.Bool }

// register returns the name of the driver.
func (d *autocommitDriver) register() string {
	name := "mysql-" + rand.Text()
	sql.Register(name, d)
	return name
}

func (d *autocommitDriver) Open(dsn string) (driver.Conn, error) {
	conn, err := mysql.MySQLDriver{}.Open(dsn)
	if err != nil || !d.off.Load() {
		return conn, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(context.Background(), "SET autocommit = 0", nil)
	return conn, err
}

// A pool of one connection takes BEGIN, and ROLLBACK some statements later.
func TestAnAcknowledgedSwapIsNoPartOfARawTransaction(t *testing.T) {
	t.Parallel()
	onPool := func(name string) func(t *testing.T) *gorm.DB {
		return func(t *testing.T) *gorm.DB { return shared(t, target(name), 1) }
	}
	opens := map[string]func(t *testing.T) *gorm.DB{
		"sqlite, by its DSN": func(t *testing.T) *gorm.DB {
			return target(sqlite).Open(t, nil, dbtest.MaxOpenConns(1))
		},
		"sqlite, by its pool": onPool(sqlite),
		"sqlite in memory":    func(t *testing.T) *gorm.DB { return inMemory(t, ":memory:", 1) },
		// pgx itself closes a connection that comes back inside a transaction; other drivers do not.
		"postgres": func(t *testing.T) *gorm.DB {
			application := poolOf(t, target(postgres).Open(t, nil))
			pool := sql.OpenDB(counting{application, &statements{}})
			pool.SetMaxOpenConns(1)
			t.Cleanup(func() { must(t, pool.Close()) })
			db, err := gorm.Open(dialectorOn(target(postgres), pool), &gorm.Config{Logger: logger.Discard})
			must(t, err)
			return db
		},
	}
	for _, target := range dbtest.ServersOf("mysql") {
		opens[target.Name] = onPool(target.Name)
	}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			must(t, db.AutoMigrate(&order{}))
			store := newStore(t, db)
			stored := storetest.Create(t, store, storetest.First(1))
			pool := poolOf(t, db)
			for _, statements := range [][]string{{"BEGIN"}, {"BEGIN", "INSERT INTO orders (id) VALUES (1)"}} {
				for _, statement := range statements {
					_, err := pool.ExecContext(t.Context(), statement)
					must(t, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				next := storetest.Renew(stored)
				ok, err := store.Swap(ctx, stored, next)
				cancel()
				if ok && err == nil {
					stored = next
				}
				_, err = pool.ExecContext(t.Context(), "ROLLBACK")
				must(t, err)
				// After an error the swap may have been done, but never after false.
				if records, err := store.List(limited(t)); err != nil || len(records) != 1 {
					t.Fatal(records, err)
				} else if records[0] == next {
					stored = next
				} else if records[0] != stored {
					t.Fatalf("the swap to version %d was acknowledged, and the record is %+v", stored.Version, records[0])
				}
				stored = storetest.Swap(t, store, stored, storetest.Renew(stored))
			}
			var orders int64
			must(t, db.Model(&order{}).Count(&orders).Error)
			if orders > 0 {
				t.Errorf("%d rows of the application's transaction were committed", orders)
			}
			must(t, storetest.Holds(t, newStore(t, db, gormlease.WithTable("snowflake_nodes")), stored))
		})
	}
}
