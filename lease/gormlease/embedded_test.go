package gormlease_test

import (
	"os"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

func TestAStoreOpensAFileOfSQLiteItselfWhereItCan(t *testing.T) {
	t.Parallel()
	memory := func(dsn string, conns int) func(t *testing.T) *gorm.DB {
		return func(t *testing.T) *gorm.DB { return inMemory(t, dsn, conns) }
	}
	file := func(conns int) func(t *testing.T) *gorm.DB {
		return func(t *testing.T) *gorm.DB { return target(sqlite).Open(t, nil, dbtest.MaxOpenConns(conns)) }
	}
	for name, c := range map[string]struct {
		open func(t *testing.T) *gorm.DB
		own  bool
	}{
		"a file":                        {file(8), true},
		"a file, with one connection":   {file(1), true},
		"a private database in memory":  {memory(":memory:", 1), false},
		"a shared database in memory":   {memory("file:own?mode=memory&cache=shared", 2), false},
		"a file that is only in memory": {memory("file:own.db?vfs=memdb", 1), false},
		"a file, by its pool":           {func(t *testing.T) *gorm.DB { return shared(t, target(sqlite), 2) }, false},
		"a file that is locked for one connection": {func(t *testing.T) *gorm.DB {
			db := file(1)(t)
			exec(t, db, "PRAGMA locking_mode = EXCLUSIVE")
			return db
		}, false},
		"a file in the old journal mode": {func(t *testing.T) *gorm.DB {
			return inMemory(t, "file:"+t.TempDir()+"/old.db?_journal_mode=DELETE", 1)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := c.open(t)
			must(t, db.AutoMigrate(&order{}))
			store := newStore(t, db)
			if _, own := store.Pool(); own != c.own {
				t.Errorf("the store opens the database itself: %t, want %t", own, c.own)
			}
			r := storetest.Create(t, store, storetest.First(1))
			must(t, storetest.Holds(t, newStore(t, db, gormlease.WithTable("snowflake_nodes")), r))
			var rows int64
			must(t, db.Table("snowflake_nodes").Count(&rows).Error) // the application finds it in its database
			if rows != 2 {                                          // with that of the identity
				t.Errorf("there are %d rows", rows)
			}
		})
	}
}

// A path that is relative names another file after a change of directory.
func TestAFileIsFoundAfterAChangeOfDirectory(t *testing.T) { //nolint:paralleltest // it changes the directory
	for _, dsn := range []string{"app.db", "app.db?_journal_mode=WAL", "file:app.db?_busy_timeout=1000", "file:app%20one.db"} {
		home, elsewhere := t.TempDir(), t.TempDir()
		t.Chdir(home)
		db := inMemory(t, dsn, 1)
		must(t, db.AutoMigrate(&order{}))
		t.Chdir(elsewhere)
		store := newStore(t, db)
		if _, own := store.Pool(); !own {
			t.Errorf("%s: the store does not open the file itself", dsn)
		}
		t.Chdir(home)
		r := storetest.Create(t, store, storetest.First(1))
		t.Chdir(elsewhere)
		must(t, storetest.Holds(t, store, r))
		var rows int64
		must(t, db.Table("snowflake_nodes").Count(&rows).Error)
		if stray, err := os.ReadDir(elsewhere); err != nil || len(stray) > 0 || rows != 2 {
			t.Errorf("%s: %d rows, and %v in the other directory, %v", dsn, rows, stray, err)
		}
		t.Chdir(home)
	}
}
