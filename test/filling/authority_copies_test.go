package filling_test

import (
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

func copyIsFound(t *testing.T, target dbtest.Target) {
	original, duplicate := target.DSN(t), target.DSN(t)
	plugin := leased(t, target.OpenDSN(t, original, nil))
	copyLeases(t, target.OpenDSN(t, original, nil), target.OpenDSN(t, duplicate, nil))

	must(t, target.OpenDSN(t, original, nil).Use(plugin), "another Use of the original")
	must(t, plugin.Close(t.Context()), "Close")
	one := leased(t, target.OpenDSN(t, original, nil))
	err := target.OpenDSN(t, duplicate, nil).Use(one)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use of the copy after the original")
	says(t, err, "copy", noted(t, target.OpenDSN(t, original, nil))["rows"].Authority)

	two := leased(t, target.OpenDSN(t, duplicate, nil)) // the copy alone, as on a test system
	wantErr(t, target.OpenDSN(t, original, nil).Use(two), snowflakeplugin.ErrAuthority, "Use of the original after the copy")

	store := newStore(t, target.OpenDSN(t, original, nil))
	three := closedAfter(t, snowflakeplugin.New(silent(), snowflakeplugin.WithLease(store)))
	wantErr(t, target.OpenDSN(t, duplicate, nil).Use(three), snowflakeplugin.ErrAuthority,
		"Use of the copy first, with the leases of the original")
}

// The plugin had its number before the copy was made, so the copy has its record as well, but an older one.
func olderCopyIsFound(t *testing.T, target dbtest.Target) {
	original, duplicate := target.DSN(t), target.DSN(t)
	span := snowflakeplugin.WithLease(nil, lease.WithSpan(time.Second))
	plugin := leased(t, target.OpenDSN(t, original, nil), span)
	copyLeases(t, target.OpenDSN(t, original, nil), target.OpenDSN(t, duplicate, nil))
	for end := plugin.Stats().WindowEnd; plugin.Stats().WindowEnd.Equal(end); {
		time.Sleep(10 * time.Millisecond)
	}

	must(t, target.OpenDSN(t, original, nil).Use(plugin), "another Use of the original")
	err := target.OpenDSN(t, duplicate, nil).Use(plugin)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use of the copy")
	says(t, err, "copy")
}

// A replica has the records of its primary, some time later. That nothing can be written there tells it from a
// copy.
func laggingReplicaIsNoCopy(t *testing.T, target dbtest.Target) {
	if target.Dialect == "mysql" && !target.IsMySQL(t) {
		t.Skip("MariaDB is read-only as a whole server, which others use; a session of it can change its mind")
	}
	primary, replica := target.DSN(t), target.DSN(t)
	must(t, target.OpenDSN(t, replica, nil).AutoMigrate(&account{}), "AutoMigrate")
	span := snowflakeplugin.WithLease(nil, lease.WithSpan(time.Second))
	plugin := leased(t, target.OpenDSN(t, primary, nil), span)
	copyLeases(t, target.OpenDSN(t, primary, nil), target.OpenDSN(t, replica, nil))
	for end := plugin.Stats().WindowEnd; plugin.Stats().WindowEnd.Equal(end); {
		time.Sleep(10 * time.Millisecond)
	}
	f := freezeDSN(t, target, replica)
	must(t, f.db.Use(plugin), "Use of the replica")

	err := f.db.Create(&account{Email: "ann@example.com"}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create in the replica")
	says(t, err, "read-only")
	f.thaw() // it was promoted, and has lost what the primary had granted
	err = f.db.Create(&account{Email: "ann@example.com"}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create in the copy")
	says(t, err, "copy")
}

// A copy of a whole database has the leases of every schema.
func TestACopyOfLeasesInAnotherSchemaIsFound(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("postgres")
	original, duplicate := target.DSN(t), target.DSN(t)
	stores := map[string]*gormlease.Store{}
	for _, dsn := range []string{original, duplicate} {
		db := target.OpenDSN(t, dsn, nil)
		must(t, db.Exec("CREATE SCHEMA ops").Error, "CREATE SCHEMA")
		store, err := gormlease.New(db, gormlease.WithTable("ops.nodes"))
		must(t, err, "New")
		t.Cleanup(func() { must(t, store.Close(), "close the store") })
		stores[dsn] = store
	}
	use := func(dsn string, plugin *snowflakeplugin.Plugin) error { return target.OpenDSN(t, dsn, nil).Use(plugin) }
	first := snowflakeplugin.New(silent(), snowflakeplugin.WithLease(stores[original]))
	must(t, use(original, first), "Use of the original")
	from, to := target.OpenDSN(t, original, nil), target.OpenDSN(t, duplicate, nil)
	_, err := stores[duplicate].Identity(t.Context()) // makes the table
	must(t, err, "Identity")
	for _, table := range []string{"ops.nodes", "ops.snowflake_authority"} {
		must(t, to.Exec("DELETE FROM "+table).Error, "empty "+table)
		var rows []map[string]any
		must(t, from.Table(table).Find(&rows).Error, "read "+table)
		must(t, to.Table(table).Create(rows).Error, "write "+table)
	}
	must(t, use(original, first), "another Use of the original")
	must(t, first.Close(t.Context()), "Close")

	second := closedAfter(t, snowflakeplugin.New(silent(), snowflakeplugin.WithLease(stores[original])))
	must(t, use(original, second), "Use of the original")
	err = use(duplicate, second)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use of the copy after the original")
	says(t, err, "copy")
}

// copyLeases does what a restored backup does.
func copyLeases(t *testing.T, from, to *gorm.DB) {
	t.Helper()
	// The tables are made by a plugin that uses another handle on the same pool.
	other, err := gorm.Open(to.Dialector, &gorm.Config{ConnPool: to.ConnPool, Logger: logger.Discard})
	must(t, err, "another handle")
	scratch := snowflakeplugin.New(silent())
	must(t, other.Use(scratch), "Use")
	must(t, scratch.Close(t.Context()), "Close")
	for _, table := range []string{"snowflake_nodes", "snowflake_authority"} {
		must(t, to.Exec("DELETE FROM "+table).Error, "empty "+table)
		var rows []map[string]any
		must(t, from.Table(table).Find(&rows).Error, "read "+table)
		must(t, to.Table(table).Create(rows).Error, "write "+table)
	}
}

// A database that nothing can be written to has no rows that need an authority.
func TestNothingIsNotedInADatabaseThatIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.Targets()[:2] {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			dsn := target.DSN(t)
			target.OpenDSN(t, dsn, nil)
			readOnly := dsn + "&mode=ro"
			if target.Dialect == "postgres" {
				separator := "?"
				if strings.Contains(dsn, "?") {
					separator = "&"
				}
				readOnly = dsn + separator + "default_transaction_read_only=on"
			} else {
				must(t, target.OpenDSN(t, dsn, nil).AutoMigrate(&account{}), "make the file")
			}
			must(t, target.OpenDSN(t, readOnly, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use by hand")
			must(t, target.OpenDSN(t, readOnly, nil).Use(leased(t, target.Open(t, nil))), "Use with leases elsewhere")
			if target.OpenDSN(t, dsn, nil).Migrator().HasTable("snowflake_authority") {
				t.Error("an authority was noted")
			}
			// Once it is noted on the primary, the replica knows it.
			leased(t, target.OpenDSN(t, dsn, nil))
			wantErr(t, target.OpenDSN(t, readOnly, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))),
				snowflakeplugin.ErrAuthority, "Use by hand afterwards")
		})
	}
}

func TestADatabaseInMemoryIsNoAuthorityForAFile(t *testing.T) {
	t.Parallel()
	file := dbtest.Targets()[0]
	dsn := file.DSN(t)
	inMemory := func() *gorm.DB {
		db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
		must(t, err, "open")
		pool, err := db.DB()
		must(t, err, "pool")
		pool.SetMaxOpenConns(1)
		t.Cleanup(func() { must(t, pool.Close(), "close") })
		return db
	}
	must(t, file.OpenDSN(t, dsn, nil).Use(leased(t, inMemory())), "Use of the first")
	wantErr(t, file.OpenDSN(t, dsn, nil).Use(leased(t, inMemory())), snowflakeplugin.ErrAuthority, "Use of the second")
	db := inMemory()
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use by hand")
	if tables, err := db.Migrator().GetTables(); err != nil || len(tables) > 0 {
		t.Errorf("the database in memory has the tables %q, %v", tables, err)
	}
}
