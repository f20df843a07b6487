package filling_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type rivalOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	UserID int64
}

type rivalOther struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

// rival has what gorm.io/sharding v0.6.2 keeps of its models, under the same names. The module itself would be a
// dependency for this one test.
type rival struct {
	configs map[string]rivalConfig
	_config rivalConfig
}

type rivalConfig struct {
	PrimaryKeyGenerator           int
	ShardingAlgorithmByPrimaryKey func(id int64) (suffix string)
}

func (*rival) Name() string              { return "gorm:sharding" }
func (*rival) Initialize(*gorm.DB) error { return nil }

// With a key of the plugin, gorm.io/sharding would look for the row in a wrong table.
func TestAModelThatGormShardingSpreadsByItsOwnKeysGetsNone(t *testing.T) {
	t.Parallel()
	const custom = 3 // PKCustom
	for name, c := range map[string]struct {
		of      rivalConfig
		refused bool
	}{
		"its own keys":            {rivalConfig{}, true},
		"keys of the application": {rivalConfig{PrimaryKeyGenerator: custom}, false},
		"tables by the same keys": {rivalConfig{ShardingAlgorithmByPrimaryKey: func(int64) string { return "_0" }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.Named("sqlite").Open(t, nil)
			suite.Must(t, db.Use(&rival{map[string]rivalConfig{"rival_orders": c.of}, c.of}), "Use")
			suite.Must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
			suite.Must(t, db.AutoMigrate(&rivalOrder{}, &rivalOther{}), "AutoMigrate")
			order := rivalOrder{UserID: 1}
			err := db.Create(&order).Error
			if c.refused {
				suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Create")
				suite.Says(t, err, "gorm.io/sharding", "rival_orders", "ShardingAlgorithmByPrimaryKey")
			} else {
				suite.Must(t, err, "Create")
			}
			suite.Must(t, db.Create(&rivalOther{}).Error, "Create of a model that it does not spread")
		})
	}
}
