package filling_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// lateBehaviors say what happens to a database that could not note its authority when it was used first.
func lateBehaviors() []behavior {
	return []behavior{
		{
			Name:       "a database that was read-only is noted before its first ID",
			Everywhere: true,
			Run:        notedBeforeTheFirstID,
		},
		{
			Name:       "other leases that were noted while a database was read-only are found before the first ID",
			Everywhere: true,
			Run:        foundBeforeTheFirstID,
		},
		{
			Name:       "a note that comes late is no part of the transaction of a create",
			Everywhere: true,
			Run:        lateNoteIsCommitted,
		},
		{
			Name:       "a transaction that has the only connection is told at once that its note needs another one",
			Everywhere: true,
			Run:        onlyConnectionIsNamed,
		},
		{
			Name: "a disk that is full is no other authority",
			Only: []string{"sqlite"},
			Run:  fullDiskIsNamed,
		},
		{
			Name:       "leases that were emptied are told from leases in another place",
			Everywhere: true,
			Run:        emptiedLeasesAreNamed,
		},
	}
}

// frozen is a database that cannot be written to by those who use db.
type frozen struct {
	admin, db *gorm.DB
	thaw      func()
	alone     bool // db has one connection
}

// freeze makes a fresh database with the table of accounts, and others, and then read-only.
func freeze(t *testing.T, target dbtest.Target, models ...any) frozen {
	t.Helper()
	dsn := target.DSN(t)
	must(t, target.OpenDSN(t, dsn, nil).AutoMigrate(append(models, &account{})...), "AutoMigrate")
	return freezeDSN(t, target, dsn)
}

// freezeDSN makes a database read-only.
func freezeDSN(t *testing.T, target dbtest.Target, dsn string) frozen {
	t.Helper()
	f := frozen{admin: target.OpenDSN(t, dsn, nil)}
	var on, off string
	switch {
	case target.Dialect == "postgres":
		name := f.admin.Migrator().CurrentDatabase()
		on = "ALTER DATABASE " + name + " SET default_transaction_read_only = on"
		off = "ALTER DATABASE " + name + " RESET default_transaction_read_only"
	case target.Dialect == "mysql" && target.IsTiDB(t):
		t.Skip("no database of TiDB is read-only")
	case target.Dialect == "mysql" && target.IsMySQL(t):
		on = "ALTER DATABASE " + f.admin.Migrator().CurrentDatabase() + " READ ONLY = 1"
		off = "ALTER DATABASE " + f.admin.Migrator().CurrentDatabase() + " READ ONLY = 0"
	case target.Dialect == "mysql":
		on, off, f.alone = "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE", true
	default:
		on, off, f.alone = "PRAGMA query_only = 1", "PRAGMA query_only = 0", true
	}
	if f.alone {
		f.db = target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
		must(t, f.db.Exec(on).Error, "freeze")
		f.thaw = func() { must(t, f.db.Exec(off).Error, "thaw") }
		return f
	}
	must(t, f.admin.Exec(on).Error, "freeze")
	f.thaw = func() {
		must(t, f.admin.Connection(func(conn *gorm.DB) error {
			if target.Dialect == "postgres" { // The pool may have a new connection, which is read-only as well.
				must(t, conn.Exec("SET default_transaction_read_only = off").Error, "thaw the connection")
			}
			return conn.Exec(off).Error
		}), "thaw")
	}
	t.Cleanup(f.thaw) // others may get the database
	f.db = target.OpenDSN(t, dsn, nil)
	pool, err := f.db.DB()
	must(t, err, "the pool")
	pool.SetMaxIdleConns(0) // so that every transaction is of a new session
	return f
}

// elsewhere is a plugin whose leases lie in another database.
func elsewhere(t *testing.T) *snowflakeplugin.Plugin {
	t.Helper()
	store := newStore(t, dbtest.Named("sqlite").Open(t, nil))
	return closedAfter(t, snowflakeplugin.New(silent(), snowflakeplugin.WithLease(store)))
}

func notedBeforeTheFirstID(t *testing.T, target dbtest.Target) {
	f, plugin := freeze(t, target), elsewhere(t)
	must(t, f.db.Use(plugin), "Use of a database that is read-only")
	if f.admin.Migrator().HasTable("snowflake_authority") {
		t.Error("the database was not read-only")
	}
	a := account{Email: "ann@example.com"}
	err := f.db.Create(&a).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create while it is read-only")
	says(t, err, "read-only")
	same(t, "the ID that was refused", a.ID, 0)

	f.thaw()
	must(t, f.db.Create(&a).Error, "create")
	rows := noted(t, f.admin)
	same(t, "the notes", len(rows), 1)
	must(t, f.db.Create(&account{Email: "bob@example.com"}).Error, "create once more")
	if other := elsewhere(t); f.admin.Use(other) == nil {
		t.Error("other leases are accepted beside the note")
	}
}

