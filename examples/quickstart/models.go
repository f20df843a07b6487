package main

import "github.com/snowflakeplugin/snowflakeplugin"

// User, Order, Item and Tag form a small shop. Each key has the tag snowflake:"true", and the
// plugin needs nothing else. A foreign key is a plain field of the same type.
type User struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email  string             `gorm:"uniqueIndex"`
	Name   string
	Orders []Order
}

// Order belongs to a user, has many items, and shares its tags with other orders.
type Order struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true" json:"id"`
	UserID snowflakeplugin.ID `json:"user_id"`
	Number int                `json:"number"`
	Items  []Item             `json:"-"`
	Tags   []Tag              `gorm:"many2many:order_tags" json:"-"`
}

// Item is a line of an order.
type Item struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	OrderID snowflakeplugin.ID
	Name    string
}

// Tag is a unique word that many orders may share.
type Tag struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Word string             `gorm:"uniqueIndex"`
}
