package snowflakeplugin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// Orders are spread over sixteen tables, and the items of each order are colocated with it.
func ExampleRouter() {
	type Item struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
		OrderID snowflakeplugin.ID `gorm:"index"`
		Name    string
	}
	type Order struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Total int64
		Items []Item
	}
	ctx, db := context.Background(), exampleDB()
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	exampleCheck(db.Use(plugin))
	defer func() { exampleCheck(plugin.Close(ctx)) }()

	run := func() error {
		router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
			Shards:    16,
			Databases: []*gorm.DB{db}, // one or many
		}, &Order{}, &Item{})
		if err != nil {
			return err
		}
		if err := router.AutoMigrate(ctx); err != nil { // orders_00 to orders_15, items_00 to items_15
			return err
		}

		orders := make([]Order, 100)
		for i := range orders {
			orders[i] = Order{Total: int64(i), Items: []Item{{Name: "a"}, {Name: "b"}}}
		}
		if err := router.Create(ctx, orders); err != nil { // each on its shard, its items beside it
			return err
		}

		id := orders[7].ID
		shard, err := router.DB(ctx, &Order{}, id) // an ordinary *gorm.DB
		if err != nil {
			return err
		}
		var order Order
		if err := shard.Preload("Items").First(&order, id).Error; err != nil {
			return err
		}

		var newest []Order
		if err := router.Latest(ctx, &newest, 10); err != nil { // of all shards, newest first
			return err
		}
		cursor := newest[len(newest)-1].ID
		var next []Order
		if err := router.Before(ctx, &next, cursor, 10); err != nil {
			return err
		}

		fmt.Println(order.Total, len(order.Items), newest[0].Total, next[0].Total)
		return nil
	}
	exampleCheck(run())
	// Output: 7 2 99 89
}

// A transaction runs on one shard and returns an error if another shard is used.
func ExampleRouter_Transaction() {
	type Account struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Gold int64
	}
	type Entry struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:AccountID"`
		AccountID snowflakeplugin.ID
		Gold      int64
	}
	ctx, db := context.Background(), exampleDB()
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	exampleCheck(db.Use(plugin))
	defer func() { exampleCheck(plugin.Close(ctx)) }()
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &Account{}, &Entry{})
	exampleCheck(err)
	exampleCheck(router.AutoMigrate(ctx))
	accounts := []Account{{Gold: 10}, {Gold: 20}}
	exampleCheck(router.Create(ctx, accounts))

	pay := func(tx *snowflakeplugin.ShardTx, id snowflakeplugin.ID, gold int64) error {
		account, err := tx.DB(&Account{}, id)
		if err != nil {
			return err
		}
		if err := account.Where("id = ?", id).Update("gold", gorm.Expr("gold + ?", gold)).Error; err != nil {
			return err
		}
		return tx.Create(&Entry{AccountID: id, Gold: gold})
	}
	err = router.Transaction(ctx, accounts[0].ID, func(tx *snowflakeplugin.ShardTx) error {
		return pay(tx, accounts[0].ID, 5)
	})
	fmt.Println(err)
	err = router.Transaction(ctx, accounts[0].ID, func(tx *snowflakeplugin.ShardTx) error {
		if err := pay(tx, accounts[0].ID, 7); err != nil {
			return err
		}
		return pay(tx, accounts[1].ID, -7) // on another shard: all of it is rolled back
	})
	fmt.Println(errors.Is(err, snowflakeplugin.ErrCrossShard))

	var gold int64
	_, err = router.Aggregate(ctx, &Account{}, "sum", "Gold", &gold)
	exampleCheck(err)
	entries, err := router.Count(ctx, &Entry{})
	fmt.Println(gold, entries, err)
	// Output:
	// <nil>
	// true
	// 35 1 <nil>
}
