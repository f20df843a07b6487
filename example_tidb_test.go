package snowflakeplugin_test

import (
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// The key layouts of docs/tidb.md. test/tidb runs them on TiDB.

func exampleHashed(db *gorm.DB) error {
	type Order struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Total int64
	}
	options := db.Set("gorm:table_options", " PARTITION BY HASH (id) PARTITIONS 16")
	return options.AutoMigrate(&Order{})
}

func exampleScattered(db *gorm.DB) error {
	type Order struct {
		ID    snowflakeplugin.ID `gorm:"type:bigint PRIMARY KEY /*T![clustered_index] NONCLUSTERED */" snowflake:"true"`
		Total int64
	}
	options := db.Set("gorm:table_options", " /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=4 */")
	return options.AutoMigrate(&Order{})
}

var _, _ = exampleHashed, exampleScattered // they need a TiDB
