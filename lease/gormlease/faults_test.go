package gormlease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestTheStoreComesBackAfterItsConnectionWasKilled(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			store := newStore(t, target.OpenDSN(t, dsn, nil))
			other := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
			r := storetest.Create(t, store, storetest.First(1))
			for range 3 {
				killOthers(t, target, other)
				// The driver may notice at once, or only by an error; then it is over by the next call.
				ok, err := store.Swap(limited(t), r, storetest.Renew(r))
				if err != nil {
					records, err := store.List(limited(t))
					must(t, err)
					if records[0] == r { // the request was lost
						storetest.Swap(t, store, r, storetest.Renew(r))
					}
				} else if !ok {
					t.Fatal("the swap was refused")
				}
				r = storetest.Renew(r)
				must(t, storetest.Holds(t, store, r))
			}
		})
	}
}

// killOthers ends all connections to the database of db but its own.
func killOthers(t *testing.T, target dbtest.Target, db *gorm.DB) {
	t.Helper()
	ids := target.Connections(t, db)
	if len(ids) == 0 {
		t.Fatal("the store has no connection")
	}
	for _, id := range ids {
		kill(t, target, db, id)
	}
}

func kill(t *testing.T, target dbtest.Target, db *gorm.DB, id int64) {
	t.Helper()
	statement := "KILL %d" // MySQL takes no parameter here
	if target.Dialect == "postgres" {
		statement = "SELECT pg_terminate_backend(%d)"
	}
	exec(t, db, fmt.Sprintf(statement, id))
}

// As after a fail-over, when the server that the connection leads to has become a replica.
func TestAConnectionThatOnlyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if target.Dialect == "mysql" && target.IsTiDB(t) {
				t.Skip("no connection of TiDB only reads")
			}
			store := newStore(t, target.Open(t, nil))
			r := storetest.Create(t, store, storetest.First(1))
			readOnly := "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
			if target.Dialect == "mysql" {
				readOnly = "SET SESSION TRANSACTION READ ONLY"
			}
			pool, _ := store.Pool()
			_, err := pool.ExecContext(t.Context(), readOnly)
			must(t, err)
			if _, err := store.Swap(limited(t), r, storetest.Renew(r)); err == nil {
				t.Fatal("the connection writes")
			}
			must(t, storetest.Holds(t, store, storetest.Swap(t, store, r, storetest.Renew(r))))
		})
	}
}

// A program may start while its DSN leads to a replica: in a failover, or through a proxy that has not noticed one. No
// statement that somebody runs there helps, and by the next try the server may take writes.
func TestAServerThatTakesNoWritesIsNoFaultOfTheTable(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, off := "SET default_transaction_read_only = on", "RESET default_transaction_read_only"
			if target.Dialect == "mysql" {
				if !target.IsMySQL(t) {
					t.Skip("MariaDB is read-only as a whole server, which others use")
				}
				on, off = "READ ONLY = 1", "READ ONLY = 0"
			}
			for _, made := range []bool{true, false} {
				dsn := target.DSN(t)
				admin := target.OpenDSN(t, dsn, nil)
				if made {
					newStore(t, target.OpenDSN(t, dsn, nil))
				}
				alter := "ALTER DATABASE " + admin.Migrator().CurrentDatabase() + " "
				thaw := func() {
					must(t, admin.Connection(func(conn *gorm.DB) error {
						if target.Dialect == "postgres" {
							exec(t, conn, "SET default_transaction_read_only = off")
						}
						return conn.Exec(alter + off).Error
					}))
				}
				exec(t, admin, alter+on)
				t.Cleanup(thaw) // others may get the database
				db := target.OpenDSN(t, dsn, nil)
				_, err := gormlease.New(db)
				complains(t, err, lease.ErrStore, "takes no writes", "replica")
				if errors.Is(err, gormlease.ErrTable) || !snowflakeplugin.Retryable(err) || strings.Contains(err.Error(), "CREATE TABLE IF") {
					t.Errorf("with a table %t: the table is blamed: %v", made, err)
				}
				thaw()
				newStore(t, target.OpenDSN(t, dsn, nil))
			}
		})
	}
}

