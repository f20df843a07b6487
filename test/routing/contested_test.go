package routing_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestContestedKeys(t *testing.T) {
	run(t, []behavior{{Name: "a row with a new key that is there already is refused on every shard",
		Run: contestedOnShards}})
}

// usurp makes somebody else store a row with the key of each new row of some tables, right before that is
// inserted.
func usurp(t *testing.T, db *gorm.DB, prefix *string) {
	t.Helper()
	err := db.Callback().Create().After("snowflake:fill").Before("gorm:create").Register("test:usurp",
		func(tx *gorm.DB) {
			if *prefix == "" || !strings.HasPrefix(tx.Statement.Table, *prefix) || tx.Error != nil {
				return
			}
			row := reflect.Indirect(tx.Statement.ReflectValue)
			if row.Kind() == reflect.Slice {
				row = reflect.Indirect(row.Index(row.Len() - 1))
			}
			columns := map[string]string{
				"trades":       "(id, code) VALUES (?, 'theirs')",
				"trade_items":  "(id, trade_id, name) VALUES (?, ?, 'theirs')",
				"trade_labels": "(id, name) VALUES (?, 'theirs')",
			}
			args := []any{row.FieldByName("ID").Int()}
			if *prefix == "trade_items" {
				args = append(args, row.FieldByName("TradeID").Int())
			}
			query := "INSERT INTO " + tx.Statement.Table + " " + columns[*prefix]
			if tx.Name() == "postgres" {
				query = strings.Replace(strings.Replace(query, "?", "$1", 1), "?", "$2", 1)
			}
			_, err := tx.Statement.ConnPool.ExecContext(t.Context(), query, args...)
			_ = tx.AddError(err)
		})
	must(t, err, "Register")
}

func contestedOnShards(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target}, nil, tradeModels...)
	prefix := ""
	usurp(t, s.dbs[0], &prefix)
	number := 0
	code := func() string { number++; return strings.Repeat("x", number) }
	tree := func() *trade { return &trade{Code: code(), Items: []tradeItem{{Name: "a"}, {Name: "b"}}} }
	for _, c := range []struct {
		name, prefix string
		create       func(db *gorm.DB) error
	}{
		{"Router.Create", "trades", func(*gorm.DB) error {
			return s.router.Create(t.Context(), &trade{Code: code()})
		}},
		{"Router.Create of many", "trades", func(*gorm.DB) error {
			return s.router.Create(t.Context(), []trade{{Code: code()}, {Code: code()}, {Code: code()}})
		}},
		{"Router.Create of a tree", "trade_items", func(*gorm.DB) error {
			return s.router.Create(t.Context(), tree())
		}},
		{"Create", "trades", func(db *gorm.DB) error { return db.Create(&trade{Code: code()}).Error }},
		{"Create of a tree", "trade_items", func(db *gorm.DB) error { return db.Create(tree()).Error }},
		{"Create of labels", "trade_labels", func(db *gorm.DB) error {
			return db.Create(&trade{Code: code(), Labels: []tradeLabel{{Name: "a"}}}).Error
		}},
		{"Save of a slice", "trades", func(db *gorm.DB) error { return db.Save(&[]trade{{Code: code()}}).Error }},
		{"DoNothing", "trades", func(db *gorm.DB) error {
			return db.Clauses(clause.OnConflict{DoNothing: true}).Create(&trade{Code: code()}).Error
		}},
		{"a transaction of a shard", "trade_items", func(*gorm.DB) error {
			return s.router.Transaction(t.Context(), s.id(1), func(tx *snowflakeplugin.ShardTx) error {
				return tx.Create(tree())
			})
		}},
	} {
		for _, sent := range []string{"", c.prefix} {
			prefix = sent
			err := c.create(s.on(&trade{}, s.id(1)))
			if sent == "" {
				must(t, err, c.name+" with nobody else")
				continue
			}
			if !errors.Is(err, snowflakeplugin.ErrContested) || !errors.Is(err, gorm.ErrDuplicatedKey) {
				t.Errorf("%s: the error is %v", c.name, err)
			}
		}
	}
}
