package resharding_test

import (
	"context"
	"fmt"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
)

// Order is a model of the example.
type Order struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
}

// A shard is split while the program runs, and its old table is dropped.
func Example() {
	db, err := gorm.Open(sqlite.Open("file:resharding?mode=memory&cache=shared"), &gorm.Config{
		Logger: logger.Discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := split(context.Background(), db); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 4 shards, then 5
	// the shards 1 and 5 have 25 rows, in orders_01_g1 and orders_05_g1
}

func split(ctx context.Context, db *gorm.DB) error {
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if err := db.Use(plugin); err != nil {
		return err
	}
	defer func() { _ = plugin.Close(ctx) }()
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: 4, Databases: []*gorm.DB{db},
	}, &Order{})
	if err != nil {
		return err
	}
	if err := router.AutoMigrate(ctx); err != nil {
		return err
	}
	if err := router.Create(ctx, make([]Order, 100)); err != nil {
		return err
	}
	before := router.Shards()

	stopped, err := resharding.Split(ctx, router, resharding.Class{Residue: 1, Modulus: 4}, 2)
	if err != nil {
		return err
	}
	_ = stopped // some milliseconds
	if err := resharding.Clean(ctx, router); err != nil {
		return err
	}
	fmt.Printf("%d shards, then %d\n", before, router.Shards())
	rows, err := router.Distribution(ctx, &Order{}) // of the shards 0, 1, 2, 3 and 5
	if err != nil {
		return err
	}
	var first, second string
	err = router.Each(ctx, &Order{}, func(shard int, _ *gorm.DB) error {
		table, err := router.Table(&Order{}, snowflakeplugin.ID(8+shard)) // as of any row there
		switch shard {
		case 1:
			first = table
		case 5:
			second = table
		}
		return err
	})
	fmt.Printf("the shards 1 and 5 have %d rows, in %s and %s\n", rows[1]+rows[4], first, second)
	return err
}
