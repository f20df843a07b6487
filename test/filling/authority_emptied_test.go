package filling_test

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAuthorityOfEmptiedLeases(t *testing.T) {
	var all []behavior
	for name, empty := range map[string]func(t *testing.T, db *gorm.DB){
		"emptied": func(t *testing.T, db *gorm.DB) {
			t.Helper()
			must(t, db.Exec("DELETE FROM snowflake_nodes").Error, "empty")
		},
		"truncated": func(t *testing.T, db *gorm.DB) {
			t.Helper()
			if db.Name() == "sqlite" {
				t.Skip("SQLite deletes")
			}
			must(t, db.Exec("TRUNCATE TABLE snowflake_nodes").Error, "truncate")
		},
		"dropped": func(t *testing.T, db *gorm.DB) {
			t.Helper()
			must(t, db.Migrator().DropTable("snowflake_nodes"), "drop")
		},
		"dropped and made anew": func(t *testing.T, db *gorm.DB) {
			t.Helper()
			must(t, db.Migrator().DropTable("snowflake_nodes"), "drop")
			ddl, err := gormlease.DDL(db)
			must(t, err, "the statement")
			must(t, db.Exec(ddl).Error, "make it anew")
		},
	} {
		all = append(all, behavior{
			Name:       "leases that were " + name + " grant nothing while somebody holds a number",
			Everywhere: true,
			Run:        func(t *testing.T, target dbtest.Target) { emptiedLeasesGrantNothing(t, target, empty) },
		})
	}
	run(t, all)
}

// The first process has a window that runs. A second one that got its number would make the same IDs.
func emptiedLeasesGrantNothing(t *testing.T, target dbtest.Target, empty func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	dsn := target.DSN(t)
	plugin := func() *snowflakeplugin.Plugin {
		return closedAfter(t, snowflakeplugin.New(silent(), snowflakeplugin.WithLeasedNode(17),
			snowflakeplugin.WithLease(nil, lease.WithSpan(3*time.Second))))
	}
	first, db := plugin(), target.OpenDSN(t, dsn, nil)
	must(t, db.Use(first), "Use")
	empty(t, db)
	err := target.OpenDSN(t, dsn, nil).Use(plugin())
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use by a second process")
	says(t, err, "snowflake_nodes", "dropped or emptied", "INSERT INTO")

	// The first goes on until its window ends, and says why it ends there.
	deadline := time.Now().Add(time.Minute)
	ids := 0
	for err = nil; err == nil && time.Now().Before(deadline); ids++ {
		_, err = first.NextID(t.Context())
		time.Sleep(10 * time.Millisecond)
	}
	says(t, err, "snowflake_nodes")
	if ids < 2 {
		t.Errorf("the first process made %d IDs", ids)
	}

	// What the error says leads back, when every window has ended.
	err = target.OpenDSN(t, dsn, nil).Use(plugin())
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use by a third process")
	_, statements, _ := strings.Cut(err.Error(), "\n\n")
	for statement := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
		must(t, db.Exec(strings.TrimSuffix(statement, ";")).Error, "run what the error says")
	}
	must(t, first.Close(t.Context()), "Close")
	must(t, target.OpenDSN(t, dsn, nil).Use(plugin()), "Use by a fourth process")
}
