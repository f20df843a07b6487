package snowflakeplugin_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/opaque"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

type CountedInvoice struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number string             `gorm:"size:24;uniqueIndex" snowflake:"from:invoice"`
	Serial int32              `snowflake:"from:serial"`
}

// Invoices have readable numbers of the day beside their IDs.
func ExampleWithNumbers() {
	db, err := gorm.Open(sqlite.Open("file:invoices?mode=memory&cache=shared"), &gorm.Config{})
	must(err)
	store, err := gormsegment.New(db)
	must(err)
	defer store.Close()
	invoices, err := segment.Daily(store, "invoice", 6, time.UTC,
		segment.WithText(func(n int64) string { return fmt.Sprintf("SO-%d-%06d", n/1e6, n%1e6) }))
	must(err)
	defer invoices.Close()
	serials, err := segment.New(store, "serial", segment.WithStart(5000))
	must(err)
	defer serials.Close()

	plugin := snowflakeplugin.New(
		snowflakeplugin.WithNumbers("invoice", invoices),
		snowflakeplugin.WithNumbers("serial", serials),
	)
	must(db.Use(plugin))
	defer plugin.Close(context.Background())
	must(db.AutoMigrate(&CountedInvoice{}))
	rows := []CountedInvoice{{}, {}}
	must(db.Create(&rows).Error)
	for _, row := range rows {
		fmt.Println(row.Number[strings.LastIndexByte(row.Number, '-')+1:], row.Serial) // without the day
	}
	// Output:
	// 000001 5000
	// 000002 5001
}

// must ends the program if something cannot be done.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// An address shows a sealed ID.
func ExampleID_sealed() {
	codec, err := opaque.New([]byte("0123456789abcdef"))
	must(err)
	address := "/orders/" + codec.Seal("order", 1)
	id, err := codec.Open("order", "6pZL6MyBZji8K3WXe5dq1P")
	must(err)
	fmt.Println(address, id)
	// Output: /orders/6pZL6MyBZji8K3WXe5dq1P 1
}
