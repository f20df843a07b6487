package filling_test

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestDatabasesThatNoteNothing(t *testing.T) {
	run(t, []behavior{
		{
			Name: "a handle that names no database is told so, and what to do", Only: []string{"mysql"},
			Everywhere: true, Run: noDatabaseIsSelected,
		},
		{
			Name: "a database that does not answer is called neither another authority nor a store of leases",
			Run:  databaseDoesNotAnswer,
		},
		{
			Name: "a table that may not be made is no other authority",
			Only: []string{"sqlite"}, Run: tableIsNotMade,
		},
	})
}

// saysNot fails the test if the error has one of the words.
func saysNot(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err != nil && strings.Contains(err.Error(), word) {
			t.Errorf("the error says %q: %v", word, err)
		}
	}
}

func noDatabaseIsSelected(t *testing.T, target dbtest.Target) {
	named := target.DSN(t)
	settings, err := mysql.ParseDSN(named)
	must(t, err, "parse the DSN")
	settings.DBName = ""
	elsewhere, err := gormlease.New(target.Open(t, nil))
	must(t, err, "a store in another database")
	t.Cleanup(func() { must(t, elsewhere.Close(), "close the store") })
	for name, options := range map[string][]snowflakeplugin.Option{
		"by hand":          {snowflakeplugin.WithNode(1)},
		"leased":           nil,
		"leased elsewhere": {snowflakeplugin.WithLease(elsewhere)},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := snowflakeplugin.New(append(options, silent())...)
			db := target.OpenDSN(t, settings.FormatDSN(), nil)
			err := db.Use(plugin)
			wantErr(t, err, snowflakeplugin.ErrAuthority, "Use without a database")
			says(t, err, "1046", "selected no database", "DSN", "CREATE DATABASE")
			saysNot(t, err, "another authority", "CREATE TABLE", settings.Passwd+"@")
			if snowflakeplugin.Retryable(err) {
				t.Error("it can be retried")
			}
			// What the error asks for works with the same plugin.
			must(t, target.OpenDSN(t, named, nil).Use(plugin), "Use with a database")
			must(t, plugin.Close(t.Context()), "Close")
			plainExec(t, target.OpenDSN(t, named, nil), "DROP TABLE snowflake_authority",
				"DROP TABLE IF EXISTS snowflake_nodes")
		})
	}
}

func databaseDoesNotAnswer(t *testing.T, target dbtest.Target) {
	for name, plugin := range map[string]*snowflakeplugin.Plugin{
		"by hand": snowflakeplugin.New(snowflakeplugin.WithNode(1)), "leased": snowflakeplugin.New(silent()),
	} {
		t.Run(name, func(t *testing.T) {
			db := target.Open(t, nil)
			pool, err := db.DB()
			must(t, err, "the pool")
			must(t, pool.Close(), "close the pool")
			err = db.Use(plugin)
			wantErr(t, err, lease.ErrStore, "Use")
			says(t, err, "snowflake_authority", "closed", "Try again", "WithSource")
			saysNot(t, err, "lease:", "another authority")
			if !snowflakeplugin.Retryable(err) {
				t.Error("it cannot be retried")
			}
		})
	}
}

func tableIsNotMade(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	plainExec(t, db, "CREATE VIEW snowflake_authority AS SELECT 1 AS subject")
	err := db.Session(&gorm.Session{}).Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use")
	says(t, err, "snowflake_authority", "CREATE TABLE")
	saysNot(t, err, "another authority")
}
