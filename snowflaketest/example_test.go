package snowflaketest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/snowflaketest"
)

func ExampleCounting() {
	type Order struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Total int64
	}
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Use(snowflaketest.Counting()); err != nil {
		log.Fatal(err)
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		log.Fatal(err)
	}
	orders := []Order{{Total: 990}, {Total: 1490}}
	fmt.Println(db.Create(&orders).Error, orders[0].ID, orders[1].ID)
	// Output: <nil> 1 2
}

func ExampleAt() {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	plugin := snowflaketest.At(generator.Default(), at)
	id, err := plugin.NextID(context.Background())
	fmt.Println(id, err)
	// Output: 153833648947200000 <nil>
}

// Fields with the tag from: count as well.
func ExampleCounting_numbers() {
	type Invoice struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Number int64              `gorm:"uniqueIndex" snowflake:"from:invoice"`
	}
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	numbers := snowflaketest.Counting(snowflakeplugin.WithNumbers("invoice", &snowflaketest.Counter{}))
	if err := db.Use(numbers); err != nil {
		log.Fatal(err)
	}
	if err := db.AutoMigrate(&Invoice{}); err != nil {
		log.Fatal(err)
	}
	invoices := make([]Invoice, 2)
	fmt.Println(db.Create(&invoices).Error, invoices[0].Number, invoices[1].Number)
	// Output: <nil> 1 2
}

func ExampleCounter() {
	counter := &snowflaketest.Counter{}
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(counter))
	for range 2 {
		id, err := plugin.NextID(context.Background())
		fmt.Println(id, err)
		counter.Reset() // after the tables were emptied
	}
	// Output:
	// 1 <nil>
	// 1 <nil>
}
