package partition_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/partition"
)

type Order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
}

// The statements for MySQL and MariaDB. On PostgreSQL there are several.
func ExampleByShard() {
	db := exampleDB() // it uses the plugin
	statements, err := partition.ByShard(db, &Order{}, 16)
	check(err)
	fmt.Println(statements[0])
	// Output: ALTER TABLE `orders` PARTITION BY HASH (`id`) PARTITIONS 16
}

// Two months, and later a third, before it begins.
func ExampleByMonth() {
	db := exampleDB() // it uses the plugin
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	statements, err := partition.ByMonth(db, &Order{}, november, november.AddDate(0, 1, 0))
	check(err)
	fmt.Println(statements[0])
	later, err := partition.AddMonth(db, &Order{}, november.AddDate(0, 2, 0))
	check(err)
	fmt.Println(later)
	// Output:
	// ALTER TABLE `orders` PARTITION BY RANGE (`id`) (PARTITION `p2026_11` VALUES LESS THAN (253309118054400000), PARTITION `p2026_12` VALUES LESS THAN (264543141888000000), PARTITION `p_later` VALUES LESS THAN MAXVALUE)
	// ALTER TABLE `orders` REORGANIZE PARTITION `p_later` INTO (PARTITION `p2027_01` VALUES LESS THAN (275777165721600000), PARTITION `p_later` VALUES LESS THAN MAXVALUE)
}

// exampleDB returns a handle for MySQL without a server. The plugin has its number, and is in the configuration, so
// it asks for nothing before the first create. A program calls db.Use.
func exampleDB() *gorm.DB {
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	_, err := plugin.NextID(context.Background())
	check(err)
	db, err := gorm.Open(
		mysql.New(mysql.Config{DSN: "tcp(127.0.0.1:1)/shop", SkipInitializeWithVersion: true}),
		&gorm.Config{DisableAutomaticPing: true, Plugins: map[string]gorm.Plugin{plugin.Name(): plugin}},
	)
	check(err)
	return db
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
