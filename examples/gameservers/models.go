package main

import "github.com/snowflakeplugin/snowflakeplugin"

// Player owns items.
type Player struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string
	Gold  int64
	Items []Item
}

// Item belongs to a player.
type Item struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	PlayerID snowflakeplugin.ID `gorm:"index"`
	Name     string
	Amount   int64
}
