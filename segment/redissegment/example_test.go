package redissegment_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
)

// Orders are numbered by a counter in Redis.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()
	// One replica, which has to confirm; it is refused if the server is set to forget.
	store, err := redissegment.New(ctx, client, "snowflake:", redissegment.WithStrict(1, 2*time.Second))
	if err != nil {
		log.Print(err)
		return
	}
	orders, err := segment.New(store, "orders")
	if err != nil {
		log.Print(err)
		return
	}
	defer orders.Close()
	number, err := orders.Next(ctx)
	fmt.Println(number, err)
}
