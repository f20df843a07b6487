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
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// cluster is a source with two replicas that never learn anything: what is read from them is
// recognized by its absence.
type cluster struct {
	db       *gorm.DB // with dbresolver and the plugin
	source   *gorm.DB
	replicas []*gorm.DB
	numbers  *ledger
}

// eachCluster runs fn with the plugin used before dbresolver and after it, with the source named
// and as the handle's own database, and with and without transactions.
func eachCluster(t *testing.T, fn func(t *testing.T, c cluster)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for _, first := range []bool{true, false} {
			for _, named := range []bool{true, false} {
				for _, skip := range []bool{true, false} {
					name := fmt.Sprintf("first %t, source named %t, transactions %t", first, named, !skip)
					t.Run(name, func(t *testing.T) {
						fn(t, openCluster(t, target, first, named, &gorm.Config{SkipDefaultTransaction: skip}))
					})
				}
			}
		}
	})
}

func openCluster(t *testing.T, target dbtest.Target, first, named bool, cfg *gorm.Config) cluster {
	t.Helper()
	source := target.DSN(t)
	c := cluster{source: migrate(t, target, source), numbers: newLedger(t)}
	var config dbresolver.Config
	if named {
		config.Sources = []gorm.Dialector{target.Dialector(source)}
	}
	for range 2 {
		replica := target.DSN(t)
		c.replicas = append(c.replicas, migrate(t, target, replica))
		config.Replicas = append(config.Replicas, target.Dialector(replica))
	}
	c.db = target.OpenDSN(t, source, cfg)
	plugin, resolver := snowflakeplugin.New(snowflakeplugin.WithSource(c.numbers)), dbresolver.Register(config)
	plugins := []gorm.Plugin{resolver, plugin}
	if first {
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
	return c
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
