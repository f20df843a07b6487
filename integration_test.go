package snowflakeplugin_test

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// behavior is one promise of the plugin, seen from a user of GORM. It runs on every database
// unless it names the few that it concerns.
type behavior struct {
	name string   // a sentence
	only []string // names or dialects of targets; empty for all
	run  func(t *testing.T, target dbtest.Target)
}

// TestIntegration holds every promise against every real database: SQLite, PostgreSQL, MariaDB,
// and MariaDB as GORM drives a MySQL that has no RETURNING.
func TestIntegration(t *testing.T) {
	groups := []struct {
		name      string
		behaviors []behavior
	}{
		{"registration", registrationBehaviors()},
		{"errors", errorBehaviors()},
		{"leases", leaseBehaviors()},
		{"shapes", shapeBehaviors()},
		{"associations", associationBehaviors()},
		{"upserts", upsertBehaviors()},
		{"map upserts", mapUpsertBehaviors()},
		{"schema", schemaBehaviors()},
		{"kinds", kindBehaviors()},
		{"statements", statementBehaviors()},
		{"sharding", shardingBehaviors()},
	}
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for _, group := range groups {
			for _, b := range group.behaviors {
				if len(b.only) > 0 && !slices.Contains(b.only, target.Name) &&
					!slices.Contains(b.only, target.Dialect) {
					continue
				}
				t.Run(group.name+"/"+b.name, func(t *testing.T) { b.run(t, target) })
			}
		}
	})
}

// open returns a fresh database of the target with the plugin in use and the models migrated.
func open(
	t *testing.T, target dbtest.Target, cfg *gorm.Config, models ...any,
) (*gorm.DB, *snowflakeplugin.Plugin) {
	t.Helper()
	db := target.Open(t, cfg)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if err := db.Use(plugin); err != nil {
		t.Fatalf("Use: %v", err)
	}
	if err := plugin.Prepare(db, models...); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	if err := db.AutoMigrate(models...); err != nil {
		t.Fatalf("AutoMigrate: %v", err)
	}
	return db, plugin
}
