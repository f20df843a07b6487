package client_test

import (
	"fmt"
	"log"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/server/client"
)

// A program whose rows get their keys from two replicas of the service.
func Example() {
	ids, err := client.New([]string{"http://127.0.0.1:7070", "http://127.0.0.1:7072"})
	if err != nil {
		log.Print(err)
		return
	}
	defer ids.Close()
	db, err := gorm.Open(sqlite.Open("shop.db"), &gorm.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	if err := db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(ids))); err != nil {
		log.Print(err)
		return
	}
	type Order struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
	order := Order{}
	err = db.Create(&order).Error
	fmt.Println(order.ID, err)
}
