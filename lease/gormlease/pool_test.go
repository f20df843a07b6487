package gormlease_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	mysqldriver "gorm.io/driver/mysql"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestAStoreOpensOneConnectionAndClosesIt(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := target.Open(t, nil, dbtest.MaxOpenConns(1))
			store, err := gormlease.New(db)
			must(t, err)
			var all sync.WaitGroup
			errs := make([]error, 20)
			for i := range errs {
				all.Go(func() {
					_, errs[i] = store.Swap(limited(t), lease.Record{}, storetest.First(int64(i)))
				})
			}
			all.Wait()
			must(t, errors.Join(errs...))
			if n := len(target.Connections(t, db)); n != 1 {
				t.Errorf("the store has %d connections", n)
			}
			// The second one is for probes, and the third for later requests when it takes long to connect.
			if pool, own := store.Pool(); !own || pool.Stats().MaxOpenConnections != 3 {
				t.Errorf("the pool is the store's: %t, with a limit of %d", own, pool.Stats().MaxOpenConnections)
			}
			must(t, store.Close())
			for ctx := limited(t); len(target.Connections(t, db)) > 0; { // the server hears of it a moment later
				if ctx.Err() != nil {
					t.Fatal("the connection was left open")
				}
			}
		})
	}
}

func TestAStoreOnAPoolThatIsSharedLeavesItOpen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for conns, hint := range map[int]bool{1: true, 2: target.Dialect == "sqlite"} {
			db := shared(t, target, conns)
			pool := poolOf(t, db)
			store, err := gormlease.New(db)
			must(t, err)
			if limit := pool.Stats().MaxOpenConnections; limit != conns {
				t.Errorf("the limit of the pool is now %d, not %d", limit, conns)
			}
			if (store.SpanHint() > 0) != hint {
				t.Errorf("on %d connections the store asks for a span of %v", conns, store.SpanHint())
			}
			must(t, store.Close())
			must(t, pool.PingContext(t.Context()))
		}
	})
}

// The drivers write into their dialectors; go test -race sees it.
func TestTheApplicationsDialectorIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			db := target.OpenDSN(t, dsn, nil)
			var config any
			var values func() any
			switch d := db.Dialector.(type) {
			case *mysqldriver.Dialector:
				d.DontSupportRenameIndex, d.ServerVersion = false, "the application's"
				config, values = d.Config, func() any { return *d.Config }
			case *pgdriver.Dialector:
				values = func() any { return fmt.Sprint(*d.Config) }
			}
			before, callbacks := values(), db.Callback()
			newStore(t, db)
			if config != nil && before != values() {
				t.Errorf("the dialector was %+v and is %+v", before, values())
			}
			if config == nil && before != values() {
				t.Errorf("the dialector was %v and is %v", before, values())
			}
			if db.Callback() != callbacks {
				t.Error("the callbacks are others")
			}

			start := make(chan struct{})
			var all sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				all.Go(func() {
					<-start
					if i%2 == 0 {
						store, err := gormlease.New(db)
						if err == nil {
							err = store.Close()
						}
						errs[i] = err
						return
					}
					errs[i] = db.Session(&gorm.Session{}).AutoMigrate(&order{})
					if db.Migrator().HasTable("snowflake_nodes") {
						errs[i] = errors.Join(errs[i], db.Table("snowflake_nodes").Find(&[]map[string]any{}).Error)
					}
				})
			}
			close(start)
			all.Wait()
			for i := 0; i < len(errs); i += 2 {
				must(t, errs[i])
			}
		})
	}
}

// A dialector of the application's own is used as well as can be.
func TestADialectorThatIsWrappedStillOpensAConnection(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			inner := target.Dialector(dsn)
			wrapped := []gorm.Dialector{hidden{inner}} // nothing is known of it
			own := []bool{false}
			switch d := inner.(type) {
			case *mysqldriver.Dialector:
				wrapped, own = append(wrapped, embedding{d}, *d), append(own, true, true)
			case *pgdriver.Dialector:
				wrapped, own = append(wrapped, &pgEmbedding{d}, *d), append(own, true, true)
			}
			for i, d := range wrapped {
				db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard})
				must(t, err)
				pool := poolOf(t, db)
				pool.SetMaxOpenConns(1)
				store := newStore(t, db)
				if opened := store.SpanHint() == 0; opened != own[i] {
					t.Errorf("%T: a connection of its own: %t, want %t", d, opened, own[i])
				}
				must(t, storetest.Holds(t, store))
				must(t, store.Close())
				must(t, pool.Close())
			}
		})
	}
}

type (
	hidden      struct{ gorm.Dialector }
	embedding   struct{ *mysqldriver.Dialector }
	pgEmbedding struct{ *pgdriver.Dialector }
)
