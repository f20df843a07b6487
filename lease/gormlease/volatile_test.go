package gormlease_test

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

// A table that is empty after a crash grants windows that are still held, and numbers that are in use.
func TestATableThatForgetsItsRowsIsRefused(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if target.Dialect == "mysql" && target.IsTiDB(t) {
				t.Skip("TiDB has one kind of table")
			}
			db := target.Open(t, nil)
			forgetful := map[string]func(ddl string) string{
				"UNLOGGED": func(ddl string) string { return strings.Replace(ddl, "CREATE", "CREATE UNLOGGED", 1) },
			}
			if target.Dialect == "mysql" {
				forgetful = make(map[string]func(ddl string) string)
				for _, engine := range []string{"MEMORY", "MyISAM"} {
					forgetful[engine] = func(ddl string) string { return strings.Replace(ddl, "InnoDB", engine, 1) }
				}
			}
			for word, forget := range forgetful {
				for _, table := range []string{"plain " + word, "odd `'\"\\ " + word} {
					leases, err := gormlease.DDL(db, gormlease.WithTable(table+" nodes"))
					must(t, err)
					exec(t, db, forget(leases))
					open := func() error {
						store, err := gormlease.New(db, gormlease.WithTable(table+" nodes"))
						if err == nil {
							must(t, store.Close())
						}
						return err
					}
					isMended(t, db, word, gormlease.ErrTable, open)

					counters, err := gormsegment.DDL(db, gormsegment.WithTable(table+" counters"))
					must(t, err)
					exec(t, db, forget(counters))
					isMended(t, db, word, gormsegment.ErrTable, func() error {
						store, err := gormsegment.New(db, gormsegment.WithTable(table+" counters"))
						if err == nil {
							must(t, store.Close())
						}
						return err
					})
				}
			}
		})
	}
}

// isMended expects that a table cannot be used, and that the statement in the error changes that.
func isMended(t *testing.T, db *gorm.DB, word string, kind error, open func() error) {
	t.Helper()
	err := open()
	complains(t, err, kind, word, "ALTER TABLE")
	_, statement, _ := strings.Cut(err.Error(), "\n\n")
	must(t, db.Exec(strings.TrimSuffix(strings.TrimSpace(statement), ";")).Error)
	must(t, open())
}
