package statements_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// quay is a model whose rows a stranger makes as well.
type quay struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"size:40"`
	Size  int
	Free  bool
	Since time.Time
	Boats []quayBoat
}

type quayBoat struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	QuayID snowflakeplugin.ID
	Name   string `gorm:"size:40"`
}

// A harbor has a stranger that makes the same keys: when a key was made, and before GORM begins a transaction,
// it stores a row with that key on a connection of its own.
type harbor struct {
	db, theirs *gorm.DB
	plugin     *snowflakeplugin.Plugin
	table      string // in which the stranger stores its next row; empty: it stores none
	equal      bool   // the row is as the program sends it
	key        int64  // of the last row of the stranger
}

func openHarbor(
	t *testing.T, target dbtest.Target, cfg *gorm.Config, settings []dbtest.Option, opts ...snowflakeplugin.Option,
) *harbor {
	t.Helper()
	// On SQLite, a transaction that the application begins leaves the stranger the lock until it writes itself.
	dsn := strings.Replace(target.DSN(t), "_txlock=immediate", "_txlock=deferred", 1)
	h := &harbor{
		db: target.OpenDSN(t, dsn, cfg, settings...), theirs: target.OpenDSN(t, dsn, &gorm.Config{}),
		plugin: snowflakeplugin.New(opts...),
	}
	must(t, h.db.Use(h.plugin), "use the plugin")
	t.Cleanup(func() { _ = h.plugin.Close(context.Background()) })
	must(t, h.db.AutoMigrate(&quay{}, &quayBoat{}), "make the tables")
	must(t, h.theirs.Table("quays").Create(map[string]any{"id": 1, "name": "theirs"}).Error, "store a row")
	next := "gorm:begin_transaction"
	if cfg.SkipDefaultTransaction {
		next = "gorm:before_create"
	}
	must(t, h.db.Callback().Create().After("snowflake:fill").Before(next).Register("stranger",
		func(tx *gorm.DB) {
			if tx.Statement.Table != h.table || tx.Error != nil {
				return
			}
			h.key = firstKeyOf(tx.Statement)
			h.table = ""
			row := map[string]any{"id": h.key, "name": "theirs", "size": 1, "free": true}
			if tx.Statement.Table == "quay_boats" {
				row = map[string]any{"id": h.key, "name": "theirs", "quay_id": 1}
			}
			if h.equal {
				row["name"], row["size"], row["free"] = "ours", 7, false
			}
			if err := h.theirs.Table(tx.Statement.Table).Create(row).Error; err != nil {
				t.Errorf("the stranger: %v", err)
			}
		}), "register the stranger")
	return h
}

func firstKeyOf(stmt *gorm.Statement) int64 {
	v := reflect.Indirect(reflect.ValueOf(stmt.Dest))
	if v.Kind() == reflect.Slice {
		v = reflect.Indirect(v.Index(0))
	}
	if v.Kind() == reflect.Map {
		id, _ := v.Interface().(map[string]any)["id"].(snowflakeplugin.ID)
		return id.Int64()
	}
	return v.FieldByName("ID").Int()
}

func newQuay() quay { return quay{Name: "ours", Size: 7, Since: time.Now()} }

// meet lets a create meet a row of the stranger.
func (h *harbor) meet(t *testing.T, table string, create func(tx *gorm.DB) error) {
	t.Helper()
	h.table = table
	err := create(h.db)
	if !errors.Is(err, snowflakeplugin.ErrContested) {
		t.Fatalf("the error of the create is %v", err)
	}
	if h.table != "" {
		t.Fatal("the stranger stored no row")
	}
}

// meetings are the ways in which a new key meets the row of a stranger.
func meetings(dialect string) map[string]func(tx *gorm.DB) error {
	ways := map[string]func(tx *gorm.DB) error{
		"a struct": func(tx *gorm.DB) error { b := newQuay(); return tx.Create(&b).Error },
		"a slice":  func(tx *gorm.DB) error { return tx.Create(&[]quay{newQuay(), newQuay()}).Error },
		"a map": func(tx *gorm.DB) error {
			return tx.Model(&quay{}).Create(map[string]any{"name": "ours", "size": 7, "free": false}).Error
		},
		"DoNothing": func(tx *gorm.DB) error {
			b := newQuay()
			return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&b).Error
		},
		"DoUpdates": func(tx *gorm.DB) error {
			return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&[]quay{newQuay(), newQuay()}).Error
		},
		// It has the only connection of the pool for longer than the create lasts.
		"on a connection": func(tx *gorm.DB) error {
			return tx.Connection(func(tx *gorm.DB) error { b := newQuay(); return tx.Create(&b).Error })
		},
		"on a handle that is left of a connection": func(tx *gorm.DB) error {
			var left *gorm.DB
			err := tx.Connection(func(tx *gorm.DB) error {
				left = tx
				return tx.Model(&quay{}).Where("id = 1").Update("size", 2).Error
			})
			b := newQuay()
			// On the pool: GORM leaves the connection after an update.
			return errors.Join(err, left.Create(&b).Error)
		},
		"in a transaction of the application": func(tx *gorm.DB) error {
			err := tx.Transaction(func(tx *gorm.DB) error { b := newQuay(); return tx.Create(&b).Error })
			// Nothing can be asked in there, so the next create outside of it asks.
			return errors.Join(err, tx.Create(&quay{Name: "later"}).Error)
		},
		"in a transaction of the application on a connection": func(tx *gorm.DB) error {
			return tx.Connection(func(tx *gorm.DB) error {
				err := tx.Transaction(func(tx *gorm.DB) error { b := newQuay(); return tx.Create(&b).Error })
				return errors.Join(err, tx.Create(&quay{Name: "later"}).Error)
			})
		},
		"in a transaction of the application on a connection, before an update": func(tx *gorm.DB) error {
			return tx.Connection(func(tx *gorm.DB) error {
				err := tx.Transaction(func(tx *gorm.DB) error { b := newQuay(); return tx.Create(&b).Error })
				return errors.Join(err, tx.Model(&quay{}).Where("id = 1").Update("size", 2).Error)
			})
		},
	}
	if dialect != "sqlite" { // whose transaction has the lock by then, and the stranger stores nothing
		ways["a child"] = func(tx *gorm.DB) error {
			b := newQuay()
			b.Boats = []quayBoat{{Name: "ours"}}
			return tx.Create(&b).Error
		}
	}
	return ways
}

func TestARowOfSomebodyElseIsAWitness(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for name, create := range meetings(target.Dialect) {
			for mode, cfg := range map[string]*gorm.Config{
				"plain": {}, "SkipDefaultTransaction": {SkipDefaultTransaction: true},
				"TranslateError": {TranslateError: true}, "PrepareStmt": {PrepareStmt: true},
			} {
				if mode != "plain" && name != "a struct" && name != "a slice" && name != "on a connection" {
					continue
				}
				t.Run(name+" "+mode, func(t *testing.T) {
					// One connection: what is asked in the transaction of a create would wait for itself.
					h := openHarbor(t, target, cfg, []dbtest.Option{dbtest.MaxOpenConns(1)}, snowflakeplugin.WithNode(7))
					table := map[bool]string{true: "quay_boats", false: "quays"}[name == "a child"]
					h.meet(t, table, create)
					health := h.plugin.Health(t.Context())
					want := fmt.Sprintf("%s has a row of somebody else with the key %d, of node 7", table, h.key)
					if health.State != "contested" || !health.Ready || !strings.HasSuffix(health.Contested, want) {
						t.Errorf("the health is %+v, where the witness is %q", health, want)
					}
				})
			}
		}
	})
}

// A proxy or a cluster that sends an INSERT twice meets its own row.
func TestAnEqualRowIsNoWitness(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		h := openHarbor(t, target, &gorm.Config{}, nil, snowflakeplugin.WithNode(7))
		h.equal = true
		h.meet(t, "quays", meetings(target.Dialect)["a struct"])
		h.meet(t, "quays", meetings(target.Dialect)["a slice"])
		if health := h.plugin.Health(t.Context()); health.State != "by_hand" || health.Contested != "" {
			t.Errorf("the health is %+v", health)
		}
	})
}

// The next creates have another number, so they succeed.
func TestALeasedNumberIsLeftAfterTwoWitnesses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		h := openHarbor(t, target, &gorm.Config{}, nil, snowflakeplugin.WithLease(nil, lease.WithNodes(10, 11)))
		node := h.plugin.Health(t.Context()).Node
		h.meet(t, "quays", meetings(target.Dialect)["a struct"])
		if health := h.plugin.Health(t.Context()); health.State != "contested" || health.Node != node {
			t.Errorf("after one witness the health is %+v, and the node was %d", health, node)
		}
		h.meet(t, "quays", meetings(target.Dialect)["a struct"])
		for range 600 {
			if h.plugin.Health(t.Context()).Node != node {
				break
			}
			time.Sleep(100 * time.Millisecond) // the store is asked in the background
		}
		health := h.plugin.Health(t.Context())
		if health.State != "leased" || health.Node == node || health.Contested != "" {
			t.Fatalf("after two witnesses the health is %+v, and the node was %d", health, node)
		}
		b := newQuay()
		must(t, h.db.Create(&b).Error, "create a row with the other number")
		if parts, err := h.plugin.Layout().Decompose(b.ID.Int64()); err != nil || parts.Node != health.Node {
			t.Errorf("the key of the next row is of %+v, %v", parts, err)
		}
	})
}

// A key that the application gave says nothing of who makes IDs, also beside one that was made.
func TestAKeyThatTheApplicationGaveIsNoWitness(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		h := openHarbor(t, target, &gorm.Config{}, nil, snowflakeplugin.WithNode(7))
		key, err := h.plugin.NextID(t.Context())
		must(t, err, "make a key")
		must(t, h.theirs.Table("quays").Create(map[string]any{
			"id": key.Int64(), "name": "theirs", "size": 1, "free": true,
		}).Error, "store a row")
		given := newQuay()
		given.ID = key
		one, two := given, []quay{given, newQuay()}
		for what, rows := range map[string]any{"a struct": &one, "a slice": &two} {
			if err := h.db.Create(rows).Error; err == nil || errors.Is(err, snowflakeplugin.ErrContested) {
				t.Errorf("%s: the error is %v", what, err)
			}
			if health := h.plugin.Health(t.Context()); health.State != "by_hand" {
				t.Errorf("%s: the health is %+v", what, health)
			}
		}
	})
}
