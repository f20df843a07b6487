package gormlease_test

import (
	"net/url"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A swap whose COMMIT has had no answer may be rolled back later. A keeper that reads its record before that
// would take the window for granted.
func TestAnApplicationThatReadsUncommittedRowsShowsNoneToTheStore(t *testing.T) {
	t.Parallel()
	eachWay(t, mysqls(), func(t *testing.T, target dbtest.Target, way func(*gorm.DB) *gorm.DB) {
		if target.IsTiDB(t) {
			t.Skip("TiDB has no such isolation")
		}
		dsn := target.DSN(t)
		other := target.OpenDSN(t, dsn, nil)
		db := target.OpenDSN(t, dsn, nil, dirty(t, target)...)
		var level string
		must(t, db.Raw("SELECT @@"+isolation(t, target)).Scan(&level).Error)
		if level != "READ-UNCOMMITTED" {
			t.Fatalf("the session of the application has %s", level)
		}
		store := newStore(t, way(db))
		r := storetest.Create(t, store, storetest.First(1))
		id, err := store.Identity(limited(t))
		must(t, err)

		tx := other.Begin()
		must(t, tx.Error)
		exec(t, tx, "UPDATE snowflake_nodes SET version = 2 WHERE node = 1")
		exec(t, tx, "DELETE FROM snowflake_authority")
		must(t, storetest.Holds(t, store, r))
		if same, err := store.Identity(limited(t)); err != nil || same != id {
			t.Errorf("the identity was %v, and while somebody changes it it is %v, %v", id, same, err)
		}
		must(t, tx.Rollback().Error)
		storetest.Swap(t, store, r, storetest.Renew(r))
	})
}

// A session may be set to read only, which is about the transactions of the application.
func TestAnApplicationThatReadsOnlyByDefaultHasAStore(t *testing.T) {
	t.Parallel()
	eachWay(t, mysqls(), func(t *testing.T, target dbtest.Target, way func(*gorm.DB) *gorm.DB) {
		if target.IsTiDB(t) {
			t.Skip("no connection of TiDB only reads")
		}
		variable := "tx_read_only"
		if target.IsMySQL(t) {
			variable = "transaction_read_only"
		}
		dsn := target.DSN(t)
		admin := target.OpenDSN(t, dsn, nil)
		// Such a session makes no tables.
		id, err := newStore(t, admin).Identity(limited(t))
		must(t, err)
		store := newStore(t, way(target.OpenDSN(t, dsn, nil, dbtest.DSNParam(variable, "1"))))
		r := storetest.Create(t, store, storetest.First(1))
		must(t, storetest.Holds(t, newStore(t, admin), storetest.Swap(t, store, r, storetest.Renew(r))))
		if same, err := store.Identity(limited(t)); err != nil || same != id {
			t.Errorf("the identity is %v, %v, and the administrator's is %v", same, err, id)
		}
	})
}

// An application may tell its sessions not to wait long for a lock. A request of the store goes on waiting,
// because the window that it wants may run out before somebody tries again.
func TestARequestWaitsLongerForALockThanTheSessionsOfTheApplication(t *testing.T) {
	t.Parallel()
	eachWay(t, servers(), func(t *testing.T, target dbtest.Target, way func(*gorm.DB) *gorm.DB) {
		dsn := target.DSN(t)
		hurried, hold := dsn, 1500*time.Millisecond
		if target.Dialect == "postgres" {
			hurried, hold = withSettings(t, dsn, url.Values{"lock_timeout": {"50"}}), 300*time.Millisecond
		}
		second := dbtest.DSNParam("innodb_lock_wait_timeout", "1") // which is the least
		store := newStore(t, way(target.OpenDSN(t, hurried, nil, second)))
		r := storetest.Create(t, store, storetest.First(1))
		tx := target.OpenDSN(t, dsn, nil).Begin()
		must(t, tx.Error)
		exec(t, tx, "UPDATE snowflake_nodes SET version = 2 WHERE node = 1")
		released := make(chan error, 1)
		time.AfterFunc(hold, func() { released <- tx.Rollback().Error })
		if ok, err := store.Swap(limited(t), r, storetest.Renew(r)); !ok || err != nil {
			t.Errorf("while the row was locked a swap returned %t, %v", ok, err)
		}
		must(t, <-released)
	})
}

// isolation is the variable of a session that MySQL and MariaDB name differently.
func isolation(t *testing.T, target dbtest.Target) string {
	t.Helper()
	if target.IsMySQL(t) {
		return "transaction_isolation"
	}
	return "tx_isolation"
}

// dirty are the options of a session that reads what nobody has committed.
func dirty(t *testing.T, target dbtest.Target) []dbtest.Option {
	t.Helper()
	return []dbtest.Option{dbtest.DSNParam(isolation(t, target), "'READ-UNCOMMITTED'")}
}
