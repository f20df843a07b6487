package main

import "github.com/snowflakeplugin/snowflakeplugin"

// Customer lies anywhere.
type Customer struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
	Gold int64
}

// Order lies beside its customer.
type Order struct {
	ID         snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:CustomerID"`
	CustomerID snowflakeplugin.ID `gorm:"index"`
	Number     int
	Items      []Item
}

// Item lies beside its order, and so beside the customer.
type Item struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID `gorm:"index"`
	Price   int64
}

// Visit lies anywhere, wherever its customer is.
type Visit struct {
	ID         snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	CustomerID snowflakeplugin.ID `gorm:"index"`
}
