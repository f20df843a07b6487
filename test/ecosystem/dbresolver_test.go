package ecosystem_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/plugin/dbresolver"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// cluster is a source with two replicas that never learn anything: what is read from them is
// recognized by its absence.
type cluster struct {
	db       *gorm.DB // with dbresolver and the plugin
	source   *gorm.DB
	replicas []*gorm.DB
	numbers  *ledger
}

// A clusterSetting says how a cluster is set up.
type clusterSetting struct {
	first, named, transactions bool
}

// clusterSettings are all settings at night. In tier one every two choices still meet on SQLite, and every
// choice is met on the servers.
func clusterSettings(target dbtest.Target) []clusterSetting {
	all := []clusterSetting{
		{true, true, true}, {false, false, false},
		{true, false, false}, {false, true, false}, {false, false, true},
		{true, true, false}, {true, false, true}, {false, true, true},
	}
	if target.Dialect == "sqlite" {
		return nightly.Pick(append(all[:1:1], all[2:5]...), all)
	}
	return nightly.Pick(all[:2], all)
}

// eachCluster runs fn with the plugin used before dbresolver and after it, with the source named
// and as the handle's own database, and with and without transactions.
func eachCluster(t *testing.T, fn func(t *testing.T, c cluster)) {
	t.Helper()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		dsns := [3]string{} // of the source and its replicas, whose tables are made once and emptied in between
		var plain [3]*gorm.DB
		for i := range dsns {
			dsns[i] = target.DSN(t)
			plain[i] = migrate(t, target, dsns[i])
		}
		for _, setting := range clusterSettings(target) {
			name := fmt.Sprintf("first %t, source named %t, transactions %t",
				setting.first, setting.named, setting.transactions)
			t.Run(name, func(t *testing.T) {
				for _, db := range plain {
					empty(t, db, "customer_marks", &mark{}, &purchase{}, &customer{})
				}
				c := cluster{source: plain[0], replicas: plain[1:], numbers: newLedger(t)}
				c.open(t, target, dsns, setting)
				fn(t, c)
			})
		}
	})
}

// open opens the handle of the cluster.
func (c *cluster) open(t *testing.T, target dbtest.Target, dsns [3]string, setting clusterSetting) {
	t.Helper()
	var config dbresolver.Config
	if setting.named {
		config.Sources = []gorm.Dialector{target.Dialector(dsns[0])}
	}
	for _, replica := range dsns[1:] {
		config.Replicas = append(config.Replicas, target.Dialector(replica))
	}
	c.db = target.OpenDSN(t, dsns[0], &gorm.Config{SkipDefaultTransaction: !setting.transactions})
	plugin, resolver := snowflakeplugin.New(snowflakeplugin.WithSource(c.numbers)), dbresolver.Register(config)
	plugins := []gorm.Plugin{resolver, plugin}
	if setting.first {
		slices.Reverse(plugins)
	}
	for _, p := range plugins {
		must(t, c.db.Use(p), "Use of "+p.Name())
	}
	own, err := c.db.DB()
	must(t, err, "the pool")
	t.Cleanup(func() {
		err := resolver.Call(func(pool gorm.ConnPool) error {
			if closer, ok := pool.(io.Closer); ok && pool != gorm.ConnPool(own) {
				return closer.Close()
			}
			return nil
		})
		must(t, err, "close the pools of dbresolver")
	})
	must(t, plugin.Prepare(c.db, allModels...), "Prepare")
}

// untouched fails the test if something was written to a replica.
func (c cluster) untouched(t *testing.T) {
	t.Helper()
	for _, replica := range c.replicas {
		for _, model := range allModels {
			holds(t, replica, model, 0)
		}
	}
}

