package main

import "github.com/snowflakeplugin/snowflakeplugin"

// Customer may be on any shard.
type Customer struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
	Gold int64
}

// Order is colocated with its customer.
type Order struct {
	ID         snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:CustomerID"`
	CustomerID snowflakeplugin.ID `gorm:"index"`
	Number     int
	Items      []Item
}

// Item is colocated with its order, and so with the customer.
type Item struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID `gorm:"index"`
	Price   int64
}

// Visit may be on any shard. The shard of its customer does not matter.
type Visit struct {
	ID         snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	CustomerID snowflakeplugin.ID `gorm:"index"`
}
