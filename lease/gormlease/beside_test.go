package gormlease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

type order struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false"`
	Note string
}

func TestNothingOfTheApplicationsGORMComesIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		for name, cfg := range map[string]*gorm.Config{
			"DryRun":                 {DryRun: true},
			"PrepareStmt":            {PrepareStmt: true},
			"SkipDefaultTransaction": {SkipDefaultTransaction: true},
			"QueryFields":            {QueryFields: true, AllowGlobalUpdate: true, TranslateError: true},
		} {
			t.Run(name, func(t *testing.T) {
				recorder := dbtest.NewRecorder()
				cfg.Logger = recorder
				db := target.OpenDSN(t, dsn, cfg)
				elsewhere := target.Open(t, nil)
				misdirect(t, db, elsewhere)
				recorder.Reset()
				store := newStore(t, db, gormlease.WithTable("nodes of "+name))
				r := storetest.Create(t, store, storetest.First(1))
				must(t, storetest.Holds(t, store, storetest.Swap(t, store, r, storetest.Renew(r))))
				if said := recorder.Statements(); len(said) > 0 {
					t.Errorf("the application's logger saw %q", said)
				}
				if prepared, ok := db.ConnPool.(*gorm.PreparedStmtDB); ok && len(prepared.Stmts.Keys()) > 0 {
					t.Errorf("the application's statements are now %q", prepared.Stmts.Keys())
				}
				if elsewhere.Migrator().HasTable("nodes of " + name) {
					t.Error("the table was made where a callback led to")
				}
			})
		}
	})
}

// misdirect registers callbacks as plugins do that choose among databases.
func misdirect(t *testing.T, db, elsewhere *gorm.DB) {
	t.Helper()
	turn := func(db *gorm.DB) { db.Statement.ConnPool = elsewhere.ConnPool }
	c := db.Callback()
	must(t, c.Create().Before("*").Register("turn", turn))
	must(t, c.Query().Before("*").Register("turn", turn))
	must(t, c.Update().Before("*").Register("turn", turn))
	must(t, c.Row().Before("*").Register("turn", turn))
	must(t, c.Raw().Before("*").Register("turn", turn))
}

func TestAStoreMadeFromATransactionIsNoPartOfIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		for _, cfg := range []*gorm.Config{{}, {PrepareStmt: true}} {
			db := target.OpenDSN(t, dsn, cfg)
			newStore(t, db) // the table, without which New would have to wait on SQLite
			var store *gormlease.Store
			undone := errors.New("the application changes its mind")
			err := db.Transaction(func(tx *gorm.DB) (err error) {
				store, err = gormlease.New(tx.Session(&gorm.Session{PrepareStmt: true}))
				return errors.Join(err, undone)
			})
			if !errors.Is(err, undone) || store == nil {
				t.Fatal(err)
			}
			must(t, storetest.Holds(t, store))
			r := storetest.Create(t, store, storetest.First(1))
			must(t, storetest.Holds(t, store, r))
			must(t, store.Close())
			exec(t, db, "DELETE FROM snowflake_nodes")
		}
	})
}

func TestAHandleThatWasTurnedElsewhereStillLeadsToItsOwnDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db, elsewhere := target.Open(t, nil), target.Open(t, nil)
		turned := db.Session(&gorm.Session{Context: t.Context()})
		turned.Statement.ConnPool = elsewhere.ConnPool
		newStore(t, turned)
		if !db.Migrator().HasTable("snowflake_nodes") || elsewhere.Migrator().HasTable("snowflake_nodes") {
			t.Error("the table was made elsewhere")
		}
	})
}

// openTransactions begins transactions that write, as many as the application has connections.
func openTransactions(t *testing.T, db *gorm.DB, n int) []*gorm.DB {
	t.Helper()
	txs := make([]*gorm.DB, n)
	for i := range txs {
		txs[i] = db.Begin()
		must(t, txs[i].Error)
		must(t, txs[i].Create(&order{ID: int64(i)}).Error)
	}
	return txs
}

func TestAnApplicationThatHasAllItsConnectionsInTransactionsDoesNotHoldUpTheStore(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		for _, conns := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db := target.Open(t, nil, dbtest.MaxOpenConns(conns))
				must(t, db.AutoMigrate(&order{}))
				store := newStore(t, db)
				r := storetest.Create(t, store, storetest.First(1))
				txs := openTransactions(t, db, conns)
				now, err := store.Now(limited(t))
				must(t, err)
				if now.Before(r.UpdatedAt.Add(-patience)) {
					t.Errorf("the clock shows %v", now)
				}
				next := storetest.Swap(t, store, r, storetest.Renew(r))
				newStore(t, db) // not even another one is held up
				for _, tx := range txs {
					must(t, tx.Rollback().Error)
				}
				// And what the application undoes is not what the store did.
				must(t, storetest.Holds(t, store, next))
				if store.SpanHint() != 0 {
					t.Errorf("the store asks for a span of %v", store.SpanHint())
				}
			})
		}
	}
}

