package ecosystem_test

import (
	"log/slog"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/plugin/dbresolver"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A replica lags behind, and what it says of a lease would be wrong: the lease is in the source.
func TestTheLeaseIsInTheSource(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for name, first := range map[string]bool{"before dbresolver": true, "after dbresolver": false} {
			t.Run(name, func(t *testing.T) { leaseInSource(t, target, first) })
		}
	})
}

func leaseInSource(t *testing.T, target dbtest.Target, first bool) {
	source, replica := target.DSN(t), target.DSN(t)
	db := target.OpenDSN(t, source, nil)
	resolver := dbresolver.Register(dbresolver.Config{
		Replicas: []gorm.Dialector{target.Dialector(replica)},
	})
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)),
		snowflakeplugin.WithLease(nil, lease.WithSpan(300*time.Millisecond)))
	if first {
		must(t, db.Use(plugin), "Use")
		must(t, db.Use(resolver), "Use of dbresolver")
	} else {
		must(t, db.Use(resolver), "Use of dbresolver")
		must(t, db.Use(plugin), "Use")
	}
	for plugin.Stats().Extensions == 0 {
		time.Sleep(time.Millisecond)
	}
	if !target.OpenDSN(t, source, nil).Migrator().HasTable("snowflake_nodes") {
		t.Error("the source has no lease")
	}
	if target.OpenDSN(t, replica, nil).Migrator().HasTable("snowflake_nodes") {
		t.Error("the replica has one")
	}
	must(t, plugin.Close(t.Context()), "Close")
}
