package segment_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

// A counter in the application's own database. The next process goes on behind the last block of this one.
func Example() {
	ctx := context.Background()
	db, err := gorm.Open(sqlite.Open("file:counted?mode=memory&cache=shared"), &gorm.Config{})
	check(err)
	store, err := gormsegment.New(db)
	check(err)
	defer store.Close()

	tickets, err := segment.New(store, "ticket", segment.WithStart(1000), segment.WithBlock(1, 1)) // without gaps
	check(err)
	defer tickets.Close()
	for range 3 {
		number, err := tickets.Next(ctx)
		check(err)
		fmt.Println(number)
	}
	// Output:
	// 1000
	// 1001
	// 1002
}

// Numbers that begin anew each day, of two digits for the count.
func ExampleDaily() {
	ctx := context.Background()
	db, err := gorm.Open(sqlite.Open("file:daily?mode=memory&cache=shared"), &gorm.Config{})
	check(err)
	store, err := gormsegment.New(db)
	check(err)
	defer store.Close()

	var minutes atomic.Int64 // The clock is asked from several goroutines.
	clock := func() time.Time {
		return time.Date(2026, 11, 21, 23, 59+int(minutes.Load()), 0, 0, time.UTC)
	}
	invoices, err := segment.Daily(store, "invoice", 2, time.UTC, segment.WithClock(clock))
	check(err)
	defer invoices.Close()
	for range 2 {
		number, err := invoices.Next(ctx)
		check(err)
		fmt.Println(number)
		minutes.Add(1)
	}
	// Output:
	// 2026112101
	// 2026112201
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