// A program that starts in a failover may lose its connection at any request.
func TestAConnectionThatIsLostAtTheStartIsNoFaultOfTheTable(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if target.Dialect == "mysql" && target.IsTiDB(t) {
				t.Skip("TiDB locks no tables")
			}
			dsn := target.DSN(t)
			newStore(t, target.OpenDSN(t, dsn, nil))
			// Whoever reads the table goes on, and whoever tries to write waits.
			holder, admin := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1)), target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
			lock, waiting := "LOCK TABLES snowflake_nodes READ", "SELECT ID FROM information_schema.processlist "+
				"WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table%'"
			if target.Dialect == "postgres" {
				exec(t, holder, "BEGIN")
				lock, waiting = "LOCK TABLE snowflake_nodes IN SHARE MODE", "SELECT pid FROM pg_stat_activity "+
					"WHERE datname = current_database() AND wait_event_type = 'Lock'"
			}
			exec(t, holder, lock)
			opened := make(chan error)
			db := target.OpenDSN(t, dsn, nil)
			go func() {
				_, err := gormlease.New(db)
				opened <- err
			}()
			var id int64
			for id == 0 {
				must(t, admin.Raw(waiting).Scan(&id).Error)
			}
			kill(t, target, admin, id)
			err := <-opened
			complains(t, err, lease.ErrStore, "trying to write")
			if errors.Is(err, gormlease.ErrTable) || !snowflakeplugin.Retryable(err) {
				t.Errorf("the table is blamed: %v", err)
			}
		})
	}
}

// A node of Galera that is cut off from the others, or has just come back, refuses what is about a table with this
// error, and answers everything else.
func TestANodeOfGaleraThatIsNotPreparedIsNoFaultOfTheTable(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("mariadb")
	for _, table := range []string{"snowflake_nodes", "snowflake_authority"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			db := target.OpenDSN(t, dsn, nil)
			plugin := snowflakeplugin.New()
			must(t, db.Use(plugin))
			must(t, plugin.Close(t.Context()))
			for _, statement := range []string{
				"CREATE FUNCTION prepared() RETURNS INT BEGIN SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047, " +
					"MESSAGE_TEXT = 'WSREP has not yet prepared node for application use'; RETURN 1; END",
				"RENAME TABLE " + table + " TO hidden",
				"CREATE VIEW " + table + " AS SELECT * FROM hidden WHERE prepared() = 1",
			} {
				exec(t, db, statement)
			}
			err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New())
			complains(t, err, lease.ErrStore, "WSREP has not yet prepared node")
			if !snowflakeplugin.Retryable(err) || strings.Contains(err.Error(), "CREATE TABLE") {
				t.Errorf("the table is blamed: %v", err)
			}
		})
	}
}

func TestAStoreWhoseTableIsLockedGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := target.Open(t, nil)
			store := newStore(t, db)
			r := storetest.Create(t, store, storetest.First(1))
			tx := db.Begin()
			must(t, tx.Error)
			exec(t, tx, "UPDATE snowflake_nodes SET layout = layout WHERE node = 1")
			if target.Dialect == "mysql" { // where such an update locks nothing
				exec(t, tx, "SELECT * FROM snowflake_nodes FOR UPDATE")
			}

			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the process ends")
			time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
			began := time.Now()
			_, err := store.Swap(ctx, r, storetest.Renew(r))
			complains(t, err, why, "no answer in time", "lock", "node 1")
			if took := time.Since(began); took > patience {
				t.Errorf("it took %v", took)
			}
			// Reading is not held up, nor is the next request once the lock is gone.
			must(t, storetest.Holds(t, store, r))
			must(t, tx.Rollback().Error)
			records, err := store.List(limited(t))
			must(t, err)
			for records[0].Version < 3 { // the first one may still be done
				_, err := store.Swap(limited(t), records[0], storetest.Renew(records[0]))
				must(t, err)
				records, err = store.List(limited(t))
				must(t, err)
			}
		})
	}
}

// Transactions that cannot be put in an order are rolled back, which is a "not yet" and no error.
func TestAConflictOfTransactionsIsAnAnswer(t *testing.T) {
	t.Parallel()
	target := target(postgres)
	dsn := withSettings(t, target.DSN(t), map[string][]string{"default_transaction_isolation": {"serializable"}})
	db := target.OpenDSN(t, dsn, nil)
	store, other := newStore(t, db), newStore(t, db)
	r := storetest.Create(t, store, storetest.First(1))
	for range 20 {
		tx := db.Begin()
		must(t, tx.Error)
		exec(t, tx, "UPDATE snowflake_nodes SET version = version + 1")
		done := make(chan error, 2)
		ctx := limited(t)
		for _, s := range []*gormlease.Store{store, other} {
			go func() {
				ok, err := s.Swap(ctx, r, storetest.Renew(r))
				if ok {
					err = errors.New("a swap was done on a record that had changed")
				}
				done <- err
			}()
		}
		waiting := func() (n int64) {
			must(t, db.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
				"AND wait_event_type = 'Lock'").Scan(&n).Error)
			return n
		}
		for waiting() < 2 {
			time.Sleep(time.Millisecond)
		}
		must(t, tx.Commit().Error)
		must(t, errors.Join(<-done, <-done))
		r.Version++
	}
}