func TestDBResolverCreatesAreFilledOnce(t *testing.T) {
	t.Parallel()
	eachCluster(t, func(t *testing.T, c cluster) {
		one := customer{Email: "ann", Orders: []purchase{{Total: 1}, {Total: 2}}, Marks: []mark{{Code: "x"}}}
		must(t, c.db.Create(&one).Error, "create a tree")
		if got := fmt.Sprint(c.numbers.take()); got != "[2 2 1]" {
			t.Errorf("the reservations of a tree are %s", got)
		}
		list := []*customer{{Email: "bob"}, {Email: "eve", ID: 5}}
		must(t, c.db.Create(list).Error, "create a slice")
		if got := fmt.Sprint(c.numbers.take()); got != "[3]" {
			t.Errorf("the reservations of a slice are %s", got)
		}
		for _, row := range append(list, &one) {
			storedCustomer(t, c.source, row)
		}
		var found []customer
		must(t, c.db.Find(&found).Error, "read")
		if len(found) != 0 {
			t.Fatal("reads go to the source, so this test shows nothing")
		}
		c.untouched(t)
	})
}

func TestDBResolverUpsertsReadTheSource(t *testing.T) {
	t.Parallel()
	eachCluster(t, func(t *testing.T, c cluster) {
		there := customer{Email: "ann", Name: "first", Marks: []mark{{Code: "x"}}}
		must(t, c.db.Create(&there).Error, "create")

		met := customer{Email: "ann", Name: "second"}
		must(t, c.db.Clauses(clause.OnConflict{DoNothing: true}).Create(&met).Error, "DoNothing")
		if met.ID != there.ID || met.PublicID != there.PublicID {
			t.Errorf("after DoNothing the IDs are %v and %v, want %v and %v",
				met.ID, met.PublicID, there.ID, there.PublicID)
		}

		onEmail := []clause.Column{{Name: "email"}}
		list := []customer{{Email: "new"}, {Email: "ann", Name: "third"}}
		must(t, c.db.Clauses(clause.OnConflict{Columns: onEmail, UpdateAll: true}).Create(&list).Error, "UpdateAll")
		if list[1].ID != there.ID || list[1].PublicID != there.PublicID {
			t.Errorf("after UpdateAll the IDs are %v and %v, want %v and %v",
				list[1].ID, list[1].PublicID, there.ID, there.PublicID)
		}
		there.Name = "third"
		storedCustomer(t, c.source, &there)
		storedCustomer(t, c.source, &list[0])

		// A nested upsert: the mark is there, and the join row must point to it.
		nested := customer{Email: "bob", Marks: []mark{{Code: "x"}, {Code: "y"}}}
		must(t, c.db.Create(&nested).Error, "create with a mark that is there")
		if nested.Marks[0].ID != there.Marks[0].ID {
			t.Errorf("the mark has ID %v, want %v", nested.Marks[0].ID, there.Marks[0].ID)
		}
		storedCustomer(t, c.source, &nested)
		holds(t, c.source, &mark{}, 2)
		c.untouched(t)
	})
}

func TestDBResolverFailedCreatesLeaveNoID(t *testing.T) {
	t.Parallel()
	eachCluster(t, func(t *testing.T, c cluster) {
		must(t, c.db.Create(&customer{Email: "ann"}).Error, "create")
		again := customer{Email: "ann", Orders: []purchase{{Total: 1}}}
		if err := c.db.Create(&again).Error; err == nil {
			t.Fatal("a duplicate was created")
		}
		if again.ID != 0 || again.PublicID != 0 || again.Orders[0].ID != 0 {
			t.Errorf("after the error the struct is %+v", again)
		}
		again.Email = "bob"
		must(t, c.db.Create(&again).Error, "create again")
		storedCustomer(t, c.source, &again)
	})
}

func TestDBResolverPluginIsRefusedTwice(t *testing.T) {
	t.Parallel()
	eachCluster(t, func(t *testing.T, c cluster) {
		err := c.db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
		if !errors.Is(err, gorm.ErrRegistered) {
			t.Errorf("a second Use: %v, want %v", err, gorm.ErrRegistered)
		}
	})
}
