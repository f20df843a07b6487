// Package ecosystem_test runs the plugin beside other people's: dbresolver, gen, YAML. They have
// modules of their own, which must not become requirements of everybody who uses the plugin.
package ecosystem_test

import (
	"context"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// customer has a key, a public ID that must never change, and children.
type customer struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
	Email    string             `gorm:"size:100;uniqueIndex"`
	Name     string             `gorm:"size:100"`
	Orders   []purchase
	Marks    []mark `gorm:"many2many:customer_marks"`
}

// purchase has a plain integer key.
type purchase struct {
	ID         int64 `gorm:"primaryKey" snowflake:"true"`
	CustomerID snowflakeplugin.ID
	Total      int64
}

// mark is shared by customers, and known by its code.
type mark struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Code string             `gorm:"size:20;uniqueIndex"`
}

var allModels = []any{&customer{}, &purchase{}, &mark{}}

// ledger is a source that notes how many numbers each reservation was for.
type ledger struct {
	*generator.Generator
	mu    sync.Mutex
	sizes []int // guarded by mu
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	numbers, err := generator.New(generator.Default(), generator.FixedNode(3))
	must(t, err, "a generator")
	return &ledger{Generator: numbers}
}

// Fill implements snowflakeplugin.Source.
func (l *ledger) Fill(ctx context.Context, ids []int64) error {
	l.mu.Lock()
	l.sizes = append(l.sizes, len(ids))
	l.mu.Unlock()
	return l.Generator.Fill(ctx, ids)
}

// take returns the sizes of the reservations since the last call.
func (l *ledger) take() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := l.sizes
	l.sizes = nil
	return sizes
}

// migrate creates the tables, by a handle that no other plugin has touched.
func migrate(t *testing.T, target dbtest.Target, dsn string) *gorm.DB {
	t.Helper()
	db := target.OpenDSN(t, dsn, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	must(t, plugin.Prepare(db, allModels...), "Prepare")
	must(t, db.AutoMigrate(allModels...), "AutoMigrate")
	return db
}

// storedCustomer fails the test unless the row of the customer equals the struct, children
// included. It reads by a handle of its own.
func storedCustomer(t *testing.T, db *gorm.DB, c *customer) {
	t.Helper()
	if c.ID == 0 || c.PublicID == 0 || c.ID == c.PublicID {
		t.Fatalf("%s has the IDs %v and %v", c.Email, c.ID, c.PublicID)
	}
	var got customer
	err := db.Preload("Orders").Preload("Marks").Where("id = ?", c.ID).Take(&got).Error
	must(t, err, "read "+c.Email)
	if got.PublicID != c.PublicID || got.Email != c.Email || got.Name != c.Name {
		t.Errorf("the row is %+v, the struct %+v", got, c)
	}
	if len(got.Orders) != len(c.Orders) || len(got.Marks) != len(c.Marks) {
		t.Fatalf("the row has %d orders and %d marks, the struct %d and %d",
			len(got.Orders), len(got.Marks), len(c.Orders), len(c.Marks))
	}
	for _, order := range c.Orders {
		var row purchase
		must(t, db.Where("id = ?", order.ID).Take(&row).Error, "read an order")
		if row != order || order.CustomerID != c.ID {
			t.Errorf("the order is %+v, the struct %+v", row, order)
		}
	}
	for _, m := range c.Marks {
		var row mark
		must(t, db.Where("id = ?", m.ID).Take(&row).Error, "read a mark")
		if row != m {
			t.Errorf("the mark is %+v, the struct %+v", row, m)
		}
	}
}

// holds fails the test unless there are so many rows of the model.
func holds(t *testing.T, db *gorm.DB, model any, want int64) {
	t.Helper()
	var got int64
	must(t, db.Model(model).Count(&got).Error, "count")
	if got != want {
		t.Errorf("the table of %T has %d rows, want %d", model, got, want)
	}
}

// empty deletes the rows of models, or of tables that are given by their names.
func empty(t *testing.T, db *gorm.DB, models ...any) {
	t.Helper()
	for _, model := range models {
		tx := db.Session(&gorm.Session{AllowGlobalUpdate: true})
		if table, ok := model.(string); ok {
			must(t, tx.Table(table).Delete(nil).Error, "empty "+table)
			continue
		}
		must(t, tx.Delete(model).Error, "empty a table")
	}
}

// must ends the test on an error.
func must(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}
