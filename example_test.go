package snowflakeplugin_test

import (
	"fmt"
	"log"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// Invoice and Line are a row and the rows that belong to it.
type Invoice struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
	Lines []Line
}

type Line struct {
	ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	InvoiceID snowflakeplugin.ID
	Text      string
}

func Example() {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	// No other running process may have the node number 1.
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if err := db.Use(plugin); err != nil {
		log.Fatal(err)
	}
	if err := db.AutoMigrate(&Invoice{}, &Line{}); err != nil {
		log.Fatal(err)
	}

	invoice := Invoice{Total: 990, Lines: []Line{{Text: "book"}, {Text: "pen"}}}
	if err := db.Create(&invoice).Error; err != nil {
		log.Fatal(err)
	}

	var found Invoice
	if err := db.Preload("Lines").First(&found, invoice.ID).Error; err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Total, found.Lines[0].Text, found.Lines[1].Text)
	fmt.Println("the lines came after the invoice:", found.Lines[0].ID > found.ID)
	// Output:
	// 990 book pen
	// the lines came after the invoice: true
}