func foundBeforeTheFirstID(t *testing.T, target dbtest.Target) {
	f, plugin := freeze(t, target), elsewhere(t)
	must(t, f.db.Use(plugin), "Use of a database that is read-only")
	if !f.alone {
		f.thaw() // for everybody
	}
	must(t, f.admin.Use(elsewhere(t)), "Use by another program")
	must(t, f.admin.Create(&account{Email: "theirs@example.com"}).Error, "create of another program")
	if f.alone {
		f.thaw()
	}
	a := account{Email: "ours@example.com"}
	err := f.db.Create(&a).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create beside other leases")
	says(t, err, noted(t, f.admin)["rows"].Authority)
	same(t, "the ID that was refused", a.ID, 0)
	same(t, "the rows", plainOne[int64](t, f.admin, "SELECT count(*) FROM accounts"), 1)
}

func lateNoteIsCommitted(t *testing.T, target dbtest.Target) {
	f, plugin := freeze(t, target), elsewhere(t)
	if f.alone {
		t.Skip("the transaction has the only connection")
	}
	must(t, f.db.Use(plugin), "Use of a database that is read-only")
	f.thaw()
	tx := f.db.WithContext(context.Background()).Begin()
	must(t, tx.Error, "begin")
	defer tx.Rollback() // what thaws the database of MySQL waits for every transaction
	must(t, tx.Create(&account{Email: "ann@example.com"}).Error, "create")
	same(t, "the notes before the end of the transaction", len(noted(t, f.admin)), 1)
	must(t, tx.Rollback().Error, "rollback")
	same(t, "the notes after it", len(noted(t, f.admin)), 1)
}

func onlyConnectionIsNamed(t *testing.T, target dbtest.Target) {
	f, plugin := freeze(t, target), elsewhere(t)
	must(t, f.db.Use(plugin), "Use of a database that is read-only")
	f.thaw()
	pool, err := f.db.DB()
	must(t, err, "the pool")
	pool.SetMaxOpenConns(1)
	a := account{Email: "ann@example.com"}
	create := func(tx *gorm.DB) error { return tx.Create(&a).Error }
	began := time.Now()
	for how, err := range map[string]error{
		"a transaction": f.db.Transaction(create), "a connection": f.db.Connection(create),
	} {
		wantErr(t, err, snowflakeplugin.ErrAuthority, "create in "+how)
		says(t, err, "only connection", "outside of a transaction")
		same(t, "whether to try again", snowflakeplugin.Retryable(err), false)
		same(t, "the ID that was refused", a.ID, 0)
	}
	if took := time.Since(began); took > 4*time.Second { // a note that comes late waits for five
		t.Errorf("the creates took %v", took)
	}
	must(t, f.db.Create(&account{Email: "bob@example.com"}).Error, "create outside of a transaction")
	must(t, f.db.Transaction(create), "create in a transaction")
	same(t, "the notes", len(noted(t, f.admin)), 1)
}

func fullDiskIsNamed(t *testing.T, target dbtest.Target) {
	full := func(leases bool) *gorm.DB {
		db := target.Open(t, nil, dbtest.MaxOpenConns(1))
		must(t, db.AutoMigrate(&account{}), "AutoMigrate")
		if leases {
			// The store of the leases takes the pool, whose connection has the limit.
			pool, err := db.DB()
			must(t, err, "the pool")
			db, err = gorm.Open(sqlite.New(sqlite.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})
			must(t, err, "open")
		}
		must(t, db.Exec("PRAGMA locking_mode = EXCLUSIVE").Error, "keep the file")
		pages := plainOne[int64](t, db, "PRAGMA page_count")
		must(t, db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages)).Error, "fill the disk")
		return db
	}
	_, err := gormlease.New(full(true))
	wantErr(t, err, lease.ErrStore, "open leases on a full disk")
	says(t, err, "full", "make room")
	if errors.Is(err, gormlease.ErrTable) {
		t.Errorf("the table is blamed: %v", err)
	}
	err = full(false).Use(elsewhere(t))
	wantErr(t, err, lease.ErrStore, "Use on a full disk")
	says(t, err, "full", "make room")
	if errors.Is(err, snowflakeplugin.ErrAuthority) || !snowflakeplugin.Retryable(err) {
		t.Errorf("another authority is blamed, or it cannot be retried: %v", err)
	}
}

func emptiedLeasesAreNamed(t *testing.T, target dbtest.Target) {
	home, db := target.DSN(t), target.DSN(t)
	use := func() error {
		store := newStore(t, target.OpenDSN(t, home, nil))
		plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithLease(store))
		return errors.Join(target.OpenDSN(t, db, nil).Use(plugin), plugin.Close(t.Context()))
	}
	must(t, use(), "Use")
	admin := target.OpenDSN(t, home, nil)
	must(t, admin.Exec("DELETE FROM snowflake_nodes").Error, "empty the leases")
	must(t, admin.Exec("DELETE FROM snowflake_authority").Error, "empty the authority")
	err := use()
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use after the leases were emptied")
	says(t, err, "emptied", "nodes authority")
	if strings.Contains(err.Error(), "Two stores") {
		t.Errorf("a second store is blamed: %v", err)
	}
}
