// Package suite holds what the integration tests share: the description of a behavior of the
// plugin, the code that runs it on every database, and common checks.
package suite

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Behavior is one promise of the plugin from the point of view of a GORM user. It runs on the databases that
// dbtest.Chosen returns for it, and at night on all of them, unless Only names some. Everywhere is for what
// depends on the statements of each dialect: it runs on all of them in tier one as well.
type Behavior struct {
	Name       string   // a sentence
	Only       []string // names or dialects of targets; empty for all
	Everywhere bool
	Run        func(t *testing.T, target dbtest.Target)
}

// Run tests the behaviors. SQLite, PostgreSQL, MariaDB, MySQL, and MariaDB without RETURNING each have a
// sub-test, in which the behaviors are tested that run there. The test runs in parallel with other tests of
// its package.
func Run(t *testing.T, behaviors []Behavior) {
	t.Helper()
	t.Parallel()
	there := map[string][]Behavior{}
	for _, b := range behaviors {
		candidates := slices.DeleteFunc(dbtest.Targets(), func(target dbtest.Target) bool {
			return len(b.Only) > 0 && !slices.Contains(b.Only, target.Name) &&
				!slices.Contains(b.Only, target.Dialect)
		})
		if !b.Everywhere {
			candidates = dbtest.Chosen(t.Name()+"/"+b.Name, candidates)
		}
		for _, target := range candidates {
			there[target.Name] = append(there[target.Name], b)
		}
	}
	targets := slices.DeleteFunc(dbtest.Targets(), func(target dbtest.Target) bool {
		return there[target.Name] == nil
	})
	dbtest.Run(t, targets, func(t *testing.T, target dbtest.Target) {
		shared := target.Shared(t)
		for _, b := range there[target.Name] {
			t.Run(b.Name, func(t *testing.T) { b.Run(t, shared) })
		}
	})
}

// Open returns a new database of the target that uses the plugin. The models are migrated.
func Open(
	t *testing.T, target dbtest.Target, cfg *gorm.Config, models ...any,
) (*gorm.DB, *snowflakeplugin.Plugin) {
	t.Helper()
	db := target.Open(t, cfg)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	Must(t, db.Use(plugin), "Use")
	Must(t, plugin.Prepare(db, models...), "Prepare")
	Must(t, db.AutoMigrate(models...), "AutoMigrate")
	return db, plugin
}

// Silent discards the plugin's log messages.
func Silent() snowflakeplugin.Option {
	return snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler))
}

// Leased uses a plugin that leases its node on db, and closes the plugin with the test.
func Leased(t *testing.T, db *gorm.DB, opts ...snowflakeplugin.Option) *snowflakeplugin.Plugin {
	t.Helper()
	plugin := snowflakeplugin.New(append([]snowflakeplugin.Option{Silent()}, opts...)...)
	t.Cleanup(func() {
		if err := plugin.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	Must(t, db.Use(plugin), "Use")
	return plugin
}