func TestAClosedStoreSaysSoAndLeavesTheApplicationAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		store := newStore(t, db)
		must(t, store.Close())
		must(t, store.Close())
		_, err := store.Now(t.Context())
		complains(t, err, lease.ErrClosed, "snowflake_nodes")
		complains(t, err, snowflakeplugin.ErrClosed)
		_, err = store.List(t.Context())
		complains(t, err, lease.ErrClosed)
		_, err = store.Swap(t.Context(), lease.Record{}, storetest.First(1))
		complains(t, err, lease.ErrClosed)
		must(t, storetest.Holds(t, newStore(t, db)))
		must(t, db.Exec("SELECT 1").Error)
	})
}

func TestBadOptionsAndHandlesAreNamed(t *testing.T) {
	t.Parallel()
	db := target(sqlite).Open(t, nil)
	_, err := gormlease.New(db, gormlease.WithTable(""), nil)
	complains(t, err, gormlease.ErrOption, `Table("")`, "option 1 is nil")
	for _, db := range []*gorm.DB{nil, {}} {
		_, err = gormlease.New(db)
		complains(t, err, gormlease.ErrDatabase)
		_, err = gormlease.DDL(db)
		complains(t, err, gormlease.ErrDatabase)
	}

	foreign, err := gorm.Open(sqlServer{target(sqlite).Dialector(target(sqlite).DSN(t))}, &gorm.Config{})
	must(t, err)
	defer poolOf(t, foreign).Close()
	_, err = gormlease.New(foreign)
	complains(t, err, gormlease.ErrDatabase, "sqlserver", "WithLease", "WithNode")

	// A connection is not a pool: the store would be caught in the application's transactions.
	conn, err := poolOf(t, db).Conn(t.Context())
	must(t, err)
	defer conn.Close()
	single, err := gorm.Open(dialectorOn(target(sqlite), conn), &gorm.Config{})
	must(t, err)
	_, err = gormlease.New(single)
	complains(t, err, gormlease.ErrDatabase, "WithLease")
	complains(t, err, gorm.ErrInvalidDB)
}

// sqlServer goes by the name of a dialect that is not supported.
type sqlServer struct{ gorm.Dialector }

func (sqlServer) Name() string { return "sqlserver" }

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, nobody := openAsNobody(t, target)
			must(t, admin.Exec(mustDDL(t, admin)).Error)
			exec(t, admin, "GRANT SELECT, INSERT, UPDATE ON snowflake_nodes TO "+nobody.name)
			store := newStore(t, nobody.db)
			// From now on it cannot log in any more.
			if target.Dialect == "postgres" {
				exec(t, admin, "ALTER ROLE "+nobody.name+" NOLOGIN")
			} else {
				exec(t, admin, "ALTER USER "+nobody.name+" ACCOUNT LOCK")
			}
			killOthers(t, target, admin)
			var err error
			for err == nil {
				_, err = store.List(limited(t))
			}
			_, again := gormlease.New(nobody.db)
			complains(t, again, lease.ErrStore)
			for _, err := range []error{err, again} {
				if strings.Contains(err.Error(), nobody.password) {
					t.Error("an error has the password in it")
				}
			}
		})
	}
}

func mustDDL(t *testing.T, db *gorm.DB) string {
	t.Helper()
	ddl, err := gormlease.DDL(db)
	must(t, err)
	return ddl
}

// Somebody reads the record of a number in a transaction, locks it by that, and leaves the session open. All that
// a keeper can do is to take another number, and it has to do so by itself.
func TestAKeeperLeavesANumberWhoseRecordSomebodyElseHasLocked(t *testing.T) {
	t.Parallel()
	for name, target := range oneServer(t) {
		if target.Dialect == "sqlite" {
			continue // a lock is one of the whole file
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			keeper, err := lease.Acquire(t.Context(), newStore(t, target.OpenDSN(t, dsn, nil)), generator.Default(),
				lease.WithSpan(3*time.Second))
			must(t, err)
			ids, err := generator.New(generator.Default(), keeper, generator.WithMaxWait(30*time.Second))
			must(t, err)
			locked := keeper.Window().Node
			session := target.OpenDSN(t, dsn, nil).Begin()
			must(t, session.Error)
			var version int64
			must(t, session.Raw("SELECT version FROM snowflake_nodes WHERE node = ? FOR UPDATE", locked).Row().Scan(&version))
			for last, end := int64(0), time.Now().Add(40*time.Second); keeper.Window().Node == locked; time.Sleep(50 * time.Millisecond) {
				id, err := ids.Next(t.Context())
				if err != nil || id <= last || time.Now().After(end) {
					t.Fatalf("ID %d after %d: %v", id, last, err)
				}
				last = id
			}
			must(t, keeper.Close(t.Context()))
			must(t, session.Rollback().Error)
		})
	}
}
