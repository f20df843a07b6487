package main

import "github.com/snowflakeplugin/snowflakeplugin"

// Invoice has a key that nobody reads, and a number that people read.
type Invoice struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number  string             `gorm:"size:24;uniqueIndex" snowflake:"from:invoice"`
	OrderID snowflakeplugin.ID `gorm:"uniqueIndex"` // an order has one invoice
}

// Order has a short number for the telephone beside its key.
type Order struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number int32              `gorm:"uniqueIndex" snowflake:"from:order"`
}
