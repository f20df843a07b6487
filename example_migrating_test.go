package snowflakeplugin_test

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A program goes on with the IDs of bwmarrin/snowflake while other programs still use that library.
func ExampleWithLayout_migrating() {
	db := exampleDB()
	plugin := snowflakeplugin.New(
		snowflakeplugin.WithLayout(generator.Twitter()),
		snowflakeplugin.WithLease(nil, lease.WithNodes(512, 1023)), // the old programs have 0 to 511
	)
	exampleCheck(db.Use(plugin))
	defer plugin.Close(context.Background())

	old := snowflakeplugin.ID(1541815603606036480) // of a library with the epoch of Twitter
	made, err := old.Time(plugin.Layout())
	exampleCheck(err)
	id, err := plugin.NextID(context.Background())
	exampleCheck(err)
	fmt.Println(made.UTC().Format(time.RFC3339Nano), id > old)
	// Output: 2022-06-28T16:07:40.105Z true
}

// The bits of sonyflake are in another order. Its times have the same place in this layout.
func ExampleWithLayout_sonyflake() {
	sonyflake := generator.Layout{
		Name: "sonyflake", Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Tick: 10 * time.Millisecond,
		TimeBits: 39, Node: []generator.Field{{Name: "machine", Bits: 16}}, SequenceBits: 8,
	}
	const ticks, sequence, machine = 5_000_000_000, 3, 77
	parts, err := sonyflake.Decompose(ticks<<24 | sequence<<16 | machine) // as sonyflake composes it
	exampleCheck(err)
	fmt.Println(parts.Time.UTC().Format(time.RFC3339))
	// Output: 2026-08-02T16:53:20Z
}

type copied struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
}

// copyOf stores a row a second time, as a hook may do.
func copyOf(db *gorm.DB, row copied) error {
	another := row
	another.ID = 0 // otherwise it is stored under the key of the first
	return db.Create(&another).Error
}

// A hook that stores a copy of its row has to take the ID out of the copy.
func ExamplePlugin_copy() {
	db := exampleDB()
	exampleCheck(db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))))
	exampleCheck(db.AutoMigrate(&copied{}))
	row := copied{Name: "first"}
	exampleCheck(db.Create(&row).Error)
	exampleCheck(copyOf(db, row))
	var rows int64
	exampleCheck(db.Model(&copied{}).Count(&rows).Error)
	fmt.Println(rows)
	// Output: 2
}
