// Command minimal is the program of the README. It shows the plugin in as few lines as possible.
package main

import (
	"context"
	"fmt"
	"log"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

type Order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
}

func main() {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	check(err)
	plugin := snowflakeplugin.New() // leases a node number from this very database
	check(db.Use(plugin))
	check(db.AutoMigrate(&Order{}))

	order := Order{Total: 990}
	check(db.Create(&order).Error)
	fmt.Println(order.ID)                     // set before the INSERT
	check(plugin.Close(context.Background())) // gives the number back
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