// Where the only writer, or the only connection, is taken by the application.
func TestAStoreThatHasToWaitForATransactionGivesUpWithItsContextAndGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	opens := map[string]func(t *testing.T) *gorm.DB{
		"sqlite": func(t *testing.T) *gorm.DB { return target(sqlite).Open(t, nil) },
		"sqlite, one connection": func(t *testing.T) *gorm.DB {
			return target(sqlite).Open(t, nil, dbtest.MaxOpenConns(1))
		},
		"a private database in memory": func(t *testing.T) *gorm.DB { return inMemory(t, ":memory:", 3) },
		"a shared database in memory": func(t *testing.T) *gorm.DB {
			return inMemory(t, "file:waits?mode=memory&cache=shared", 3)
		},
	}
	for name, target := range oneServer(t) {
		opens[name+", one shared connection"] = func(t *testing.T) *gorm.DB { return shared(t, target, 1) }
	}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			must(t, db.AutoMigrate(&order{}))
			store := newStore(t, db)
			if hint := store.SpanHint(); hint != 10*time.Minute {
				t.Errorf("the store asks for a span of %v", hint)
			}
			r := storetest.Create(t, store, storetest.First(1))

			tx := openTransactions(t, db, 1)[0]
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			ok, err := store.Swap(ctx, r, storetest.Renew(r))
			complains(t, err, context.DeadlineExceeded, "transaction", "node 1", "snowflake_nodes")
			if ok {
				t.Error("a swap was done and failed")
			}
			// The busy timeout of the database is 10 s; nothing waits for that.
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("the context ended after 300ms, the call after %v", took)
			}
			waiting := make(chan error, 1)
			go func() {
				_, err := store.Now(limited(t))
				waiting <- err
			}()
			must(t, tx.Create(&order{ID: 99}).Error) // the transaction goes on undisturbed
			must(t, tx.Commit().Error)
			must(t, <-waiting)

			// The first swap may have been done meanwhile, or it was not and never will be.
			deadline := time.Now().Add(patience)
			for {
				records, err := store.List(limited(t))
				must(t, err)
				ok, err = store.Swap(limited(t), records[0], storetest.Renew(records[0]))
				if ok || time.Now().After(deadline) {
					break
				}
				must(t, err)
			}
			if !ok {
				t.Error("the store did not go on")
			}
			var n int64
			for range 8 { // whichever connection it is: none leads to an empty database
				must(t, db.Model(&order{}).Count(&n).Error)
			}
			if n != 2 {
				t.Errorf("the application has %d rows", n)
			}
		})
	}
}

// Each connection to a private database in memory is a database of its own. A pool keeps two idle ones, so if
// the store left two of its own there, the pool would close the one with the tables of the application.
func TestTheStoreLeavesNoEmptyDatabaseInMemoryBehind(t *testing.T) {
	t.Parallel()
	db := inMemory(t, ":memory:", 4)
	must(t, db.AutoMigrate(&order{}))
	store := newStore(t, db)
	r := storetest.Create(t, store, storetest.First(1))
	tx := openTransactions(t, db, 1)[0]
	var asked sync.WaitGroup
	for range 8 {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			for ctx.Err() == nil {
				_, now := store.Now(ctx)
				_, list := store.List(ctx)
				_, swap := store.Swap(ctx, r, storetest.Renew(r))
				if now == nil || list == nil || swap == nil {
					t.Errorf("in a database that a transaction has to itself the errors are %v, %v, %v", now, list, swap)
				}
			}
		})
	}
	asked.Wait()
	must(t, tx.Commit().Error)
	records, err := store.List(limited(t))
	must(t, err)
	if len(records) != 1 {
		t.Errorf("the records are %+v", records)
	}
	var n int64
	must(t, db.Model(&order{}).Count(&n).Error)
	if n != 1 {
		t.Errorf("the application has %d rows", n)
	}
}

func TestWhatTheApplicationUndoesIsNotWhatTheStoreDid(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		must(t, db.AutoMigrate(&order{}))
		store := newStore(t, db)
		r := storetest.Create(t, store, storetest.First(1))
		tx := db.Begin()
		must(t, tx.Error)
		done := make(chan error, 1)
		ctx := limited(t)
		go func() {
			ok, err := store.Swap(ctx, r, storetest.Renew(r))
			if err == nil && !ok {
				err = errors.New("refused")
			}
			done <- err
		}()
		must(t, tx.Create(&order{ID: 1}).Error)
		must(t, tx.Rollback().Error)
		must(t, <-done)
		must(t, storetest.Holds(t, store, storetest.Renew(r)))
	})
}

// The transaction has the connection, and a second one would be a second, empty database.
func TestADatabaseInMemoryIsNotLeftForAnotherOne(t *testing.T) {
	t.Parallel()
	db := inMemory(t, ":memory:", 0)
	must(t, db.AutoMigrate(&order{}))
	store := newStore(t, db)
	r := storetest.Create(t, store, storetest.First(1))
	tx := openTransactions(t, db, 1)[0]
	ends(t, func(ctx context.Context) error { // after it has tried others
		_, err := store.Swap(ctx, r, storetest.Renew(r))
		return err
	})
	must(t, tx.Commit().Error)
	ctx := limited(t)
	storetest.Swap(t, store, r, storetest.Renew(r))
	must(t, storetest.Holds(t, store, storetest.Renew(r)))
	for pool := poolOf(t, db); pool.Stats().OpenConnections != 1; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d connections are open", pool.Stats().OpenConnections)
		}
	}
	// A table that somebody has dropped is not waited for.
	exec(t, db, "DROP TABLE snowflake_nodes")
	_, err := store.List(ctx)
	if err == nil || ctx.Err() != nil {
		t.Errorf("without the table List returned %v", err)
	}
	must(t, db.First(&order{}).Error)
}
